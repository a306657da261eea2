package resourcequota

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/controllertest"
)

// accounted is a cache of pods with accounts of it.
type accounted struct {
	*podAccounts
	clock *clocktesting.FakeClock
	pods  cache.Indexer
}

func newAccounted() accounted {
	clock := clocktesting.NewFakeClock(now)
	a := accounted{newPodAccounts(clock, everything), clock, cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	a.readFrom(source{a.pods, func() bool { return true }})
	return a
}

// show puts a pod into the cache and notifies the accounts.
func (a accounted) show(t testing.TB, pod *corev1.Pod) bool {
	t.Helper()
	if err := a.pods.Update(pod); err != nil {
		t.Fatal(err)
	}
	return a.changed(pod.Namespace, pod.Name)
}

func (a accounted) hide(t *testing.T, pod *corev1.Pod) bool {
	t.Helper()
	if err := a.pods.Delete(pod); err != nil {
		t.Fatal(err)
	}
	return a.changed(pod.Namespace, pod.Name)
}

func (a accounted) want(t *testing.T, s selected, want string) {
	t.Helper()
	used, err := a.usage("ns", s)
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, used, want)
}

func named(name, cpu string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := controllertest.Pod("ns", name, with(container("c", "cpu="+cpu, "")))
	return controllertest.Changed(pod, changes...)
}

func in(scopes ...corev1.ResourceQuotaScope) selected {
	return selectedBy(corev1.ResourceQuotaSpec{Scopes: scopes})
}

// Pins QUOTA-48 and QUOTA-84.
func TestAnAccountFollowsChanges(t *testing.T) {
	a := newAccounted()
	if a.show(t, named("a", "1")) {
		t.Error("a change is of interest before anybody has asked for the usage")
	}
	a.want(t, selected{}, "count/pods=1 pods=1 cpu=1 requests.cpu=1")
	if !a.show(t, named("b", "500m")) {
		t.Error("a change is of no interest")
	}
	other := controllertest.Pod("other", "a", with(container("c", "cpu=7", "")))
	a.show(t, other)
	a.want(t, selected{}, "count/pods=2 pods=2 cpu=1500m requests.cpu=1500m")
	a.show(t, named("b", "2", deadline(1)))
	a.want(t, selected{}, "count/pods=2 pods=2 cpu=3 requests.cpu=3")
	a.want(t, in("Terminating"), "count/pods=1 pods=1 cpu=2 requests.cpu=2")
	a.want(t, in("NotTerminating"), "count/pods=1 pods=1 cpu=1 requests.cpu=1")
	a.want(t, in("BestEffort"), "")
	a.show(t, named("a", "1", controllertest.InPhase(corev1.PodFailed)))
	a.want(t, selected{}, "count/pods=2 pods=1 cpu=2 requests.cpu=2")
	a.hide(t, named("b", "2"))
	a.hide(t, named("b", "2"))
	a.want(t, selected{}, "count/pods=1")
	a.want(t, in("Terminating"), "")
	a.hide(t, named("a", "1"))
	a.want(t, selected{}, "")
	a.forget("ns")
	if a.show(t, named("a", "1")) {
		t.Error("a change is of interest although nobody asks for the usage any more")
	}
}

// Fractions that do not fit into an integer are added up as exactly, and no entry is changed by
// that. Pins QUOTA-84.
func TestAnAccountIsExact(t *testing.T) {
	a := newAccounted()
	a.want(t, selected{}, "")
	huge := "9223372036854775807"
	for i := range 3 {
		a.show(t, named(fmt.Sprint(i), huge))
		a.show(t, named(fmt.Sprint("small", i), "1n"))
	}
	a.want(t, selected{}, "count/pods=6 pods=6 cpu=27670116110564327421.000000003 requests.cpu=27670116110564327421.000000003")
	for i := range 3 {
		a.hide(t, named(fmt.Sprint(i), huge))
	}
	a.want(t, selected{}, "count/pods=3 pods=3 cpu=3n requests.cpu=3n")
}

// A notification can be behind the cache: what counts is the cache. Pins QUOTA-84.
func TestNotificationsThatAreLate(t *testing.T) {
	a := newAccounted()
	store(t, a.pods, named("a", "1"), named("b", "2"))
	a.want(t, selected{}, "count/pods=2 pods=2 cpu=3 requests.cpu=3")
	a.changed("ns", "a") // its creation
	a.changed("ns", "a")
	a.changed("ns", "c") // created, and deleted meanwhile
	a.want(t, selected{}, "count/pods=2 pods=2 cpu=3 requests.cpu=3")
}

