package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// counter records what is asked for.
type counter struct {
	off, stopped   bool
	asked, unclear []string
	counted        int
}

func (c *counter) On() bool { return !c.off }

func (c *counter) Ask(_ context.Context, by string, of schema.GroupResource, namespace, name string) (int, error) {
	c.asked = append(c.asked, fmt.Sprintf("%s %s %s/%s", by, of, namespace, name))
	if c.stopped {
		return 0, &controller.StoppedError{Resource: of, Why: "enough"}
	}
	c.counted++
	return 1, nil
}

func (c *counter) GiveBack(_ schema.GroupResource, counted int) { c.counted -= counted }
func (c *counter) Stopped(schema.GroupResource) bool            { return c.stopped }
func (c *counter) Follow(func()) func()                         { return func() {} }

func (c *counter) Unclear(of schema.GroupResource, namespace, name string, _ time.Time) {
	c.unclear = append(c.unclear, fmt.Sprintf("%s %s/%s", of, namespace, name))
}

// deletions are all ways to delete, with what is asked for.
func deletions(ctx context.Context, set *Set) map[string]func() error {
	core := set.Kubernetes.CoreV1()
	return map[string]func() error{
		"c configmaps ns/x": func() error { return core.ConfigMaps("ns").Delete(ctx, "x", metav1.DeleteOptions{}) },
		"c configmaps ns/y": func() error {
			return set.Metadata.Resource(configMaps).Namespace("ns").Delete(ctx, "y", metav1.DeleteOptions{})
		},
		"c configmaps ns/z": func() error {
			return set.Dynamic.Resource(configMaps).Namespace("ns").Delete(ctx, "z", metav1.DeleteOptions{})
		},
		"c leases.coordination.k8s.io ns/x": func() error {
			return set.Kubernetes.CoordinationV1().Leases("ns").Delete(ctx, "x", metav1.DeleteOptions{})
		},
		"c nodes /n":       func() error { return core.Nodes().Delete(ctx, "n", metav1.DeleteOptions{}) },
		"c namespaces /ns": func() error { return core.Namespaces().Delete(ctx, "ns", metav1.DeleteOptions{}) },
		"c deployments.apps ns/": func() error {
			return set.Kubernetes.AppsV1().Deployments("ns").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"c pods ns/evicted": func() error {
			return core.Pods("ns").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "evicted"}})
		},
	}
}

func TestEveryDeletionIsAskedFor(t *testing.T) {
	s := newServer(t)
	c := &counter{}
	set := s.set(Identity{Name: "c", Deletions: controller.DeletionsBy("c", c)}, NewFence())
	for want, del := range deletions(t.Context(), set) {
		c.asked, c.counted = nil, 0
		if err := del(); err != nil || !slices.Equal(c.asked, []string{want}) || c.counted != 1 {
			t.Errorf("%s: %v, asked for %q, counted %d", want, err, c.asked, c.counted)
		}
	}
	c.asked = nil
	for _, write := range writes(t.Context(), set, nil) {
		_ = write() // what the server answers is no object
	}
	asked := c.asked
	c.asked, c.off = nil, true
	for _, del := range deletions(t.Context(), set) {
		_ = del()
	}
	if len(asked)+len(c.asked) != 0 {
		t.Errorf("asked for %q for other writes, and %q while it is off", asked, c.asked)
	}
}

func TestADeletionThatIsStoppedIsNotSent(t *testing.T) {
	s := newServer(t)
	set := s.set(Identity{Name: "c", Deletions: controller.DeletionsBy("c", &counter{stopped: true})}, NewFence())
	for name, del := range deletions(t.Context(), set) {
		if kinds, only := controller.StoppedIn(del()); len(kinds) != 1 || !only {
			t.Errorf("%s: stopped are %v, only that: %t", name, kinds, only)
		}
	}
	if sent := s.seen(); len(sent) != 0 {
		t.Errorf("%d requests were sent", len(sent))
	}
}

