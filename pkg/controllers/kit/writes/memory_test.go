package writes

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

var (
	podResource = schema.GroupResource{Resource: "pods"}
	setResource = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	owner       = pod("rs", "o", "1")
	recreated   = pod("rs", "new", "1")
)

type fixture struct {
	*Memory
	clock *clocktesting.FakeClock
	pods  cache.Indexer
	sets  cache.Indexer
}

func newFixture() fixture {
	f := fixture{
		clock: clocktesting.NewFakeClock(time.Unix(1000, 0)),
		pods:  cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
		sets:  cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
	}
	f.Memory = New(f.clock, Stores{podResource: f.pods, setResource: f.sets})
	return f
}

func pod(name string, uid types.UID, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: version}}
}

func (f fixture) store(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := f.pods.Add(p); err != nil {
		t.Fatal(err)
	}
}

func (f fixture) wantSettled(t *testing.T, want bool, wantRetry time.Duration) {
	t.Helper()
	if settled, retry := f.Settled(owner); settled != want || retry != wantRetry {
		t.Errorf("settled %v, retry in %v, want %v, %v", settled, retry, want, wantRetry)
	}
}

// wantFresh checks that Fresh says one of some things.
func (f fixture) wantFresh(t *testing.T, want ...string) {
	t.Helper()
	err := f.Fresh(owner)
	got := ""
	if err != nil {
		got = err.Error()
	}
	if !slices.Contains(want, got) {
		t.Errorf("stale: %q, want %q", got, want)
	}
}

func TestNothingRecordedIsFreshAndSettled(t *testing.T) {
	f := newFixture()
	f.wantFresh(t, "")
	f.wantSettled(t, true, 0)
}

// Pins WL-45, WL-47 and WL-49.
func TestWritesAreWaitedForUntilTheStoreHasTheirVersion(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("9")
	f.Wrote(owner, podResource, "10")
	f.Wrote(owner, podResource, "12")
	f.Wrote(owner, podResource, "11") // answers come in any order; the highest counts
	f.wantFresh(t, "read version: 9 is not as new as written version: 12 for group resource pods")
	f.wantSettled(t, false, time.Second)

	f.pods.Bookmark("11")
	f.wantFresh(t, "read version: 11 is not as new as written version: 12 for group resource pods")
	f.store(t, pod("unrelated", "x", "100"))
	f.wantSettled(t, true, 0)
	f.wantFresh(t, "")
	if len(f.owners) != 0 {
		t.Errorf("remembers %v", f.owners)
	}
}

// Pins WL-44, WL-47 and WL-49.
func TestEachResourceIsComparedWithItsOwnStore(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("50")
	f.sets.Bookmark("5")
	f.Wrote(owner, podResource, "40")
	f.Wrote(owner, setResource, "10")
	if r := f.owners[reconcile.KeyOf(owner)]; len(f.owners) != 1 || r.UID != owner.UID || !maps.Equal(r.Versions, map[schema.GroupResource]string{podResource: "40", setResource: "10"}) {
		t.Errorf("remembers %v", f.owners)
	}
	err := f.Fresh(owner)
	var stale *StaleError
	if !errors.As(err, &stale) || stale.Resource != setResource || stale.Read != "5" || stale.Written != "10" {
		t.Fatalf("got %v", err)
	}
	if want := "read version: 5 is not as new as written version: 10 for group resource replicasets.apps"; err.Error() != want {
		t.Errorf("got %q", err)
	}
	f.sets.Bookmark("10")
	f.wantFresh(t, "")
}

// Pins WL-47.
func TestVersionsThatCannotBeComparedCountAsSeen(t *testing.T) {
	for _, test := range []struct {
		name, read, written string
		resource            schema.GroupResource
	}{
		{"the store tells no version", "", "10", podResource},
		{"the store tells nonsense", "x", "10", podResource},
		{"the write returned nonsense", "5", "x", podResource},
		{"the write returned no version", "5", "", podResource},
		{"there is no store", "5", "10", schema.GroupResource{Resource: "secrets"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture()
			f.pods.Bookmark(test.read)
			f.Wrote(owner, test.resource, test.written)
			f.wantSettled(t, true, 0)
			f.Wrote(owner, test.resource, test.written)
			f.wantFresh(t, "")
			if len(f.owners) != 0 {
				t.Errorf("remembers %v", f.owners)
			}
		})
	}
}

