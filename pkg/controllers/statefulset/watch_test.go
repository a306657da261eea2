package statefulset

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func withName(name string) setChange {
	return func(set *appsv1.StatefulSet) { set.Name, set.UID = name, types.UID(name) }
}

// Pins STS-6.
func TestPodEvents(t *testing.T) {
	set := newSet(3, minReady(7))
	other := newSet(3, withName("other"))
	version := func(v string) podChange { return func(p *corev1.Pod) { p.ResourceVersion = v } }
	ofOther := func(p *corev1.Pod) { p.OwnerReferences = podAt(other, "r", 0).OwnerReferences }
	ofPredecessor := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "older" }
	unlabelled := func(p *corev1.Pod) { p.Labels = nil }
	labelled := func(v string) podChange { return func(p *corev1.Pod) { p.Labels = map[string]string{"app": v} } }
	pod := func(changes ...podChange) *corev1.Pod { return podAt(set, "r", 0, changes...) }
	for _, test := range []struct {
		name     string
		old, new *corev1.Pod
		want     []string
	}{
		{"added", nil, pod(), []string{"web"}},
		{"added while being deleted", nil, pod(terminating), []string{"web"}},
		{"orphan added while being deleted", nil, pod(orphaned, terminating), nil},
		{"orphan added", nil, pod(orphaned), []string{"other", "web"}},
		{"orphan without labels added", nil, pod(orphaned, unlabelled), nil},
		{"of a predecessor added", nil, pod(ofPredecessor), nil},
		{"deleted", pod(), nil, []string{"web"}},
		{"orphan deleted", pod(orphaned), nil, nil},
		{"resynced", pod(), pod(notReady), nil},
		{"nothing of interest", pod(), pod(version("2")), nil},
		{"not ready", pod(), pod(version("2"), notReady), []string{"web"}},
		{"ready", pod(notReady), pod(version("2")), []string{"web", "web in 7s"}},
		{"deletion began", pod(), pod(version("2"), terminating), []string{"web"}},
		{"adopted", pod(orphaned), pod(version("2")), []string{"web"}},
		{"released", pod(), pod(version("2"), orphaned), []string{"web", "other", "web"}},
		{"moved", pod(), pod(version("2"), ofOther), []string{"web", "other"}},
		{"orphan relabelled", pod(orphaned, labelled("x")), pod(version("2"), orphaned, labelled("a")), []string{"other", "web"}},
		{"orphan otherwise", pod(orphaned), pod(version("2"), orphaned, notReady), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, set, other)
			switch {
			case test.old == nil:
				f.c.podsOfOwners().Added(reconcile.Fresh, test.new)
			case test.new == nil:
				f.c.podsOfOwners().Deleted(test.old)
			default:
				f.c.podsOfOwners().Updated(reconcile.Fresh, test.old, test.new)
			}
			f.Queued.WantInAnyOrder(t, test.want...)
		})
	}
}

// A pod of somebody else has the name of a slot, and is deleted. Pins STS-82.
func TestTheSlotOfANamesakeIsFilledWhenThatIsGone(t *testing.T) {
	set := newSet(2)
	ofFormer := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "former" }
	called := func(name string) podChange { return func(p *corev1.Pod) { p.Name = name; orphaned(p) } }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"of a former set":       {podAt(set, "r", 1, ofFormer), []string{"web"}},
		"of nobody":             {podAt(set, "r", 0, orphaned), []string{"web"}},
		"of the set itself":     {podAt(set, "r", 0), nil}, // which is an event of a dependent
		"no slot to be filled":  {podAt(set, "r", 2, orphaned), nil},
		"no slot":               {podAt(set, "r", 0, called("web-x")), nil},
		"a slot of another set": {podAt(set, "r", 0, called("db-0")), nil},
	} {
		f := newFixture(t, set)
		watch.Handler(f.c.namesakeFuncs()).OnDelete(test.pod)
		if got := f.Queued.Take(); !slices.Equal(got, test.want) {
			t.Errorf("%s: queued %q, want %q", name, got, test.want)
		}
	}

	f := newFixture(t, set, podAt(set, "r", 1, ofFormer))
	f.Start(t)
	queued := func(want string) {
		t.Helper()
		controllertest.Eventually(t, want+" is queued", func() bool { return slices.Equal(f.Queued.Take(), []string{want}) })
	}
	queued("backlog web")
	if err := f.Fake.CoreV1().Pods("ns").Delete(t.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	queued("web")
}

