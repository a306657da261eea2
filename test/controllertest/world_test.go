package controllertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// create sends a request for a pod whose name begins with p-.
func create(e *Env) (*corev1.Pod, error) {
	pod := Pod("", "", func(pod *corev1.Pod) { pod.GenerateName = "p-" })
	return e.Client.CoreV1().Pods("ns").Create(e.Context(), pod, metav1.CreateOptions{})
}

func remove(e *Env, name string) error {
	return e.Client.CoreV1().Pods("ns").Delete(e.Context(), name, metav1.DeleteOptions{})
}

func TestCachesHoldWhatTheTestPutsThere(t *testing.T) {
	e := New(t, Pod("ns", "stored"))
	e.Cache(t, Pod("ns", "cached"), Pod("ns", "cached", OnNode("another")), Pod("ns", "gone"))
	e.Uncache(t, Pod("ns", "gone"))
	names := func() (names []string) {
		for _, pod := range e.CacheOf(t, &corev1.Pod{}).List() {
			names = append(names, pod.(*corev1.Pod).Name+" on "+pod.(*corev1.Pod).Spec.NodeName)
		}
		return names
	}
	if got, want := names(), []string{"cached on another"}; !slices.Equal(got, want) {
		t.Errorf("the cache holds %q, want %q", got, want)
	}
	if err := remove(e, "another"); err == nil {
		t.Fatal("no error")
	}
	e.CatchUp(t, &corev1.Pod{})
	if got, want := names(), []string{"stored on node"}; !slices.Equal(got, want) {
		t.Errorf("the cache holds %q, want %q", got, want)
	}
	e.WantRequests(t)
	e.EmptyCache(t, &corev1.Pod{}, "7")
	if got := names(); got != nil {
		t.Errorf("the cache holds %q", got)
	}
}