// A pod that is stuck in deletion uses nothing from a certain moment on, without any event. Pins
// QUOTA-51.
func TestEntriesExpire(t *testing.T) {
	a := newAccounted()
	store(t, a.pods, named("a", "1", deleted(0, 30)), named("b", "2", deleted(0, 60)), named("c", "4"))
	a.want(t, selected{}, "count/pods=3 pods=3 cpu=7 requests.cpu=7")
	a.clock.SetTime(now.Add(30 * time.Second))
	a.want(t, selected{}, "count/pods=3 pods=3 cpu=7 requests.cpu=7")
	a.clock.SetTime(now.Add(30*time.Second + 1))
	a.want(t, selected{}, "count/pods=3 pods=2 cpu=6 requests.cpu=6")
	a.hide(t, named("b", "2"))
	a.show(t, named("b", "1"))
	a.clock.SetTime(now.Add(time.Hour))
	a.want(t, selected{}, "count/pods=3 pods=2 cpu=5 requests.cpu=5")
	account, _ := a.existing("ns")
	if left := len(account.expires); left != 0 {
		t.Errorf("%d expiries are left", left)
	}
}

// The clock was ahead for a while. A pod that counted as released in the meantime is charged again, and released when
// its time has come. Pins QUOTA-104.
func TestTheClockIsSetBack(t *testing.T) {
	const all, released = "count/pods=2 pods=2 cpu=3 requests.cpu=3", "count/pods=2 pods=1 cpu=2 requests.cpu=2"
	going, stays := named("a", "1", deleted(0, 60)), named("b", "2")
	for name, ahead := range map[string]func(*testing.T, accounted){
		"the usage was computed": func(t *testing.T, a accounted) { a.want(t, selected{}, released) },
		"the pod has changed":    func(t *testing.T, a accounted) { a.show(t, going) },
		"the account was opened": func(t *testing.T, a accounted) {
			a.forget("ns")
			a.want(t, selected{}, released)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccounted()
			store(t, a.pods, going, stays)
			a.want(t, selected{}, all)
			a.clock.SetTime(now.Add(time.Hour))
			ahead(t, a)
			a.clock.SetTime(now.Add(time.Second))
			a.want(t, selected{}, all)
			a.clock.SetTime(now.Add(time.Minute))
			a.want(t, selected{}, all)
			a.clock.SetTime(now.Add(time.Minute + 1))
			a.want(t, selected{}, released)
		})
	}
}

// Usage may not be asked for any more, since no quota of the namespace limits pods. What is remembered of those that
// are gone does not grow with their number. Pins QUOTA-84.
func TestExpiriesOfWhatIsGoneAreDropped(t *testing.T) {
	a := newAccounted()
	stuck := named("stuck", "1", deleted(0, 60))
	store(t, a.pods, stuck)
	a.want(t, selected{}, "count/pods=1 pods=1 cpu=1 requests.cpu=1")
	for i := range 10_000 {
		pod := named(fmt.Sprint(i), "1", deleted(0, 30))
		a.show(t, pod)
		a.hide(t, pod)
	}
	account, _ := a.existing("ns")
	if left := len(account.expires); left > 100 {
		t.Errorf("%d expiries are left of one pod", left)
	}
	a.clock.SetTime(now.Add(time.Minute + 1))
	a.want(t, selected{}, "count/pods=1")
}

// Names of resources are chosen by whoever creates a pod. Those that nothing has any more are not kept, however many
// there were. Pins QUOTA-84.
func TestNamesThatNothingHasAnyMoreAreDropped(t *testing.T) {
	a := newAccounted()
	a.want(t, selected{}, "")
	a.show(t, named("stays", "1"))
	for i := range 1000 {
		pod := controllertest.Pod("ns", "goes", with(container("c", fmt.Sprintf("cpu=1 example.com/%d=1", i), "")))
		a.show(t, pod)
		a.hide(t, pod)
	}
	a.want(t, selected{}, "count/pods=1 pods=1 cpu=1 requests.cpu=1")
	account, _ := a.existing("ns")
	for _, sum := range account.sums {
		if len(sum.used) != 4 {
			t.Errorf("%d names have a sum", len(sum.used))
		}
	}
}

// Pins QUOTA-63 and QUOTA-65.
func TestNothingIsUsedBeforeAllIsKnown(t *testing.T) {
	a := newAccounted()
	store(t, a.pods, named("a", "1"))
	for name, from := range map[string]source{
		"not watched": {}, "not synced": {a.pods, func() bool { return false }},
	} {
		a.readFrom(from)
		if used, err := a.usage("ns", selected{}); err == nil || err.Error() != "/v1, Resource=pods not yet synced" {
			t.Errorf("%s: got %v, %v", name, used, err)
		}
		if a.show(t, named("a", "1")) {
			t.Errorf("%s: a change is of interest", name)
		}
	}
}

// BenchmarkChange is a pod that gets another status in a namespace with 10,000 pods and a quota.
func BenchmarkChange(b *testing.B) {
	a := newAccounted()
	for i := range 10_000 {
		a.show(b, named(fmt.Sprint(i), "1"))
	}
	if _, err := a.usage("ns", selected{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		a.changed("ns", "77")
	}
}

// BenchmarkUsage computes the usage of a namespace with 10,000 pods.
func BenchmarkUsage(b *testing.B) {
	a := newAccounted()
	for i := range 10_000 {
		a.show(b, named(fmt.Sprint(i), "1"))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.usage("ns", in("NotTerminating")); err != nil {
			b.Fatal(err)
		}
	}
}
