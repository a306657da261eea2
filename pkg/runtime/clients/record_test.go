package clients

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// outcomes records the writes that are reported to it.
type outcomes struct {
	mu  sync.Mutex
	all []string
}

func (o *outcomes) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf(format, args...))
}

func (o *outcomes) Stored(r schema.GroupResource, version string, began time.Time) {
	made := "stored"
	if version != "" && began.IsZero() {
		made = "stored earlier"
	}
	o.note("%s %s %q", made, r, version)
}
func (o *outcomes) Lost(r schema.GroupResource) { o.note("lost %s", r) }

func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.all, ", ")
}

// answer sends an object as it is stored, or a status.
func answer(w http.ResponseWriter, code int, binary bool, o runtime.Object) {
	var encoder runtime.Encoder = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	w.Header().Set("Content-Type", "application/json")
	if binary {
		serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
		encoder = scheme.Codecs.EncoderForVersion(serializer, corev1.SchemeGroupVersion)
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	}
	w.WriteHeader(code)
	if err := encoder.Encode(o, w); err != nil {
		panic(err)
	}
}

func TestWritesAreRecordedWithTheVersionInTheirAnswer(t *testing.T) {
	long := strings.Repeat("x", 253)
	stored := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: long, GenerateName: long, Namespace: long[:63], UID: "0f0e0d0c-0000-0000-0000-000000000000", ResourceVersion: "123456",
			Labels: map[string]string{"resourceVersion": "7"}, Annotations: map[string]string{"long": strings.Repeat(long, 100)},
		},
		Spec: corev1.PodSpec{NodeName: "n"},
	}
	deleted := &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: "a", Kind: "pods"}}
	create := func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Pods("ns").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		return err
	}
	remove := func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().Pods("ns").Delete(ctx, "a", metav1.DeleteOptions{})
	}
	update := func(version string) func(context.Context, kubernetes.Interface) error {
		return func(ctx context.Context, c kubernetes.Interface) error {
			sent := stored.DeepCopy()
			sent.Namespace, sent.ResourceVersion = "ns", version
			_, err := c.CoreV1().Pods("ns").UpdateStatus(ctx, sent, metav1.UpdateOptions{})
			return err
		}
	}
	storedAnswer := func(w http.ResponseWriter, binary bool) { answer(w, http.StatusOK, binary, stored) }
	deletingAnswer := func(w http.ResponseWriter, binary bool) {
		deleting := stored.DeepCopy()
		deleting.CreationTimestamp, deleting.DeletionTimestamp = metav1.Now(), ptr.To(metav1.Now())
		answer(w, http.StatusOK, binary, deleting)
	}
	for _, test := range []struct {
		name   string
		send   func(context.Context, kubernetes.Interface) error
		answer func(w http.ResponseWriter, binary bool)
		want   string
	}{
		{"MGR-202: an update that changes something", update("123455"), storedAnswer, `stored pods "123456"`},
		{"MGR-202: an update that changes nothing", update("123456"), storedAnswer, `stored earlier pods "123456"`},
		{"MGR-202: an update of any version", update(""), storedAnswer, `stored earlier pods "123456"`},
		{"MGR-202: an update that removes the last finalizer, which is answered as it was sent", update("123456"), deletingAnswer, `stored pods ""`},
		{"MGR-202: an update of what is being deleted", update("123455"), deletingAnswer, `stored pods "123456"`},
		{"MGR-202: a patch of what is being deleted, which may remove the last finalizer", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		}, deletingAnswer, `stored pods ""`},
		{"MGR-202: a deletion with a grace period", remove, deletingAnswer, `stored earlier pods "123456"`},
		{"MGR-202: a deletion, perhaps of what is being deleted", remove, storedAnswer, `stored earlier pods "123456"`},
		{"MGR-202: a patch that creates", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("ns").Patch(ctx, "a", types.ApplyPatchType, []byte(`{}`), metav1.PatchOptions{FieldManager: "m"})
			return err
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusCreated, binary, stored) }, `stored pods "123456"`},
		{"a creation", create, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusCreated, binary, stored) }, `stored pods "123456"`},
		{"MGR-202: a patch of a subresource, which may change nothing", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
			return err
		}, storedAnswer, `stored earlier pods "123456"`},
		{"a deletion answered with a status", remove, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusOK, binary, deleted) }, `stored pods ""`},
		{"of a namespace, which names itself", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Namespaces().Delete(ctx, "a", metav1.DeleteOptions{})
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusOK, binary, deleted) }, `stored namespaces ""`},
		{"of a whole collection", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Pods("ns").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusOK, binary, deleted) }, `stored pods ""`},
		{"of a whole collection, answered with the list as it was", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Pods("ns").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, func(w http.ResponseWriter, binary bool) {
			answer(w, http.StatusOK, binary, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}})
		}, `stored pods ""`},
		{"a refusal", create, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusConflict, binary, deleted) }, ""},
		{"a proxy that waits no longer", create, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusRequestTimeout, binary, deleted) }, "lost pods"},
		{"of a whole collection, of which one object must not be deleted", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().Pods("ns").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusForbidden, binary, deleted) }, "lost pods"},
		{"an error of the server", create, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusInternalServerError, binary, deleted) }, "lost pods"},
		{"a connection that breaks", remove, func(http.ResponseWriter, bool) { panic(http.ErrAbortHandler) }, "lost pods"},
		{"an event, which no controller reads", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Events("ns").Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
			return err
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusCreated, binary, stored) }, ""},
		{"a token, which is not stored", func(ctx context.Context, c kubernetes.Interface) error {
			return c.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/ns/serviceaccounts/a/token").Do(ctx).Error()
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusCreated, binary, stored) }, ""},
		{"MGR-261: a creation that is only judged", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("ns").Create(ctx, &corev1.Pod{}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusCreated, binary, stored) }, ""},
		{"a read", func(ctx context.Context, c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods("ns").Get(ctx, "a", metav1.GetOptions{})
			return err
		}, func(w http.ResponseWriter, binary bool) { answer(w, http.StatusOK, binary, stored) }, ""},
	} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(test.name+" as "+contentType, func(t *testing.T) {
				s := newServer(t)
				s.answer(func(w http.ResponseWriter, _ *http.Request) {
					test.answer(w, contentType == runtime.ContentTypeProtobuf)
				})
				written := &outcomes{}
				set := s.prefixed(contentType, written, Identity{Name: "x"})
				err := test.send(t.Context(), set.Kubernetes)
				if got := written.String(); got != test.want {
					t.Errorf("recorded %s, want %s (error %v)", got, test.want, err)
				}
			})
		}
	}
}

