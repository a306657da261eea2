package owners

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/controllertest"
)

type podsOf = Dependents[*appsv1.ReplicaSet, *corev1.Pod]

// of makes a pod that a ReplicaSet controls, nobody if that is nil, and that has the label
// app of another.
func of(owner *appsv1.ReplicaSet, app string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p", ResourceVersion: "20", Labels: map[string]string{"app": app}}}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, setKind)}
	}
	if app == "" {
		pod.Labels = nil
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func another(p *corev1.Pod) { p.UID = "another" }

func newer(p *corev1.Pod) { p.ResourceVersion = "21" }

// dependentsBench knows the owners a and b, an owner that matches everything, whose
// selector is empty, and an a in another namespace.
func dependentsBench(t *testing.T) *bench {
	return newBench(t, nil, set("a"), set("b"),
		set("everything", func(rs *appsv1.ReplicaSet) { rs.Spec.Selector = &metav1.LabelSelector{} }),
		set("a", func(rs *appsv1.ReplicaSet) { rs.Namespace = "elsewhere" }))
}

func TestAddedDependents(t *testing.T) {
	for _, test := range []struct {
		name string
		with func(*podsOf)
		lane reconcile.Lane
		pod  *corev1.Pod
		want []string
	}{
		{"owned", nil, reconcile.Fresh, of(set("a"), "a"), []string{"a"}},
		{"replayed", nil, reconcile.Backlog, of(set("a"), "a"), []string{"backlog a"}},
		{"owned and leaving", nil, reconcile.Fresh, of(set("a"), "a", leaving), []string{"a"}},
		{"of an earlier owner", nil, reconcile.Fresh, of(set("a", func(rs *appsv1.ReplicaSet) { rs.UID = "earlier" }), "a"), nil},
		{"of an unknown owner", nil, reconcile.Fresh, of(set("unknown"), "a"), nil},
		{"of another kind", nil, reconcile.Fresh, of(set("a"), "a", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }), nil},
		{"of another group", nil, reconcile.Fresh, of(set("a"), "a", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "x/v1" }), []string{"a"}},
		{"orphan", nil, reconcile.Fresh, of(nil, "b"), []string{"b"}},
		{"orphan that nobody wants", nil, reconcile.Fresh, of(nil, "x"), nil},
		{"orphan without labels", nil, reconcile.Fresh, of(nil, ""), nil},
		{"WL-107: orphan being deleted", nil, reconcile.Fresh, of(nil, "a", leaving), nil},
		{"owned, ignored", func(d *podsOf) { d.IgnoreOwnedAdds = true }, reconcile.Fresh, of(set("a"), "a"), nil},
		{"owned, leaving, not ignored", func(d *podsOf) { d.IgnoreOwnedAdds = true }, reconcile.Fresh, of(set("a"), "a", leaving), []string{"a"}},
		{"orphan, not ignored", func(d *podsOf) { d.IgnoreOwnedAdds = true }, reconcile.Fresh, of(nil, "a"), []string{"a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := dependentsBench(t)
			d := podsOf{Owners: f.Owners}
			if test.with != nil {
				test.with(&d)
			}
			d.Added(test.lane, test.pod)
			f.queued.WantInAnyOrder(t, test.want...)
		})
	}
}

// Dependents of owners of other kinds do not even wake up the handler.
func TestWhatNoOwnerMayOwnIsNotWatched(t *testing.T) {
	f := dependentsBench(t)
	captured := &controllertest.Captured{}
	podsOf{Owners: f.Owners}.Watch(captured)
	h := captured.Handler.(informers.Selective)
	foreign := of(set("a"), "a")
	foreign.OwnerReferences[0].Kind = "Job"
	for name, test := range map[string]struct{ got, want bool }{
		"owned":              {h.WantsAdd(of(set("a"), "a")), true},
		"orphan":             {h.WantsAdd(of(nil, "a")), true},
		"of another kind":    {h.WantsAdd(foreign), false},
		"taken by another":   {h.WantsUpdate(of(nil, "a"), foreign), true},
		"of another, before": {h.WantsUpdate(foreign, of(nil, "a")), true},
		"stays with another": {h.WantsUpdate(foreign, foreign), false},
		"another's is gone":  {h.WantsDelete(foreign), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: wanted %v, want %v", name, test.got, test.want)
		}
	}
}