// Pins STS-5.
func TestSetsAreWatched(t *testing.T) {
	f := newFixture(t)
	f.Start(t)
	client := f.Fake.AppsV1().StatefulSets("ns")
	queued := func(when string) {
		t.Helper()
		controllertest.Eventually(t, "it is queued when it is "+when, func() bool { return slices.Equal(f.Queued.Take(), []string{"web"}) })
	}
	created := must.Get(client.Create(t.Context(), newSet(1), metav1.CreateOptions{}))(t)
	queued("created")
	created.Spec.Replicas = ptr.To[int32](2)
	must.Get(client.Update(t.Context(), created, metav1.UpdateOptions{}))(t)
	queued("changed")
	if err := client.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	queued("deleted")
}

func TestSetEvents(t *testing.T) {
	version := func(v string) setChange { return func(set *appsv1.StatefulSet) { set.ResourceVersion = v } }
	for _, test := range []struct {
		name string
		lane reconcile.Lane
		new  setChange
		want []string
	}{
		{"changed by others", reconcile.Fresh, version("12"), []string{"web"}},
		{"own status write", reconcile.Fresh, version("11"), nil},
		{"resynced", reconcile.Backlog, version("11"), []string{"backlog web"}},
		{"own write of a new revision", reconcile.Fresh, func(set *appsv1.StatefulSet) { version("11")(set); set.Status.CurrentRevision = "x" }, []string{"web"}},
		{"own write after a change", reconcile.Fresh, func(set *appsv1.StatefulSet) { version("11")(set); set.Generation = 2 }, []string{"web"}},
		{"recreated", reconcile.Fresh, func(set *appsv1.StatefulSet) { version("11")(set); set.UID = "new" }, []string{"web", "web"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			f.c.owners.Writes.WroteStatus(newSet(1), "11")
			f.c.owners.Updated(test.lane, newSet(1), newSet(1, test.new))
			f.Queued.Want(t, test.want...)
		})
	}
}

// Pins STS-63.
func TestDeletedClaimsBringTheirSetBack(t *testing.T) {
	set := newSet(2, claims("data", "my-logs"))
	dashed := newSet(2, withName("logs-web"), claims("my"))
	for name, want := range map[string][]string{
		"data-web-1":       {"web"},
		"data-web-2":       nil, // no such slot
		"my-logs-web-0":    {"logs-web", "web"},
		"unknown-web-0":    nil,
		"data-unknown-0":   nil,
		"data-web":         nil,
		"something-else-x": nil,
	} {
		f := newFixture(t, set, dashed)
		watch.Handler(f.c.claimFuncs()).OnDelete(claimFor(name))
		f.Queued.Want(t, want...)
	}
}

// A claim that has other owners besides a pod that is gone is not deleted: it loses the reference.
// Pins STS-63 and STS-73.
func TestClaimsThatChangeOwnersBringTheirSetBack(t *testing.T) {
	claim := func(uid types.UID, version string, refs ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		c := claimOwnedBy(refs...)
		c.UID, c.ResourceVersion = uid, version
		return c
	}
	old := claim("c", "1", stalePod, bystander)
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  []string
	}{
		"loses a reference": {claim("c", "2", bystander), []string{"web"}},
		"is another one":    {claim("d", "2", stalePod, bystander), []string{"web"}},
		"otherwise":         {claim("c", "2", stalePod, bystander), nil},
		"resynced":          {old, nil},
	} {
		t.Run(name, func(t *testing.T) {
			// Its slot is not to be filled in the second case, as if the set were to retain its claims from now on.
			for _, replicas := range []int32{2, 1} {
				f := newFixture(t, newSet(replicas, claims("data")))
				watch.Handler(f.c.claimFuncs()).OnUpdate(old, test.claim)
				f.Queued.Want(t, test.want...)
			}
		})
	}
}