func TestTheVersionInACutOffAnswerIsNotGuessed(t *testing.T) {
	var whole strings.Builder
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "123456"}}
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if err := scheme.Codecs.EncoderForVersion(serializer, corev1.SchemeGroupVersion).Encode(pod, &whole); err != nil {
		t.Fatal(err)
	}
	texts := map[bool]string{true: whole.String(), false: `{"kind":"Pod","metadata":{"name":"a","resourceVersion":"123456"}}`}
	for binary, text := range texts {
		for n := range len(text) {
			if got := (head{[]byte(text[:n]), binary}).version(); got != "" && got != "123456" {
				t.Errorf("of %q: %q", text[:n], got)
			}
		}
		if got := (head{[]byte(text), binary}).version(); got != "123456" {
			t.Errorf("got %q", got)
		}
	}
}

func TestFirstListsOfCachesAreConsistentReads(t *testing.T) {
	for _, test := range []struct {
		name string
		send metav1.ListOptions
		want string
	}{
		{"any version", metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, Limit: 5}, "limit=5"},
		{"a version that was seen", metav1.ListOptions{ResourceVersion: "05"}, "resourceVersion=05"},
		{"the newest", metav1.ListOptions{LabelSelector: "a"}, "labelSelector=a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t)
			asked := make(chan string, 1)
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.URL.RawQuery
				answer(w, http.StatusOK, false, &corev1.PodList{})
			})
			all, err := New(Options{Base: s.config()})
			if err != nil {
				t.Fatal(err)
			}
			defer all.Close()
			set, err := all.For(Identity{Name: "x", ConsistentLists: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := set.Kubernetes.CoreV1().Pods("").List(t.Context(), test.send); err != nil {
				t.Fatal(err)
			}
			if got := <-asked; got != test.want {
				t.Errorf("asked for %q, want %q", got, test.want)
			}
		})
	}
}
