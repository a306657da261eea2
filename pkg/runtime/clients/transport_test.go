package clients

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	errLost    = errors.New("lease lost")
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

func configMap(annotations map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", Annotations: annotations}}
}

// writes are all kinds of writes through all clients of a set.
func writes(ctx context.Context, s *Set, annotations map[string]string) map[string]func() error {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "ns"}}}
	o.SetAnnotations(annotations)
	return map[string]func() error{
		"create": func() error {
			_, err := s.Kubernetes.CoreV1().ConfigMaps("ns").Create(ctx, configMap(annotations), metav1.CreateOptions{})
			return err
		},
		"update": func() error {
			_, err := s.Kubernetes.CoreV1().ConfigMaps("ns").Update(ctx, configMap(annotations), metav1.UpdateOptions{})
			return err
		},
		"dynamic update": func() error {
			_, err := s.Dynamic.Resource(configMaps).Namespace("ns").Update(ctx, o, metav1.UpdateOptions{})
			return err
		},
		"patch": func() error {
			patch := `{"metadata":{"annotations":{"a":"` + annotations["a"] + `"}}}`
			_, err := s.Kubernetes.CoreV1().ConfigMaps("ns").Patch(ctx, "x", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
	}
}

func TestFenceStopsWritesAndNothingElse(t *testing.T) {
	ctx := t.Context()
	s := newServer(t)
	manual, other := NewFence(), NewFence()
	set := s.set(Identity{Name: "c"}, Fences(manual, nil, Fences(other)))
	all := writes(ctx, set, nil)
	all["delete"] = func() error { return set.Kubernetes.CoreV1().ConfigMaps("ns").Delete(ctx, "x", metav1.DeleteOptions{}) }
	all["metadata delete"] = func() error {
		return set.Metadata.Resource(configMaps).Namespace("ns").Delete(ctx, "x", metav1.DeleteOptions{})
	}
	all["further client"] = func() error {
		set, err := set.again()
		if err != nil {
			return err
		}
		return set.CoreV1().ConfigMaps("ns").Delete(ctx, "x", metav1.DeleteOptions{})
	}
	for name, write := range all {
		if err := write(); err != nil {
			t.Errorf("%s while the fence is up: %v", name, err)
		}
	}
	if got := len(s.seen()); got != len(all) {
		t.Fatalf("%d requests, want %d", got, len(all))
	}

	other.Close(errLost)
	other.Close(errors.New("another cause"))
	for name, write := range all {
		if err := write(); !errors.Is(err, ErrFenced) || !errors.Is(err, errLost) {
			t.Errorf("%s while the fence is down: %v", name, err)
		}
	}
	if got := s.seen(); len(got) != 0 {
		t.Fatalf("requests were sent: %+v", got)
	}
	for name, read := range map[string]func() error{
		"get": func() error {
			_, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"token review": func() error {
			_, err := set.Kubernetes.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{}, metav1.CreateOptions{})
			return err
		},
		"access review": func() error {
			_, err := set.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := read(); errors.Is(err, ErrFenced) {
			t.Errorf("%s is fenced: %v", name, err)
		}
	}
	if got := s.seen(); len(got) != 3 {
		t.Fatalf("%d reads were sent, want 3", len(got))
	}
}

func TestFenceCancelsWritesOnTheirWay(t *testing.T) {
	s := newServer(t)
	arrived, gone := make(chan struct{}), make(chan struct{})
	s.answer(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	fence := NewFence()
	set := s.set(Identity{Name: "c"}, Fences(fence, NewFence()))
	failed := make(chan error, 1)
	go func() { failed <- writes(t.Context(), set, nil)["update"]() }()
	<-arrived
	fence.Close(errLost)
	if err := <-failed; !errors.Is(err, ErrFenced) || !errors.Is(err, errLost) {
		t.Fatalf("got %v", err)
	}
	<-gone // the server knows, too
}

// client-go gives requests for discovery no context: whoever has asked when a term ends would wait for an API server that
// does not answer, for longer than an instance may take to stop. Pins MGR-256.
func TestFenceEndsDiscovery(t *testing.T) {
	s := newServer(t)
	asked := make(chan struct{}, 10)
	s.answer(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	fence := NewFence()
	set := s.set(Identity{Name: "c"}, Fences(fence, NewFence()))
	discover := func() <-chan error {
		failed := make(chan error, 1)
		go func() {
			_, err := set.Discovery.ServerPreferredResources()
			failed <- err
		}()
		return failed
	}
	failed := discover()
	<-asked
	fence.Close(errLost)
	for range 2 { // a request that was sent, and one afterwards
		select {
		case err := <-failed:
			if !errors.Is(err, errLost) || errors.Is(err, ErrFenced) {
				t.Errorf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("discovery goes on")
		}
		failed = discover()
	}
	if len(asked) > 0 {
		t.Error("something was sent afterwards")
	}
}

func TestFenceCutsAnswersShort(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	fence := NewFence()
	set := s.set(Identity{Name: "c"}, fence)
	client := &http.Client{Transport: set.Config.Transport}
	resp, err := client.Post(s.URL+"/api/v1/namespaces/ns/configmaps", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, len("beginning"))
	if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != "beginning" {
		t.Fatalf("the answer cannot be read: %q, %v", buf, err)
	}
	fence.Close(errLost)
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, ErrFenced) {
		t.Fatalf("got %v", err)
	}
}

func TestAnswersStayReadable(t *testing.T) {
	s := newServer(t)
	big := strings.Repeat("x", 1<<20)
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]string{"big": big}})
	})
	got, err := s.set(Identity{Name: "c"}, NewFence()).Kubernetes.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap(nil), metav1.CreateOptions{})
	if err != nil || got.Data["big"] != big {
		t.Fatalf("answer of %d bytes, error %v", len(got.Data["big"]), err)
	}
}

