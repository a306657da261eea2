package pods

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/fakeclient"
)

// newTracked is a Tracked over a fake API server, which names pods p1, p2, … and gives
// them the version of their number.
func newTracked(objects ...runtime.Object) (Tracked, *fake.Clientset) {
	client := fakeclient.New(objects...)
	var created atomic.Int64
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		pod := action.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		pod.ResourceVersion = fmt.Sprint(created.Add(1))
		pod.Name = "p" + pod.ResourceVersion
		return false, nil, nil
	})
	return Tracked{
		Untracked: Control{controller.Env{Client: client, Events: record.NewFakeRecorder(100)}},
		Writes:    writes.New(clocktesting.NewFakePassiveClock(time.Unix(1, 0)), nil),
	}, client
}

// ownerKey is the key of owner.
var ownerKey = types.NamespacedName{Namespace: "ns", Name: "rs"}

// Nothing but its size limits a batch. Pins WL-67.
func TestBatchesDouble(t *testing.T) {
	boom := apierrors.NewForbidden(Resource, "", errors.New("boom"))
	tracked, client := newTracked()
	var sent atomic.Int64
	client.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		if sent.Add(1) > 3 {
			return true, nil, boom
		}
		return false, nil, nil
	})
	errs := tracked.CreateAll(t.Context(), owner(), ref(), 20, func(int) *corev1.PodTemplateSpec { return template() })
	if n := sent.Load(); n != 1+2+4 || len(errs) != 4 {
		t.Errorf("%d requests, %d failures", n, len(errs))
	}
}

func TestCreateAll(t *testing.T) {
	boom := apierrors.NewForbidden(Resource, "", errors.New("boom"))
	webhook := apierrors.NewInternalError(errors.New("failed calling webhook"))
	going := apierrors.NewForbidden(Resource, "", errors.New("going"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, test := range []struct {
		name            string
		fail            error
		requests        int
		failures        int
		version         string
		hold, uncertain time.Duration
	}{
		{"all are created", nil, 5, 0, "5", 0, 0},
		{"a failure ends it", boom, 1, 1, "", 0, 0},
		{"WL-108: a namespace that is going away is no failure", going, 1, 0, "", writes.Timeout, 0},
		{"WL-115: there may be a pod", io.ErrUnexpectedEOF, 1, 1, "", 0, reconcile.RecheckAfter},
		{"WL-115: a webhook that fails is called before there is a pod", webhook, 1, 1, "", 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			tracked, client := newTracked()
			if test.fail != nil {
				client.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, test.fail })
			}
			errs := tracked.CreateAll(t.Context(), owner(), ref(), 5, func(i int) *corev1.PodTemplateSpec {
				made := template()
				made.Labels["i"] = fmt.Sprint(i)
				return made
			})
			if len(errs) != test.failures || test.failures > 0 && !errors.Is(errs[0], test.fail) {
				t.Errorf("failures are %v", errs)
			}
			if n := len(client.Actions()); n != test.requests {
				t.Errorf("%d requests", n)
			}
			state := tracked.Writes.HandOver()[ownerKey]
			if state.Versions[Resource] != test.version || left(state.Hold) != test.hold || left(state.Uncertain) != test.uncertain {
				t.Errorf("remembered is %+v", state)
			}
			list, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			numbers := map[string]bool{}
			for _, pod := range list.Items {
				numbers[pod.Labels["i"]] = true
			}
			if test.fail == nil && len(numbers) != 5 {
				t.Errorf("made from templates %v", numbers)
			}
		})
	}
}

// left is how long a time is away, 0 for none.
func left(until time.Time) time.Duration {
	if until.IsZero() {
		return 0
	}
	return until.Sub(time.Unix(1, 0))
}

// Pins WL-115.
func TestNothingIsCreatedWhileAPodMayExist(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	tracked, client := newTracked()
	tracked.Writes = writes.New(clock, nil)
	lost := true
	client.PrependReactor("create", "pods", func(ktesting.Action) (bool, runtime.Object, error) { return lost, nil, io.ErrUnexpectedEOF })
	create := func() error {
		return errors.Join(tracked.CreateAll(t.Context(), owner(), ref(), 1, func(int) *corev1.PodTemplateSpec { return template() })...)
	}
	if err := create(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	lost = false
	clock.SetTime(clock.Now().Add(reconcile.RecheckAfter - 1))
	if err := create(); !errors.Is(err, writes.ErrUncertain) || !reconcile.IsExpected(err) {
		t.Fatalf("got %v", err)
	}
	if settled, _ := tracked.Writes.Settled(owner()); !settled {
		t.Error("nothing may be deleted, either")
	}
	clock.SetTime(clock.Now().Add(1))
	if err := create(); err != nil {
		t.Fatal(err)
	}
	if n := len(client.Actions()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// Pins WL-115.
func TestWhatWasNotSentIsNotWaitedFor(t *testing.T) {
	tracked, _ := newTracked()
	errs := tracked.CreateAll(t.Context(), owner(), ref(), 1, func(int) *corev1.PodTemplateSpec { return &corev1.PodTemplateSpec{} })
	if state := tracked.Writes.HandOver()[ownerKey]; len(errs) != 1 || !state.Uncertain.IsZero() {
		t.Errorf("got %v, remembered is %+v", errs, state)
	}
}

// Pins WL-97 and WL-117.
func TestDeleteAll(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	}
	tracked, client := newTracked(pod("a"), pod("refused"), pod("lost"), pod("namesake"), pod("elsewhere"))
	failures := map[string]error{
		"refused": apierrors.NewForbidden(Resource, "refused", nil), "lost": io.ErrUnexpectedEOF,
		"elsewhere": plainNotFound(),
	}
	client.PrependReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		err := failures[action.(ktesting.DeleteAction).GetName()]
		return err != nil, nil, err
	})
	answerConflict(client, "namesake")
	errs := tracked.DeleteAll(t.Context(), owner(), []*corev1.Pod{
		pod("a"), pod("gone"), pod("refused"), pod("lost"), pod("namesake"), pod("elsewhere"),
	})
	for name, failure := range failures {
		if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, failure) }) {
			t.Errorf("there is no failure of %s: %v", name, errs)
		}
	}
	if len(errs) != len(failures) {
		t.Errorf("failures are %v", errs)
	}
	waits := map[string]time.Duration{}
	for object, until := range tracked.Writes.HandOver()[ownerKey].Deletions {
		waits[object.Name.Name] = until.Sub(time.Unix(1, 0))
	}
	if want := map[string]time.Duration{"a": writes.Timeout, "gone": writes.Timeout, "lost": reconcile.RecheckAfter}; !maps.Equal(waits, want) {
		t.Errorf("the owner waits for %v, want %v", waits, want)
	}
}

