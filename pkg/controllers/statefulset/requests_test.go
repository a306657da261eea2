package statefulset

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

// scaledTo changes spec.replicas only.
func scaledTo(n int32) setChange {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

// TestRequestsOfASet has a set do all that it can do. Pins STS-8 and STS-64.
func TestRequestsOfASet(t *testing.T) {
	orphanedRevision := renamed("a", revisionAt(t, 1, image("v0")))
	orphanedRevision.OwnerReferences = nil
	taken := revisionAt(t, 1)
	taken.Data.Raw, taken.Labels = []byte(`{}`), nil
	current := revisionAt(t, 1).Name
	unlabelled := func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) }
	foreign := func(p *corev1.Pod) { p.Labels = nil }
	limit := func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32) }
	sent := map[string]bool{}
	for _, objects := range [][]runtime.Object{
		{newSet(2, claims("data")), orphanedRevision, taken},
		{newSet(1, image("v2"), limit), renamed("a", revisionAt(t, 1, image("v0"))),
			renamed("b", revisionAt(t, 2, image("v2"))), renamed("c", revisionAt(t, 3))},
		{newSet(1, claims("data"), retention(retain, discard)), revisionAt(t, 1), claimFor("data-web-0"), claimFor("data-web-1"),
			podAt(newSet(1, claims("data")), current, 0), podAt(newSet(1, claims("data")), current, 1)},
		{newSet(3), revisionAt(t, 1),
			podAt(newSet(1), current, 0, orphaned, unlabelled), podAt(newSet(1), current, 7, foreign)},
	} {
		f := newFixture(t, objects...)
		f.MustReconcile(t)
		for _, request := range f.Requests() {
			sent[request[:strings.LastIndex(request, " ")]] = true
		}
	}
	want := []string{
		"create controllerrevisions", "create persistentvolumeclaims", "create pods",
		"delete controllerrevisions", "delete pods", "get controllerrevisions", "get statefulsets",
		"patch controllerrevisions", "patch pods",
		"update controllerrevisions", "update persistentvolumeclaims", "update statefulsets/status",
	}
	if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

// A cached pod lacks much of what the pod has. Pins STS-64.
func TestWhatTheCacheDoesNotShowOfAPodStays(t *testing.T) {
	f := settled(t, 1, claims("data"))
	stored := podAt(newSet(1), revisionAt(t, 1).Name, 0, func(p *corev1.Pod) {
		delete(p.Labels, appsv1.StatefulSetPodNameLabel)
		p.Labels["mine"] = "x"
		p.Annotations, p.Spec.Volumes = map[string]string{"mine": "x"}, []corev1.Volume{{Name: "mine"}}
	})
	f.Store(t, stored)
	cached := stored.DeepCopy()
	cached.Annotations, cached.Spec = nil, corev1.PodSpec{}
	f.Cache(t, cached, claimFor("data-web-0"))
	f.MustReconcile(t)
	f.WantRequests(t, "patch pods web-0")
	got := controllertest.MustStored[*corev1.Pod](t, f.Env, "ns", "web-0")
	if got.Labels["mine"] != "x" || got.Labels[appsv1.StatefulSetPodNameLabel] != "web-0" ||
		got.Annotations["mine"] != "x" || len(got.Spec.Containers) != 1 {
		t.Errorf("the pod is %+v", got)
	}
	isMine := func(v corev1.Volume) bool { return v.Name == "mine" }
	if v := got.Spec.Volumes; len(v) != 2 || !slices.ContainsFunc(v, isMine) || !storageMatches(newSet(1, claims("data")), got) {
		t.Errorf("the volumes are %v", got.Spec.Volumes)
	}
}