// A deletion of a collection that was refused may have been carried out in part: the API server deletes one object after
// the other until one of them must not be.
func TestWhatTheServerRefusesIsNotCounted(t *testing.T) {
	type result struct {
		counted int
		unclear bool
	}
	done, refused, unclear := result{1, false}, result{0, false}, result{1, true}
	for code, want := range map[int]struct{ one, collection result }{
		http.StatusOK:                  {done, done},
		http.StatusUnauthorized:        {refused, refused},
		http.StatusNotFound:            {refused, refused},
		http.StatusMethodNotAllowed:    {refused, refused},
		http.StatusConflict:            {refused, unclear},
		http.StatusForbidden:           {refused, unclear},
		http.StatusRequestTimeout:      {unclear, unclear},
		statusClientClosedRequest:      {unclear, unclear},
		http.StatusInternalServerError: {unclear, unclear},
		http.StatusGatewayTimeout:      {unclear, unclear},
	} {
		s := newServer(t)
		s.answer(func(w http.ResponseWriter, _ *http.Request) { reply(w, code, map[string]any{}) })
		c := &counter{}
		set := s.set(Identity{Name: "c", Deletions: controller.DeletionsBy("c", c), UnclearDeletion: c.Unclear}, NewFence())
		_ = set.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{})
		if got := (result{c.counted, slices.Equal(c.unclear, []string{"nodes /n"})}); got != want.one || len(c.asked) != 1 {
			t.Errorf("%d: asked for %q, %+v, want %+v", code, c.asked, got, want.one)
		}
		*c = counter{}
		_ = set.Kubernetes.CoreV1().Pods("ns").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		if got := (result{c.counted, slices.Equal(c.unclear, []string{"pods ns/"})}); got != want.collection || len(c.asked) != 1 {
			t.Errorf("%d for a collection: asked for %q, %+v, want %+v", code, c.asked, got, want.collection)
		}
	}
	s, c, fence := newServer(t), &counter{}, NewFence()
	fence.Close(errors.New("over"))
	set := s.set(Identity{Name: "c", Deletions: controller.DeletionsBy("c", c)}, fence)
	if err := set.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); !errors.Is(err, ErrFenced) || c.counted != 0 {
		t.Errorf("behind a fence: %v, counted %d", err, c.counted)
	}
	set = s.set(Identity{Name: "c", Deletions: controller.DeletionsBy("c", c), UnclearDeletion: c.Unclear}, NewFence())
	s.Close()
	if err := set.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err == nil || c.counted != 0 || len(c.unclear) != 0 {
		t.Errorf("nobody listens: %v, counted %d, unclear %q", err, c.counted, c.unclear)
	}
}

// The right to write ends while a deletion is under way.
func TestADeletionWithoutAnswerIsCounted(t *testing.T) {
	s, c, fence := newServer(t), &counter{}, NewFence()
	s.answer(func(_ http.ResponseWriter, r *http.Request) {
		fence.Close(errors.New("over"))
		<-r.Context().Done()
	})
	set := s.set(Identity{Name: "c", Deletions: controller.DeletionsBy("c", c), UnclearDeletion: c.Unclear}, fence)
	if err := set.Kubernetes.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); !errors.Is(err, ErrFenced) || c.counted != 1 || len(c.unclear) != 1 {
		t.Errorf("%v, counted %d, unclear %q", err, c.counted, c.unclear)
	}
}

// answered is a transport that answers at once.
type answered struct{}

func (answered) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A breaker that is off costs a controller whose deletions it would limit a look at the method,
// and one at a pointer.
func BenchmarkDeletionsDisabled(b *testing.B) {
	for name, rt := range map[string]http.RoundTripper{
		"without": answered{},
		"off":     &deletingTransport{deletions: controller.DeletionsBy("c", &counter{off: true}), clock: clock.RealClock{}, layer: layer{answered{}}},
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			b.Run(name+"/"+method, func(b *testing.B) {
				req, err := http.NewRequestWithContext(b.Context(), method, "https://h/api/v1/namespaces/ns/pods/p", nil)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					_, _ = rt.RoundTrip(req)
				}
			})
		}
	}
}
