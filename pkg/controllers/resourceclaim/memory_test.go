package resourceclaim

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// A successor forgets the oldest first, too. Pins RCLM-56.
func TestARecordThatIsHandedOverKeepsItsOrder(t *testing.T) {
	const capacity = 20
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	predecessor, successor := newRecord(clock, capacity), newRecord(clock, capacity)
	uid := func(i int) types.UID { return types.UID(fmt.Sprint(i)) }
	for i := range capacity {
		predecessor.add(uid(i))
		clock.Step(time.Second)
	}
	successor.takeOver(predecessor.state())
	for i := range capacity / 2 {
		successor.add(uid(capacity + i))
	}
	for i := range capacity + capacity/2 {
		if _, known := successor.age(uid(i)); known != (i >= capacity/2) {
			t.Errorf("%d is known: %v", i, known)
		}
	}
}

// The cache shows nothing of what is written. Pins RCLM-33 and RCLM-50.
func TestAStaleCacheCausesNoSecondClaim(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)
	s.MustReconcile(t)
	s.WantRequests(t, recording)

	s.Env.CatchUp(t, &corev1.Pod{}) // the name arrives before the claim
	s.MustReconcile(t)
	s.WantRequests(t)

	s.Succeed(s.c.HandOver())
	s.succeed(t, defaults)
	s.MustReconcile(t)
	s.WantRequests(t)

	s.CatchUp(t)
	s.MustReconcile(t)
	s.WantRequests(t)
}

// A pod is replaced by one of the same name; the claim of the first is still being freed. Pins RCLM-50.
func TestTheClaimOfAFormerPodDoesNotMakeThatOfTheNextForgotten(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.WantRequests(t, creating, recording)
	h := handlersOf(s)
	former := claim(generatedFor("former", "gpu"))
	h.claims.OnUpdate(former, former)
	h.claims.OnDelete(former)
	h.pods.OnDelete(pod(with(ofTemplate("gpu", "template")), uid[*corev1.Pod]("former")))
	s.MustReconcile(t)
	s.WantRequests(t, recording)
}

// The claim comes and goes while the watch of claims is broken: no event reports it. Pins RCLM-61.
func TestAClaimThatTheCacheNeverShows(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.Env.CatchUp(t, &corev1.Pod{})
	s.MustReconcile(t)
	if queued := s.Queued.Take(); !slices.Equal(queued, []string{"pod:ns/pod in 10s"}) {
		t.Errorf("queued %q", queued)
	}
	s.Remove(t, stored(t, s, "pod-gpu-1"))
	s.NextVersion() // that of the deletion
	s.CatchUp(t)
	s.MustReconcile(t)
	wantStatuses(t, s, []string{"gpu", "pod-gpu-2"})
}

// Pins RCLM-31 and RCLM-50.
func TestAFreshClaimThatIsDeletedIsCreatedAgain(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	s.Remove(t, stored(t, s, "pod-gpu-1"))
	s.NextVersion() // that of the deletion
	s.CatchUp(t)
	s.MustReconcile(t)
	s.WantRequests(t, "get resourceclaims pod-gpu-1", creating, recording)
	wantStatuses(t, s, []string{"gpu", "pod-gpu-2"})
}

// The claim cannot have been created, so that nothing is to be found out before the next attempt. Pins RCLM-50.
func TestAClaimThatWasNotSentIsCreatedAtOnce(t *testing.T) {
	for name, refusal := range map[string]error{
		"its namespace is paused": &controller.PausedError{Namespace: "ns"},
		"nobody listens":          syscall.ECONNREFUSED,
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
			allow := s.Refuse(creating, refusal)
			if err := s.Reconcile(); !errors.Is(err, refusal) {
				t.Fatalf("got %v", err)
			}
			allow()
			s.Requests()
			s.MustReconcile(t)
			s.WantRequests(t, creating, recording)
		})
	}
}