// A claim has the owner that the policy requires from the beginning. Pins STS-58 and STS-60.
func TestAPodCostsAsManyRequestsAsItHasParts(t *testing.T) {
	f := settled(t, 0, claims("data", "logs"), retention(discard, retain), scaledTo(2))
	f.MustReconcile(t)
	f.WantRequests(t, "create persistentvolumeclaims data-web-0", "create persistentvolumeclaims logs-web-0", createWeb0)
	f.WantEvents(t,
		"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Normal SuccessfulCreate Create Claim logs-web-0 Pod web-0 in StatefulSet web success",
		"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful")
	for _, claim := range controllertest.AllStored[*corev1.PersistentVolumeClaim](t, f.Env, "ns") {
		if got := describe(claim.OwnerReferences); got != "StatefulSet/o/true" {
			t.Errorf("%s is owned by %q", claim.Name, got)
		}
	}
	// It becomes ready, and so does the last one.
	f.kubelet(t)
	f.MustReconcile(t)
	f.WantRequests(t, "create persistentvolumeclaims data-web-1", "create persistentvolumeclaims logs-web-1", createWeb1, putStatus)
	f.kubelet(t)
	f.MustReconcile(t)
	f.WantRequests(t, putStatus)
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t)
}

// Pins STS-47.
func TestNothingIsDonePeriodically(t *testing.T) {
	f := settled(t, 2, claims("data"), retention(discard, discard), minReady(5))
	set := newSet(2, claims("data"))
	for n, name := range []string{"data-web-0", "data-web-1"} {
		claim := claimOwnedBy(bySet)
		claim.Name = name
		f.Store(t, claim, podAt(set, revisionAt(t, 1).Name, n))
	}
	f.c.owners.Queue = f.c.owners.Loop
	f.Start(t)
	f.Run(t, f.c)
	reconciled := func() uint64 {
		f.AwaitIdle(t)
		return f.c.owners.Loop.Inspect().Reconciled
	}
	before, writes := reconciled(), len(f.Writes())
	if keys := f.c.owners.Loop.Keys(func(string) bool { return true }); before == 0 || len(keys) > 0 {
		t.Errorf("%d reconciles, waiting are %+v", before, keys)
	}
	f.Clock.Step(time.Hour)
	if after := reconciled(); after != before || len(f.Writes()) != writes {
		t.Errorf("%d reconciles, %d before; wrote %q", after, before, f.WriteVerbs()[writes:])
	}
	if loops := f.Loops(); len(loops) != 1 {
		t.Errorf("loops are %v", loops)
	}
}

// Everything is judged by the time at which the pods were listed, and what is cached stays as it is. Pins STS-18 and WL-1.
func TestAReconcileHasOneInstantAndWorksOnACopy(t *testing.T) {
	f := settled(t, 0, minReady(10), scaledTo(3), image("v2"), edited)
	unlabelled := func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) }
	pods := []*corev1.Pod{
		podAt(newSet(3), revisionAt(t, 1).Name, 0, unlabelled),
		podAt(newSet(3), revisionAt(t, 1).Name, 1, readySince(start.Add(-7*time.Second))),
	}
	// The last revision is the one that is found again, in whichever order they are listed.
	revisions := []*appsv1.ControllerRevision{
		renamed("c", revisionAt(t, 9, image("v2"))), renamed("b", revisionAt(t, 8, image("v2"))),
	}
	for _, pod := range pods {
		f.Store(t, pod)
		f.Cache(t, pod)
	}
	for _, revision := range revisions {
		f.Cache(t, revision)
	}
	before := map[runtime.Object]runtime.Object{}
	for _, kind := range f.Kinds {
		for _, item := range f.CacheOf(t, kind).List() {
			cached := item.(runtime.Object)
			before[cached] = cached.DeepCopyObject()
		}
	}
	f.Intercept("patch pods web-0", func(ktesting.Action) error {
		f.Clock.Step(5 * time.Second) // by now web-1 is available
		return nil
	})
	f.MustReconcile(t)
	f.WantRequests(t, "patch pods web-0", putStatus)
	f.Queued.Want(t, "web in 0s")
	if got := f.status(t); got.AvailableReplicas != 1 || got.ReadyReplicas != 2 || got.UpdateRevision != "c" {
		t.Errorf("the status is %+v", got)
	}
	for cached, was := range before {
		if !apiequality.Semantic.DeepEqual(cached, was) {
			t.Errorf("the cache has %+v, had %+v", cached, was)
		}
	}
}
