package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
)

// observed are the writes that an Observer is told of.
type observed struct {
	mu  sync.Mutex
	all []Write
}

func (o *observed) Observe(_ context.Context, w Write) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, w)
}

func (o *observed) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, w := range o.all {
		text := fmt.Sprintf("%s %s %s/%s", w.Verb, w.Resource, w.Namespace, w.Name)
		if w.Subresource != "" {
			text += " " + w.Subresource
		}
		if w.Owner != (Target{}) {
			text += fmt.Sprintf(" of %s %s/%s", w.Owner.Resource, w.Owner.Namespace, w.Owner.Name)
		}
		text += fmt.Sprintf(": %d", w.Code)
		if w.Message != "" {
			text += " " + w.Message
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// owned is a pod of a ReplicaSet, for which the API server is to find a name.
func owned() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-1-", Namespace: "shop", Annotations: map[string]string{"note": strings.Repeat("x", 3000)},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "u0"},
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "u1", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)},
			},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "ownerReferences", Value: "none"}}}}},
	}
}

func TestAnObserverIsToldOfWrites(t *testing.T) {
	stored := owned()
	stored.Name = "web-1-abcde"
	quota := &apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1-", errors.New("exceeded quota: q")).ErrStatus
	create := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Pods("shop").Create(ctx, owned(), metav1.CreateOptions{})
		return err
	}
	patch := func(body string, subresources ...string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("shop").Patch(ctx, "a", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	good := func(code int, o runtime.Object) func(http.ResponseWriter, bool) {
		return func(w http.ResponseWriter, binary bool) { answer(w, code, binary, o) }
	}
	const mine = "of replicasets.apps shop/web-1"
	for _, test := range []struct {
		name   string
		send   func(context.Context, kubernetes.Interface) error
		answer func(w http.ResponseWriter, binary bool)
		want   string
	}{
		{"a creation, named by the API server", create, good(201, stored), "create pods shop/web-1-abcde " + mine + ": 201"},
		{"a creation that is refused", create, good(403, quota), `create pods shop/web-1-* ` + mine + `: 403 pods "web-1-" is forbidden: exceeded quota: q`},
		{"a named creation", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Secrets("shop").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": "hunter2"}}, metav1.CreateOptions{})
			return err
		}, good(201, &corev1.Secret{}), "create secrets shop/s: 201"},
		{"an update of the status", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("shop").UpdateStatus(ctx, stored, metav1.UpdateOptions{})
			return err
		}, good(200, stored), "update pods shop/web-1-abcde status " + mine + ": 200"},
		{"a patch", patch(`{"metadata":{"labels":{"a":"b"}}}`), good(200, stored), "patch pods shop/a: 200"},
		{"a patch of a subresource", patch(`{}`, "resize"), good(200, stored), "patch pods shop/a resize: 200"},
		{"an adoption", patch(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","uid":"u1","controller":true}]}}`), good(200, stored),
			"patch pods shop/a " + mine + ": 200"},
		{"a deletion of what has no namespace", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{})
		}, good(200, &metav1.Status{}), "delete namespaces /shop: 200"},
		{"a deletion of a collection", func(ctx context.Context, c kubernetes.Interface) error {
			return c.AppsV1().Deployments("shop").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, good(200, &metav1.Status{}), "deletecollection deployments.apps shop/: 200"},
		{"the finalization of a namespace", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Namespaces().Finalize(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.UpdateOptions{})
			return err
		}, good(200, &corev1.Namespace{}), "update namespaces /shop finalize: 200"},
		{"a refusal that is a text", patch(`{}`), func(w http.ResponseWriter, _ bool) { http.Error(w, "no  such\nwebhook", 400) }, "patch pods shop/a: 400 no such webhook"},
		{"an event", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Events("shop").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
			return err
		}, good(201, stored), ""},
		{"a token", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/shop/serviceaccounts/a/token").Do(ctx).Error()
		}, good(201, stored), ""},
		{"a review", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").Do(ctx).Error()
		}, good(201, stored), ""},
		{"MGR-261: a creation that is only judged", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("shop").Create(ctx, owned(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, good(201, stored), ""},
		{"a read", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("shop").Get(ctx, "a", metav1.GetOptions{})
			return err
		}, good(200, stored), ""},
	} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(test.name+" as "+contentType, func(t *testing.T) {
				s := newServer(t)
				s.answer(func(w http.ResponseWriter, _ *http.Request) {
					test.answer(w, contentType == runtime.ContentTypeProtobuf)
				})
				seen := &observed{}
				set := s.prefixed(contentType, nil, Identity{Name: "x", Observer: seen})
				err := test.send(t.Context(), set.Kubernetes)
				if failed := strings.Contains(test.want, ": 4"); (err != nil) != failed {
					t.Errorf("the write returned %v", err)
				}
				if got := seen.String(); got != test.want {
					t.Errorf("told %q, want %q", got, test.want)
				}
				if len(seen.all) == 1 && (seen.all[0].Began.IsZero() || seen.all[0].Took <= 0) {
					t.Errorf("it began at %s and took %s", seen.all[0].Began, seen.all[0].Took)
				}
			})
		}
	}
}