// Pins WL-45.
func TestAVersionThatCannotBeComparedIsReplacedByTheNext(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("5")
	f.Wrote(owner, podResource, "x")
	f.Wrote(owner, podResource, "10")
	f.wantFresh(t, "read version: 5 is not as new as written version: 10 for group resource pods")
}

// Pins WL-97.
func TestAWriteIsWaitedForForFiveMinutes(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("5")
	f.Wrote(owner, podResource, "10")
	f.clock.Step(Timeout - time.Millisecond)
	f.wantSettled(t, false, time.Millisecond)
	f.clock.Step(time.Millisecond)
	f.wantSettled(t, true, 0)
	f.Wrote(owner, podResource, "11")
	f.wantSettled(t, false, time.Second)
}

// Pins WL-47 and WL-123.
func TestACacheIsStaleForHoweverLongItIsBehind(t *testing.T) {
	f := newFixture()
	f.Wrote(owner, podResource, "10")
	for _, version := range []string{"5", "5", "7", "9"} {
		f.clock.Step(Timeout)
		f.pods.Bookmark(version)
		f.wantFresh(t, "read version: "+version+" is not as new as written version: 10 for group resource pods")
	}
	f.pods.Bookmark("10")
	f.wantFresh(t, "")
	if len(f.owners) != 0 {
		t.Errorf("remembers %v", f.owners)
	}
}

// TestNothingIsWaitedForWhenVersionsHaveGoneBack: the cluster was restored from a backup, and
// what was written after it is not going to come.
// Pins WL-99.
func TestNothingIsWaitedForWhenVersionsHaveGoneBack(t *testing.T) {
	other := pod("other", "x", "1")
	f := newFixture()
	f.sets.Bookmark("1000")
	f.pods.Bookmark("1000")
	f.store(t, pod("p", "1", "1001"))
	f.Wrote(owner, podResource, "1010")
	f.Wrote(owner, setResource, "1011")
	f.Deleting(owner, podResource, pod("p", "1", "1001"))
	f.Wrote(other, podResource, "1012")
	f.wantFresh(t, "read version: 1001 is not as new as written version: 1010 for group resource pods",
		"read version: 1000 is not as new as written version: 1011 for group resource replicasets.apps")

	if err := f.pods.Replace([]any{pod("p", "1", "900")}, "950"); err != nil {
		t.Fatal(err)
	}
	if err := f.Fresh(other); err != nil {
		t.Errorf("another owner: %v", err)
	}
	f.wantFresh(t, "read version: 1000 is not as new as written version: 1011 for group resource replicasets.apps")
	if err := f.sets.Replace(nil, "940"); err != nil {
		t.Fatal(err)
	}
	f.wantFresh(t, "")
	f.wantSettled(t, true, 0)
	if len(f.owners) != 0 {
		t.Errorf("remembers %v", f.owners)
	}

	f.Wrote(owner, podResource, "960") // and from here on all is as ever
	f.wantFresh(t, "read version: 950 is not as new as written version: 960 for group resource pods")
	f.pods.Bookmark("960")
	f.wantFresh(t, "")
}

// The cache was not read between the write and the restore. Pins WL-99.
func TestARestoreIsNoticedThatComesRightAfterAWrite(t *testing.T) {
	p := pod("p", "1", "1001")
	for name, write := range map[string]func(fixture){
		"a write":    func(f fixture) { f.Wrote(owner, podResource, "1010") },
		"a deletion": func(f fixture) { f.Deleting(owner, podResource, p) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.store(t, p)
			write(f)
			f.wantSettled(t, false, map[string]time.Duration{"a write": recheck, "a deletion": Timeout}[name])
			f = newFixture()
			f.store(t, p)
			write(f)
			if err := f.pods.Replace([]any{pod("p", "1", "900")}, "950"); err != nil {
				t.Fatal(err)
			}
			f.wantSettled(t, true, 0)
			f.wantFresh(t, "")
		})
	}
}