// Pins RCLM-50.
func TestAClaimWhoseCreationMayHaveSucceededIsNotCreatedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		succeeds bool
		requests []string
	}{
		"it did":     {errors.New("the connection broke"), true, []string{"list resourceclaims", recording}},
		"it did not": {apierrors.NewTimeoutError("slow", 1), false, []string{"list resourceclaims", creating, recording}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
			allow := s.Refuse(creating, tc.err)
			if err := s.Reconcile(); err == nil {
				t.Fatal("no error")
			}
			allow()
			s.RecordedEvents()
			if tc.succeeds {
				s.Store(t, claim(generatedFor("pod", "gpu"), named("pod-gpu-x")), claim(generatedFor("another", "gpu"), named("pod-gpu-y")))
			}
			s.Requests()
			s.Succeed(s.c.HandOver())
			s.succeed(t, defaults)
			s.MustReconcile(t) // while it may take effect
			s.WantRequests(t)
			s.Queued.Want(t, "pod:ns/pod in 1s")
			s.Clock.Step(settling)
			s.MustReconcile(t)
			s.WantRequests(t, tc.requests...)
			if tc.succeeds {
				wantStatuses(t, s, []string{"gpu", "pod-gpu-x"})
			}
			s.MustReconcile(t)
			s.WantRequests(t, recording)
		})
	}
}

// The answer to the creation of a PodGroup's claim is lost. Pins RCLM-50.
func TestAPodGroupWhoseClaimMayExistIsReconciledAgain(t *testing.T) {
	s := begin(t, gated, groupKey, group(groupWith(ofTemplate("gpu", "template"))), template())
	allow := s.Refuse("create resourceclaims group-gpu-", errors.New("the connection broke"))
	if err := s.Reconcile(); err == nil {
		t.Fatal("no error")
	}
	allow()
	s.Requests()
	s.Queued.Take()
	s.MustReconcile(t)
	s.WantRequests(t)
	s.Queued.Want(t, "podgroup:ns/group in 1s")
}

// Pins RCLM-50.
func TestAClaimThatTheCacheShowsIsForgotten(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template"))), template())
	s.MustReconcile(t)
	of := reconcile.KeyOf(identity("ns", "pod"))
	if !s.c.memory.ofOwners.Knows(of) {
		t.Fatal("it is not remembered")
	}
	made := stored(t, s, "pod-gpu-1")
	s.CatchUp(t)
	handlersOf(s).claims.OnAdd(made, false)
	if s.c.memory.ofOwners.Knows(of) {
		t.Error("it is remembered")
	}
}

// Pins RCLM-64.
func TestDoubtsAboutOwnersThatAreGone(t *testing.T) {
	for name, tc := range map[string]struct {
		owner  types.UID
		cached runtime.Object // nil if it is not
		gone   bool
		after  time.Duration
		want   bool
	}{
		"a pod is cached":                      {"pod", pod(), false, time.Hour, true},
		"a group is cached":                    {"group", group(), false, time.Hour, true},
		"another group is cached":              {"another", group(), false, time.Hour, false},
		"the cache lacks it":                   {"pod", nil, false, doubtTTL - 1, true},
		"the cache lacks it for long":          {"pod", nil, false, doubtTTL, false},
		"it was deleted before the succession": {"pod", pod(), true, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, podKey)
			doubted := func() bool {
				_, ok := s.c.memory.doubts.age(tc.owner)
				return ok
			}
			s.c.memory.doubt(tc.owner)
			if !doubted() {
				t.Fatal("there is no doubt")
			}
			s.Clock.Step(tc.after)
			if tc.cached != nil {
				s.Cache(t, tc.cached)
			}
			left := s.c.HandOver()
			if tc.gone {
				left.gone[tc.owner] = s.Clock.Now()
			}
			s.Succeed(left)
			s.succeed(t, gated)
			if doubted() != tc.want {
				t.Errorf("there is a doubt: %t", doubted())
			}
		})
	}
}

// Pins RCLM-64.
func TestAnOwnerThatIsDeletedDuringACreate(t *testing.T) {
	p := pod(with(ofTemplate("gpu", "template")))
	s := begin(t, defaults, podKey, p, template())
	s.Fake.PrependReactor("create", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.c.podGone(p)
		return true, nil, errors.New("the connection broke")
	})
	if err := s.Reconcile(); err == nil {
		t.Fatal("no error")
	}
	if left := s.c.memory.doubts.state(); len(left) > 0 {
		t.Errorf("doubts are left: %v", left)
	}
}