func TestRequestsArePrintedInOneForm(t *testing.T) {
	e := New(t, Pod("ns", "a"))
	ctx, pods := e.Context(), e.Client.CoreV1().Pods("ns")
	requests := []func() error{
		func() error { _, err := pods.List(ctx, metav1.ListOptions{}); return err },
		func() error { _, err := pods.UpdateStatus(ctx, Pod("ns", "a"), metav1.UpdateOptions{}); return err },
		func() error { _, err := create(e); return err },
		func() error { return remove(e, "a") },
	}
	for _, send := range requests {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	got, want := e.Requests(), []string{"list pods", "update pods/status a", "create pods p-", "delete pods a"}
	if !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
	if got := e.Requests(); got != nil {
		t.Errorf("requests are taken twice: %q", got)
	}
}

// The race detector sees whether reactors are changed while requests are answered.
func TestRequestsCanBeRefusedWhileOthersAreSent(t *testing.T) {
	e := New(t, Pod("ns", "a"))
	begun, answered := make(chan struct{}), make(chan error, 1)
	go func() {
		close(begun)
		for {
			if err := remove(e, "b"); err == nil || !apierrors.IsNotFound(err) {
				answered <- err
				return
			}
		}
	}()
	<-begun
	e.CheckWrites("pods")
	e.CompleteWrites()
	e.StampWrites("pods")
	refused := errors.New("refused")
	e.Refuse("delete pods b", refused)
	if err := <-answered; !errors.Is(err, refused) {
		t.Errorf("answered with %v", err)
	}
}

func TestWantedRequests(t *testing.T) {
	sent := []string{"delete pods a", "delete pods b", "create pods p-"}
	for name, tc := range map[string]struct {
		want              []string
		inOrder, anyOrder bool
	}{
		"the same":                    {[]string{"delete pods a", "delete pods b", "create pods p-"}, true, true},
		"in another order":            {[]string{"create pods p-", "delete pods b", "delete pods a"}, false, true},
		"any name":                    {[]string{"delete pods", "delete pods", "create pods"}, true, true},
		"any name takes what is left": {[]string{"delete pods", "delete pods a", "create pods"}, false, true},
		"another name":                {[]string{"delete pods a", "delete pods c", "create pods"}, false, false},
		"one less":                    {[]string{"delete pods", "create pods"}, false, false},
		"one more":                    {[]string{"delete pods", "delete pods", "create pods", "create pods"}, false, false},
		"a subresource":               {[]string{"delete pods", "delete pods", "create pods/eviction"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := slices.EqualFunc(tc.want, sent, stands); got != tc.inOrder {
				t.Errorf("in order: %v", got)
			}
			if got := sameInAnyOrder(tc.want, sent); got != tc.anyOrder {
				t.Errorf("in any order: %v", got)
			}
		})
	}
}

func TestRequestsAreRefused(t *testing.T) {
	e, boom := New(t, Pod("ns", "a"), Pod("ns", "b")), errors.New("boom")
	allow := e.Refuse("delete pods a", boom)
	if err := remove(e, "b"); err != nil {
		t.Errorf("another is refused: %v", err)
	}
	if err := remove(e, "a"); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	allow()
	if err := remove(e, "a"); err != nil {
		t.Errorf("still refused: %v", err)
	}
	e.CompleteWrites() // or all would have the same name
	e.RefuseIf("create pods", boom, func(n int) bool { return n == 2 })
	for n := 1; n <= 3; n++ {
		if _, err := create(e); errors.Is(err, boom) != (n == 2) {
			t.Errorf("request %d: %v", n, err)
		}
	}
}

func TestInterceptedRequestsAreSeenFirst(t *testing.T) {
	e := New(t, Pod("ns", "a"))
	var seen []string
	e.Intercept("delete pods", func(action clienttesting.Action) error {
		seen = append(seen, printed(action))
		return nil
	})
	if err := remove(e, "a"); err != nil || !slices.Equal(seen, []string{"delete pods a"}) {
		t.Errorf("seen are %q, error is %v", seen, err)
	}
}

func TestWritesAreCompleted(t *testing.T) {
	e := New(t)
	e.CompleteWrites()
	first, err1 := create(e)
	second, err2 := create(e)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if first.Name != "p-1" || second.Name != "p-2" || first.UID == second.UID || !first.CreationTimestamp.Time.Equal(Epoch) {
		t.Errorf("created are %v and %v", first.ObjectMeta, second.ObjectMeta)
	}
	updated, err := e.Client.CoreV1().Pods("ns").Update(e.Context(), first, metav1.UpdateOptions{})
	if err != nil || updated.ResourceVersion != "1003" || updated.UID != first.UID {
		t.Errorf("updated is %v, error is %v", updated, err)
	}
	Change(t, e, "ns", "p-1", OnNode("another"))
	if got := MustStored[*corev1.Pod](t, e, "ns", "p-1"); got.ResourceVersion != "1004" || got.Spec.NodeName != "another" {
		t.Errorf("changed is %v", got)
	}
	e.Store(t, Pod("ns", "c"), Pod("else", "c"))
	if got := Names(AllStored[*corev1.Pod](t, e, "ns")); !slices.Equal(got, []string{"c", "p-1", "p-2"}) {
		t.Errorf("stored are %q", got)
	}
	e.Remove(t, Pod("ns", "c"))
	if _, ok := Stored[*corev1.Pod](t, e, "ns", "c"); ok {
		t.Error("it is still there")
	}
}

// A fake API server reads an object and writes it when it is patched, and so does a change of a test.
func TestPatchesAndChangesUndoNothing(t *testing.T) {
	e := New(t, Pod("ns", "a"))
	const each = 200
	patched := make(chan error, 1)
	go func() {
		var errs []error
		for n := range each {
			patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"patch-%d": ""}}}`, n)
			_, err := e.Client.CoreV1().Pods("ns").Patch(e.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{})
			errs = append(errs, err)
		}
		patched <- errors.Join(errs...)
	}()
	for n := range each {
		Change(t, e, "ns", "a", func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, fmt.Sprint("change-", n), "") })
	}
	if err := <-patched; err != nil {
		t.Fatal(err)
	}
	if got := len(MustStored[*corev1.Pod](t, e, "ns", "a").Annotations); got != 2*each {
		t.Errorf("%d changes and as many patches left %d annotations", each, got)
	}
}

func TestWritesAreChecked(t *testing.T) {
	e := New(t)
	e.Store(t, Pod("ns", "a", func(pod *corev1.Pod) { pod.Generation = 1 }))
	e.CompleteWrites()
	e.CheckWrites("pods")
	pods := e.Client.CoreV1().Pods("ns")
	changed := func(from *corev1.Pod) *corev1.Pod {
		return Changed(from.DeepCopy(), OnNode("another"), InPhase(corev1.PodFailed))
	}
	first := MustStored[*corev1.Pod](t, e, "ns", "a")
	status, err := pods.UpdateStatus(e.Context(), changed(first), metav1.UpdateOptions{})
	if err != nil || status.Status.Phase != corev1.PodFailed || status.Spec.NodeName != "node" || status.Generation != 1 {
		t.Errorf("a status: %v, %v", status, err)
	}
	if _, err := pods.Update(e.Context(), changed(first), metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v", err)
	}
	spec, err := pods.Update(e.Context(), Changed(status.DeepCopy(), OnNode("another"), InPhase(corev1.PodRunning)), metav1.UpdateOptions{})
	if err != nil || spec.Status.Phase != corev1.PodFailed || spec.Spec.NodeName != "another" || spec.Generation != 2 {
		t.Errorf("a spec: %v, %v", spec, err)
	}
}

// A real API server answers with 422, whether the object is updated or patched.
func TestAnObjectThatIsBeingDeletedGetsNoFurtherFinalizers(t *testing.T) {
	const patch = `{"metadata": {"finalizers": ["example.com/old", "example.com/new"]}}`
	kept := func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/old", "example.com/other"} }
	for name, write := range map[string]func(t *testing.T, e *Env, name string) error{
		"update": func(t *testing.T, e *Env, name string) error {
			pod := MustStored[*corev1.Pod](t, e, "ns", name)
			pod.Finalizers = []string{"example.com/old", "example.com/new"}
			_, err := e.Client.CoreV1().Pods("ns").Update(e.Context(), pod, metav1.UpdateOptions{})
			return err
		},
		"merge patch": func(_ *testing.T, e *Env, name string) error {
			_, err := e.Client.CoreV1().Pods("ns").Patch(e.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
		"strategic merge patch": func(_ *testing.T, e *Env, name string) error {
			_, err := e.Client.CoreV1().Pods("ns").Patch(e.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(t, Pod("ns", "stays", kept), Pod("ns", "goes", kept, Terminating))
			if err := write(t, e, "stays"); err != nil {
				t.Errorf("one that stays: %v", err)
			}
			err := write(t, e, "goes")
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `Pod "goes" is invalid: metadata.finalizers: Forbidden`) {
				t.Errorf("one that is being deleted: %v", err)
			}
			if got := MustStored[*corev1.Pod](t, e, "ns", "goes").Finalizers; !slices.Equal(got, []string{"example.com/old", "example.com/other"}) {
				t.Errorf("stored are %q", got)
			}
			Change(t, e, "ns", "goes", func(pod *corev1.Pod) { pod.Finalizers = pod.Finalizers[:0] }) // as somebody else would
			if err := write(t, e, "goes"); !apierrors.IsInvalid(err) {
				t.Errorf("one without finalizers: %v", err)
			}
		})
	}
}

func TestQueuesPrintKeys(t *testing.T) {
	q := &Queue[types.NamespacedName]{Namespace: "ns"}
	q.Enqueue(reconcile.Fresh, types.NamespacedName{Namespace: "ns", Name: "b"})
	q.Enqueue(reconcile.Backlog, types.NamespacedName{Namespace: "ns", Name: "a"})
	q.AddAfter(types.NamespacedName{Namespace: "else", Name: "a"}, time.Second)
	q.Want(t, "b", "backlog a", "else/a in 1s")
	q.Want(t)
	q.Add(types.NamespacedName{Namespace: "ns", Name: "c"})
	q.Add(types.NamespacedName{Namespace: "ns", Name: "b"})
	q.WantInAnyOrder(t, "b", "c")
	for _, delay := range []time.Duration{time.Second, time.Minute} {
		q.AddAfter(types.NamespacedName{Namespace: "ns", Name: "b"}, delay)
	}
	q.AddAfter(types.NamespacedName{Namespace: "ns", Name: "c"}, time.Hour)
	if got := q.TakeDelay(types.NamespacedName{Namespace: "ns", Name: "b"}); got != time.Minute {
		t.Errorf("delayed by %v", got)
	}
	q.Want(t, "c in 1h0m0s")
}

func TestIdleControllersHaveWorked(t *testing.T) {
	e := New(t)
	var seen []string
	loop := reconcile.New(e.Env, reconcile.Options[string]{Queue: "q"}, func(_ context.Context, key string) error {
		seen = append(seen, key)
		return nil
	})
	e.Start(t)
	loop.Add("a")
	loop.AddAfter("later", time.Hour)
	stop := e.Run(t, loop)
	e.AwaitIdle(t)
	stop()
	if !slices.Equal(seen, []string{"a"}) {
		t.Errorf("worked on %q", seen)
	}
	if got, want := e.Series(t, "workqueue_adds_total"), []string{"name=q 1"}; !slices.Equal(got, want) {
		t.Errorf("series are %q, want %q", got, want)
	}
}

// Between the queue and its worker, a key is in neither.
func TestAControllerThatHasJustTakenAKeyIsNotIdle(t *testing.T) {
	e := New(t)
	e.Pauses.Set([]string{"elsewhere"})
	taken, proceed := make(chan struct{}), make(chan struct{})
	loop := reconcile.New(e.Env, reconcile.Options[string]{
		Queue: "q",
		// During a pause a worker asks for it when it has taken a key, before it begins to work on it.
		Namespace: func(string) string {
			taken <- struct{}{}
			<-proceed
			return ""
		},
	}, func(context.Context, string) error { return nil })
	e.Start(t)
	loop.Add("a")
	e.Run(t, loop)
	<-taken
	if s := loop.Inspect(); s.Depth != 0 || len(s.InFlight) != 0 {
		t.Errorf("the key is seen: %+v", s)
	}
	if e.Idle() {
		t.Error("idle with a key that has been taken")
	}
	close(proceed)
	e.AwaitIdle(t)
}

// passing is a loop that works on a key which it hands to the next one between the looks at the two.
type passing struct {
	queued, done uint64
	looked       func()
}

func (p *passing) Inspect() controller.LoopStatus { return controller.LoopStatus{Began: Epoch} }

func (p *passing) Counts() (queued, done uint64) {
	queued, done = p.queued, p.done
	if p.looked != nil {
		p.looked()
	}
	return queued, done
}

func TestAKeyThatMovesFromLoopToLoopIsNotMissed(t *testing.T) {
	e := New(t)
	second := &passing{}
	first := &passing{queued: 1, looked: func() { second.queued = 1 }}
	e.inspect(second)
	e.inspect(first)
	if e.Idle() {
		t.Error("idle while the key is at the first loop")
	}
	first.done = 1
	if e.Idle() {
		t.Error("idle while the key is at the second loop")
	}
	second.done = 1
	if !e.Idle() {
		t.Error("not idle")
	}
}