// The pod of the name is another one by now, but an admission webhook may answer so too. Pins WL-112.
func TestDeletionsThatConflictAreTriedAgainAndNotReported(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "namesake", UID: "older"}}
	tracked, client := newTracked()
	events := record.NewFakeRecorder(10)
	tracked.Untracked.Events = events
	answerConflict(client, pod.Name)
	errs := tracked.DeleteAll(t.Context(), owner(), []*corev1.Pod{pod})
	if len(errs) != 1 || !reconcile.IsExpected(errs[0]) {
		t.Errorf("got %v", errs)
	}
	if got := recorded(events); len(got) > 0 {
		t.Errorf("events are %q", got)
	}
	if left := tracked.Writes.HandOver()[ownerKey].Deletions; len(left) > 0 {
		t.Errorf("the owner waits for %v", left)
	}
}

// answerConflict makes the API server answer a conflict when pods of the name are deleted.
func answerConflict(client *fake.Clientset, name string) {
	client.PrependReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.(ktesting.DeleteAction).GetName() != name {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(Resource, name, errors.New("other UID"))
	})
}

func TestFailures(t *testing.T) {
	boom, again := errors.New("boom"), reconcile.Requeue(errors.New("again"))
	for _, test := range []struct{ errs, want []error }{
		{nil, nil},
		{[]error{again, again}, []error{again, again}},
		{[]error{again, boom, again}, []error{boom}},
	} {
		if got := Failures(test.errs); !slices.Equal(got, test.want) {
			t.Errorf("failures of %v are %v, want %v", test.errs, got, test.want)
		}
	}
}

func TestPatchFor(t *testing.T) {
	mine := FromTemplate(template(), owner(), *ref())
	mine.Namespace, mine.Name, mine.ResourceVersion = "ns", "mine", "7"
	for patch, want := range map[string]string{
		`{"metadata":{"labels":{"a":"b"}}}`:     "7",
		`{"metadata":{"ownerReferences":null}}`: "", // released
	} {
		tracked, _ := newTracked(mine.DeepCopy())
		if err := tracked.PatchFor(owner())(t.Context(), mine, []byte(patch)); err != nil {
			t.Fatal(err)
		}
		if got := tracked.Writes.HandOver()[ownerKey].Versions[Resource]; got != want {
			t.Errorf("%s: remembered is %q, want %q", patch, got, want)
		}
	}
	tracked, _ := newTracked()
	if err := tracked.PatchFor(owner())(t.Context(), mine, []byte(`{}`)); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is gone: %v", err)
	}
}

// An admission webhook changes the labels of each new pod. Pins WL-125.
func TestAPodThatDoesNotCountIsDeleted(t *testing.T) {
	tracked, client := newTracked()
	tracked.Counts = func(_, pod metav1.Object) bool { return pod.GetLabels()["app"] == "a" }
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		action.(ktesting.CreateAction).GetObject().(*corev1.Pod).Labels = map[string]string{"app": "other"}
		return false, nil, nil
	})
	create := func() []error {
		return tracked.CreateAll(t.Context(), owner(), ref(), 5, func(int) *corev1.PodTemplateSpec { return template() })
	}
	if errs := create(); len(errs) != 1 || reconcile.IsExpected(errs[0]) {
		t.Errorf("failures are %v", errs)
	}
	if errs := create(); len(errs) != 1 || !errors.Is(errs[0], writes.ErrUncertain) {
		t.Errorf("failures are %v", errs)
	}
	if n := len(client.Actions()); n != 2 || client.Actions()[1].GetVerb() != "delete" {
		t.Errorf("requests are %v", client.Actions())
	}
	if state := tracked.Writes.HandOver()[ownerKey]; left(state.Uncertain) != reconcile.RecheckAfter || !state.Hold.IsZero() {
		t.Errorf("remembered is %+v", state)
	}
	events := tracked.Untracked.Events.(*record.FakeRecorder).Events
	if first, second := <-events, <-events; first != "Normal SuccessfulCreate Created pod: p1" ||
		second != `Warning FailedCreate Error creating: pod "p1" was stored with other labels, annotations or finalizers than were sent, `+
			"so that it does not count and is deleted; an admission webhook may change them" {
		t.Errorf("events are %q and %q", first, second)
	}
}