// What was written may arrive while it is looked for: the owner is read after that.
// Pins WL-98.
func TestReadReturnsTheOwnerWithWhatWasWritten(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("5")
	f.Wrote(owner, podResource, "10")
	shown := pod("rs", "o", "9")
	get := func() (*corev1.Pod, error) { return shown, nil }
	var stale *StaleError
	if _, err := Read(f.Memory, get); !errors.As(err, &stale) {
		t.Errorf("got %v", err)
	}
	calls := 0
	got, err := Read(f.Memory, func() (*corev1.Pod, error) {
		calls++
		was := shown
		f.pods.Bookmark("10")
		shown = pod("rs", "o", "10")
		return was, nil
	})
	if err != nil || got.ResourceVersion != "10" || calls != 2 {
		t.Errorf("got %v, %v after %d calls", got, err, calls)
	}
	broken := errors.New("broken")
	if _, err := Read(f.Memory, func() (*corev1.Pod, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Pins WL-97.
func TestDeletionsAreWaitedForUntilTheStoreShowsThem(t *testing.T) {
	deleting := pod("p", "1", "20")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for _, test := range []struct {
		name string
		then func(t *testing.T, f fixture)
		want bool
	}{
		{"unchanged", func(*testing.T, fixture) {}, false},
		{"changed otherwise", func(t *testing.T, f fixture) { f.store(t, pod("p", "1", "20")) }, false},
		{"lost its owner", func(t *testing.T, f fixture) {
			orphan := pod("p", "1", "20")
			orphan.OwnerReferences = nil
			f.store(t, orphan)
		}, false},
		{"being deleted", func(t *testing.T, f fixture) { f.store(t, deleting) }, true},
		{"gone", func(t *testing.T, f fixture) {
			if err := f.pods.Delete(deleting); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"recreated", func(t *testing.T, f fixture) { f.store(t, pod("p", "2", "20")) }, true},
		{"the call failed", func(_ *testing.T, f fixture) { f.DeleteFailed(owner, podResource, pod("p", "1", "10")) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture()
			f.store(t, pod("p", "1", "10"))
			f.Deleting(owner, podResource, pod("p", "1", "10"))
			f.wantSettled(t, false, Timeout)
			f.wantFresh(t, "")
			test.then(t, f)
			if test.want {
				f.wantSettled(t, true, 0)
			} else {
				f.wantSettled(t, false, Timeout)
			}
			if test.want != (len(f.owners) == 0) {
				t.Errorf("remembers %v", f.owners)
			}
		})
	}
}

// Pins WL-97.
func TestADeletionWithoutAnswerIsWaitedForBriefly(t *testing.T) {
	f := newFixture()
	p, q := pod("p", "1", "10"), pod("q", "2", "11")
	f.store(t, p)
	f.store(t, q)
	f.DeleteUnanswered(owner, podResource, q) // nor was it about to be deleted
	f.Deleting(owner, podResource, p)
	f.DeleteUnanswered(owner, podResource, p)
	f.wantSettled(t, false, reconcile.RecheckAfter)
	f.DeleteUnanswered(owner, podResource, q)
	f.clock.Step(reconcile.RecheckAfter)
	f.wantSettled(t, true, 0)
	f.DeleteUnanswered(owner, podResource, p)
	f.wantSettled(t, true, 0)
}

// Pins WL-97.
func TestADeletionIsGivenUpAfterFiveMinutes(t *testing.T) {
	f := newFixture()
	f.store(t, pod("p", "1", "10"))
	f.store(t, pod("q", "2", "11"))
	f.Deleting(owner, podResource, pod("p", "1", "10"))
	f.clock.Step(time.Minute)
	f.Deleting(owner, podResource, pod("q", "2", "11"))
	f.wantSettled(t, false, Timeout-time.Minute)
	f.clock.Step(Timeout - time.Minute)
	f.wantSettled(t, false, time.Minute)
	f.clock.Step(time.Minute)
	f.wantSettled(t, true, 0)
}

// Of several waits the shortest counts. Pins WL-97 and WL-116.
func TestAnOwnerIsLookedAtAgainWhenTheFirstWaitEnds(t *testing.T) {
	f := newFixture()
	f.store(t, pod("p", "1", "10"))
	f.Deleting(owner, podResource, pod("p", "1", "10"))
	f.Hold(owner, time.Minute)
	f.wantSettled(t, false, time.Minute)
	f.clock.Step(time.Minute)
	f.wantSettled(t, false, Timeout-time.Minute)
}

// Pins WL-116.
func TestHoldEndsByItselfOrWithTheOwner(t *testing.T) {
	f := newFixture()
	f.Hold(owner, Timeout)
	f.Hold(owner, time.Second)
	f.wantSettled(t, false, Timeout)
	f.wantFresh(t, "")
	f.clock.Step(Timeout - 1)
	f.wantSettled(t, false, 1)
	f.clock.Step(1)
	f.wantSettled(t, true, 0)

	f.Hold(owner, Timeout)
	f.Forget(owner)
	f.wantSettled(t, true, 0)
}

func TestAfterACreationWithoutAnswerNothingElseIsCreatedForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		attempted, next string
		took, later     time.Duration // the request, and after it
		may             bool
	}{
		"a generated name":                 {"", "", 0, reconcile.RecheckAfter - 1, false},
		"a generated name, later":          {"", "", 0, reconcile.RecheckAfter, true},
		"the same name":                    {"a", "a", 0, 0, true},
		"another name":                     {"a", "b", 0, requests.LateWithin - 1, false},
		"another name, later":              {"a", "b", 0, requests.LateWithin, true},
		"another name, sent a minute ago":  {"a", "b", time.Minute, reconcile.RecheckAfter - 1, false},
		"the same, later":                  {"a", "b", time.Minute, reconcile.RecheckAfter, true},
		"a name after one was generated":   {"", "b", 0, 0, false},
		"a generated name after one given": {"a", "", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.CreateUncertain(owner, test.attempted, f.clock.Now().Add(-test.took))
			f.clock.Step(test.later)
			successor := New(f.clock, f.stores)
			successor.TakeOver(f.HandOver())
			for _, m := range []*Memory{f.Memory, successor} {
				err := m.MayCreate(owner, test.next)
				if (err == nil) != test.may || err != nil && !errors.Is(err, ErrUncertain) {
					t.Errorf("it may not: %v", err)
				}
				if got := m.Attempted(owner); got != test.attempted {
					t.Errorf("attempted: %q, want %q", got, test.attempted)
				}
				if err, got := m.MayCreate(recreated, test.next), m.Attempted(recreated); err != nil || got != "" {
					t.Errorf("another owner of the name: %v, attempted: %q", err, got)
				}
				m.CreateUncertain(owner, test.attempted, f.clock.Now())
				m.CreateCertain(owner)
				if err, got := m.MayCreate(owner, test.next), m.Attempted(owner); err != nil || got != "" {
					t.Errorf("after an answer: %v, attempted: %q", err, got)
				}
			}
		})
	}
}

// Pins WL-116.
func TestSomebodyIsToldOfAHold(t *testing.T) {
	f := newFixture()
	told := map[types.NamespacedName]time.Duration{}
	f.OnHold = func(owner types.NamespacedName, d time.Duration) { told[owner] = d }
	f.Hold(owner, Timeout)
	if want := map[types.NamespacedName]time.Duration{reconcile.KeyOf(owner): Timeout}; !maps.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

// Pins WL-41 and WL-45.
func TestARecreatedOwnerStartsClean(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("5")
	record := func() {
		f.Hold(owner, Timeout)
		f.Wrote(owner, podResource, "10")
	}
	record()
	if settled, _ := f.Settled(recreated); !settled {
		t.Error("what was written for the old owner holds up the new one")
	}
	record()
	if err := f.Fresh(recreated); err != nil {
		t.Errorf("what was written for the old owner holds up the new one: %v", err)
	}
	record()
	f.Wrote(recreated, podResource, "3")
	f.wantFresh(t, "")
}

func TestClusterScopedDeletions(t *testing.T) {
	f := newFixture()
	clusterScoped := pod("p", "1", "10")
	clusterScoped.Namespace = ""
	f.store(t, clusterScoped)
	f.Deleting(owner, podResource, clusterScoped)
	f.wantSettled(t, false, Timeout)
}