func TestUpdatedDependents(t *testing.T) {
	never := func(d *podsOf) { d.Matters = func(_, _ *corev1.Pod) bool { return false } }
	for _, test := range []struct {
		name     string
		with     func(*podsOf)
		old, now *corev1.Pod
		want     []string
		updated  []string // owners that OnUpdate is called with
	}{
		{"owned", nil, of(set("a"), "a"), of(set("a"), "a", newer), []string{"a"}, []string{"a"}},
		{"a resync", nil, of(set("a"), "a"), of(set("a"), "a"), nil, nil},
		{"of no importance", never, of(set("a"), "a"), of(set("a"), "a", newer), nil, nil},
		{"begins to leave", nil, of(set("a"), "a"), of(set("a"), "a", newer, leaving), []string{"a"}, []string{"a"}},
		{"given away", nil, of(set("a"), "a"), of(set("b"), "a", newer), []string{"a", "b"}, []string{"b"}},
		{"WL-107: given away while being deleted", nil, of(set("a"), "a"), of(set("b"), "a", newer, leaving), []string{"a", "b"}, []string{"b"}},
		{"adopted", nil, of(nil, "a"), of(set("a"), "a", newer), []string{"a"}, []string{"a"}},
		{"released, wanted by another", nil, of(set("a"), "a"), of(nil, "b", newer), []string{"a", "b"}, nil},
		{"released with the labels it had", nil, of(set("b"), "a"), of(nil, "a", newer), []string{"a", "b"}, nil},
		{"WL-107: released while being deleted", nil, of(set("a"), "a"), of(nil, "b", newer, leaving), []string{"a"}, nil},
		{"orphaned by an owner that is gone", nil, of(set("gone"), "a"), of(nil, "a", newer), []string{"a"}, nil},
		{"orphan relabelled", nil, of(nil, "a"), of(nil, "b", newer), []string{"b"}, nil},
		{"orphan changed otherwise", nil, of(nil, "a"), of(nil, "a", newer), nil, nil},
		{"WL-109: orphan of a name that another orphan had", nil, of(nil, "a", leaving), of(nil, "a", newer, another), []string{"a"}, nil},
		{"WL-107: orphan relabelled while being deleted", nil, of(nil, "a"), of(nil, "b", newer, leaving), nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := dependentsBench(t)
			var updated []string
			d := podsOf{Owners: f.Owners, OnUpdate: func(owner *appsv1.ReplicaSet, _, _ *corev1.Pod) { updated = append(updated, owner.Name) }}
			if test.with != nil {
				test.with(&d)
			}
			d.Updated(reconcile.Fresh, test.old, test.now)
			f.queued.WantInAnyOrder(t, test.want...)
			if !slices.Equal(updated, test.updated) {
				t.Errorf("called with %q, want %q", updated, test.updated)
			}
		})
	}
}

func TestDeletedDependents(t *testing.T) {
	f := dependentsBench(t)
	d := podsOf{Owners: f.Owners}
	d.Deleted(of(set("a"), "b"))
	f.queued.WantInAnyOrder(t, "a")
	d.Deleted(of(nil, "a"))
	f.queued.WantInAnyOrder(t)
}

func TestDependentsMayQueueTheirOwnersOtherwise(t *testing.T) {
	f := dependentsBench(t)
	d := podsOf{Owners: f.Owners, Enqueue: func(_ reconcile.Lane, owner *appsv1.ReplicaSet) {
		f.queued.Add(types.NamespacedName{Namespace: "otherwise", Name: owner.Name})
	}}
	d.Added(reconcile.Fresh, of(set("a"), "a"))
	d.Added(reconcile.Fresh, of(nil, "b"))
	f.queued.WantInAnyOrder(t, "otherwise/a", "otherwise/b")
}

func TestOwnersWithoutASelectorAdoptNothing(t *testing.T) {
	f := newBench(t, func(o *Options[*appsv1.ReplicaSet]) { o.Selector = nil }, set("a"))
	podsOf{Owners: f.Owners}.Added(reconcile.Fresh, of(nil, "a"))
	f.queued.WantInAnyOrder(t)
}