// What is refused before it is sent is told as well, and so is what gets no response.
func TestAnObserverIsToldOfWritesWithoutAResponse(t *testing.T) {
	seen := &observed{}
	s := newServer(t)
	s.answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	fence, breaker := NewFence(), &counter{}
	clients := s.set(Identity{Name: "x", Observer: seen, Deletions: controller.DeletionsBy("x", breaker)}, fence)
	_, _ = clients.Kubernetes.CoreV1().Pods("ns").Update(t.Context(), shrunk(), metav1.UpdateOptions{})
	_ = clients.Kubernetes.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{})
	breaker.stopped = true
	_ = clients.Kubernetes.CoreV1().Pods("ns").Delete(t.Context(), "stopped", metav1.DeleteOptions{})
	breaker.stopped = false
	fence.Close(errors.New("the lease is lost"))
	_ = clients.Kubernetes.CoreV1().Pods("ns").Delete(t.Context(), "b", metav1.DeleteOptions{})
	if len(seen.all) != 4 {
		t.Fatalf("told %q", seen)
	}
	for i, want := range []string{errShrunk.Error(), "INTERNAL_ERROR", "enough", "the lease is lost"} {
		w := seen.all[i]
		if w.Code != 0 || !strings.Contains(w.Message, want) {
			t.Errorf("write %d is %+v, want a message with %q", i, w, want)
		}
		if sent := want == "INTERNAL_ERROR"; w.Refused == sent {
			t.Errorf("write %d counts as refused by this process: %v", i, w.Refused)
		}
	}
}

// The parts of paths are those that the API server finds.
func TestWriteOfFindsWhatTheAPIServerFinds(t *testing.T) {
	requestInfos := apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	for _, path := range []string{
		"/api/v1/namespaces", "/api/v1/namespaces/a", "/api/v1/namespaces/a/status", "/api/v1/namespaces/a/finalize", "/api/v1/namespaces/a/pods",
		"/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/a/pods/b/eviction", "/api/v1/nodes", "/api/v1/nodes/n", "/api/v1/nodes/n/status",
		"/apis/apps/v1/namespaces/a/deployments", "/apis/apps/v1/namespaces/a/deployments/b", "/apis/apps/v1/namespaces/a/deployments/b/scale",
		"/apis/storage.k8s.io/v1/storageclasses/c", "/apis/example.com/v1/namespaces/a/widgets/namespaces",
	} {
		u := &url.URL{Path: path}
		info, err := requestInfos.NewRequestInfo(&http.Request{Method: http.MethodPut, URL: u})
		if err != nil {
			t.Fatal(err)
		}
		w, ok := writeOf(http.MethodPut, path)
		got := []string{w.Resource.Group, w.Resource.Resource, w.Namespace, w.Name, w.Subresource}
		want := []string{info.APIGroup, info.Resource, info.Namespace, info.Name, info.Subresource}
		if info.Resource == "namespaces" {
			want[2] = "" // it is in no namespace
		}
		if !ok || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/metrics/a/b"} {
		if w, ok := writeOf(http.MethodPost, path); ok {
			t.Errorf("%s is %+v", path, w)
		}
	}
}

// discard responds at once.
type discard struct{}

func (discard) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf}}, Body: http.NoBody}, nil
}

type nobody struct{}

func (nobody) Observe(context.Context, Write) {}

// BenchmarkObserve measures what observing adds to the creation of a pod.
func BenchmarkObserve(b *testing.B) {
	var body bytes.Buffer
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if err := scheme.Codecs.EncoderForVersion(serializer, corev1.SchemeGroupVersion).Encode(owned(), &body); err != nil {
		b.Fatal(err)
	}
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "https://h/api/v1/namespaces/shop/pods", bytes.NewReader(body.Bytes()))
	if err != nil {
		b.Fatal(err)
	}
	for name, transport := range map[string]http.RoundTripper{
		"without": discard{},
		"with":    &observingTransport{observer: nobody{}, clock: clock.RealClock{}, layer: layer{discard{}}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				response, err := transport.RoundTrip(request)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		})
	}
}