// movingFence is up until a deadline that moves, and never says that it is down.
type movingFence struct{ deadline atomic.Pointer[time.Time] }

func (f *movingFence) set(d time.Duration)         { at := time.Now().Add(d); f.deadline.Store(&at) }
func (f *movingFence) Done() <-chan struct{}       { return nil }
func (f *movingFence) Deadline() (time.Time, bool) { return *f.deadline.Load(), true }
func (f *movingFence) Err() error {
	if time.Now().Before(*f.deadline.Load()) {
		return nil
	}
	return errLost
}

// stuck is a transport that answers when the request is cancelled.
type stuck struct{}

func (stuck) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestWritesEndAtADeadlineThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence, start := &movingFence{}, time.Now()
		fence.set(10 * time.Second)
		if d, ok := Fences(NewFence(), fence).Deadline(); !ok || !d.Equal(start.Add(10*time.Second)) {
			t.Fatalf("deadline of a combination: %v", d)
		}
		time.AfterFunc(8*time.Second, func() { fence.set(10 * time.Second) })
		rt := &fencedTransport{fence: Fences(NewFence(), fence), layer: layer{stuck{}}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://host/api/v1/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = rt.RoundTrip(req)
		if took := time.Since(start); !errors.Is(err, ErrFenced) || took != 18*time.Second {
			t.Fatalf("after %v: %v", took, err)
		}
	})
}

func TestErrorsOfOthersAreNotTheFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rt := &fencedTransport{fence: NewFence(), layer: layer{stuck{}}}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://host/api/v1/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.RoundTrip(req); errors.Is(err, ErrFenced) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestWhatCountsAsWrite(t *testing.T) {
	rt := &fencedTransport{base: "/prefix"}
	for _, tc := range []struct {
		method, path string
		want         bool
	}{
		{"GET", "/prefix/api/v1/pods", false},
		{"", "/prefix/api/v1/pods", false},
		{"HEAD", "/prefix/api", false},
		{"POST", "/prefix/api/v1/namespaces/ns/pods", true},
		{"POST", "/prefix/apis/authorization.k8s.io/v1/subjectaccessreviews", false},
		{"POST", "/prefix/apis/authentication.k8s.io/v1/tokenreviews", false},
		{"POST", "/prefix/api/v1/namespaces/ns/serviceaccounts/sa/token", true},
		{"POST", "/prefix/api/v1/namespaces/ns/services/s/proxy/apis/authorization.k8s.io/v1/x", true},
		{"DELETE", "/prefix/apis/authorization.k8s.io/v1/x", true},
		{"PUT", "/prefix/api/v1/x", true},
		{"PATCH", "/prefix/api/v1/x", true},
	} {
		req, err := http.NewRequest(tc.method, "https://host"+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Method = tc.method
		if got := isWrite(req, rt.base); got != tc.want {
			t.Errorf("%s %s is a write: %v", tc.method, tc.path, got)
		}
	}
}

func TestCombinedDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := NewFence(), NewFence()
		both := Fences(a, b)
		select {
		case <-both.Done():
			t.Fatal("down too early")
		default:
		}
		b.Close(nil)
		<-both.Done()
		if !errors.Is(both.Err(), ErrClosed) {
			t.Fatalf("got %v", both.Err())
		}
		// The goroutines behind Done have ended, else the test does not.
	})
}

func TestTheClientsRefuseShrunkObjects(t *testing.T) {
	s := newServer(t)
	for name, contentType := range map[string]string{"protobuf": "application/vnd.kubernetes.protobuf", "JSON": "application/json"} {
		t.Run(name, func(t *testing.T) {
			c := s.clients(func(o *Options) { o.Base.ContentType = contentType })
			set, err := c.For(Identity{Name: "c"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			incomplete := configMap(nil)
			incomplete.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: mark}}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(incomplete)
			if err != nil {
				t.Fatal(err)
			}
			typed, dynamic := set.Kubernetes.CoreV1().ConfigMaps("ns"), set.Dynamic.Resource(configMaps).Namespace("ns")
			_, created := typed.Create(t.Context(), incomplete, metav1.CreateOptions{})
			_, updated := typed.Update(t.Context(), incomplete, metav1.UpdateOptions{})
			_, dynamically := dynamic.Update(t.Context(), &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{})
			for kind, err := range map[string]error{"create": created, "update": updated, "dynamic update": dynamically} {
				if !errors.Is(err, errShrunk) || !strings.Contains(err.Error(), "/api/v1/namespaces/ns/configmaps") {
					t.Errorf("%s: %v", kind, err)
				}
			}
			if got := s.seen(); len(got) != 0 {
				t.Fatalf("requests were sent: %+v", got)
			}
			for kind, write := range writes(t.Context(), set, map[string]string{"a": mark}) {
				if err := write(); err != nil {
					t.Errorf("%s with the mark in an annotation: %v", kind, err)
				}
			}
			for _, r := range s.seen() {
				if !strings.Contains(string(r.body), mark) {
					t.Errorf("%s %s arrived without its body: %q", r.method, r.path, r.body)
				}
			}
		})
	}
}

func TestRetryAfterIsObeyedWithTheWholeBody(t *testing.T) {
	s := newServer(t)
	var busy atomic.Bool
	busy.Store(true)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		if busy.Swap(false) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		emptyObject(w, r)
	})
	start := time.Now()
	set := s.set(Identity{Name: "c"}, NewFence())
	if err := writes(t.Context(), set, map[string]string{"a": "value"})["update"](); err != nil {
		t.Fatal(err)
	}
	got := s.seen()
	if len(got) != 2 || string(got[0].body) != string(got[1].body) || len(got[0].body) == 0 {
		t.Fatalf("requests %+v", got)
	}
	if waited := time.Since(start); waited < time.Second {
		t.Fatalf("tried again after %v, the server asked for a second", waited)
	}
}
