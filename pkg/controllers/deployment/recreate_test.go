package deployment

import (
	"errors"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func edited(d *appsv1.Deployment)   { d.Generation = 2 }
func unowned(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
func isDeleted(rs *appsv1.ReplicaSet) {
	rs.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch}
}

// Pins DEP-72.
func TestWhatRunsAlthoughTheCacheDoesNotShowIt(t *testing.T) {
	stranger := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "other" }
	current, old := makeSet(2, 0), makeSet(1, 0)
	pod := func(rs *appsv1.ReplicaSet, phase corev1.PodPhase, changes ...func(*corev1.Pod)) []corev1.Pod {
		return []corev1.Pod{*controllertest.Changed(podOf(rs, "p", phase), changes...)}
	}
	for name, tc := range map[string]struct {
		sets     replicaSets
		liveSets []appsv1.ReplicaSet
		livePods []corev1.Pod
		want     string
	}{
		"nothing":                             {currentAnd(current, old), []appsv1.ReplicaSet{*current, *old}, nil, ""},
		"a pod":                               {currentAnd(current, old), []appsv1.ReplicaSet{*current, *old}, pod(old, corev1.PodRunning), "p"},
		"a pod that is being deleted":         {oldOf(old), []appsv1.ReplicaSet{*old}, pod(old, corev1.PodRunning, controllertest.Terminating), "p"},
		"a pod of a ReplicaSet that is gone":  {oldOf(old), nil, pod(old, corev1.PodUnknown), "p"},
		"a pod of an unknown ReplicaSet":      {currentAnd(current), []appsv1.ReplicaSet{*current, *old}, pod(old, corev1.PodPending), "p"},
		"a pod that has ended":                {oldOf(old), []appsv1.ReplicaSet{*old}, pod(old, corev1.PodFailed), ""},
		"a pod that was released":             {oldOf(old), []appsv1.ReplicaSet{*old}, pod(old, corev1.PodRunning, controllertest.Orphaned), ""},
		"a pod of the new ReplicaSet":         {currentAnd(current, old), []appsv1.ReplicaSet{*current, *old}, pod(current, corev1.PodRunning), ""},
		"a pod of another owner":              {oldOf(old), []appsv1.ReplicaSet{*makeSet(3, 1, stranger)}, pod(makeSet(3, 1), corev1.PodRunning), ""},
		"an unknown ReplicaSet":               {currentAnd(current), []appsv1.ReplicaSet{*makeSet(3, 1)}, nil, "web-3"},
		"an unknown one with pods":            {currentAnd(current), []appsv1.ReplicaSet{*makeSet(3, 0, observed(1, 1, 1))}, nil, "web-3"},
		"an unknown one that was scaled down": {currentAnd(current), []appsv1.ReplicaSet{*makeSet(3, 0, func(rs *appsv1.ReplicaSet) { rs.Generation = 2 })}, nil, "web-3"},
		"the new one with replicas":           {currentAnd(current), []appsv1.ReplicaSet{*makeSet(2, 3)}, nil, ""},
		"one that is not adopted yet":         {oldOf(old), []appsv1.ReplicaSet{*makeSet(3, 1, unowned)}, nil, "web-3"},
		"an orphan that is being deleted":     {oldOf(old), []appsv1.ReplicaSet{*makeSet(3, 1, unowned, isDeleted)}, nil, ""},
		"an old one that was scaled up":       {oldOf(old), []appsv1.ReplicaSet{*makeSet(1, 3)}, nil, "web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if object := running(makeDeployment(3, recreating), tc.sets, tc.liveSets, tc.livePods); object != nil {
				got = object.GetName()
			}
			if got != tc.want {
				t.Errorf("%q runs, want %q", got, tc.want)
			}
		})
	}
}

// A cache may lack what exists: the new ReplicaSet gets no pods beside old ones. Pins DEP-72.
func TestRecreateWaitsForOldPodsThatTheCacheLacks(t *testing.T) {
	for name, lacks := range map[string][]runtime.Object{
		"a pod":                    {podOf(makeSet(1, 0), "p", corev1.PodRunning)},
		"a pod and its ReplicaSet": {podOf(makeSet(1, 0), "p", corev1.PodRunning), makeSet(1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			old := makeSet(1, 0)
			h := newHarness(t, makeDeployment(3, recreating, image("v2"), edited), old, podOf(old, "p", corev1.PodRunning))
			h.c.owners.Queue = h.Queued
			h.CatchUp(t)
			h.Uncache(t, lacks...)
			h.MustReconcile(t)
			h.WantRequests(t, "list replicasets", "list pods", "update deployments/status")
			if delay := h.Queued.TakeDelay(key); delay != reconcile.RecheckAfter {
				t.Errorf("it is tried again after %v", delay)
			}
			h.Remove(t, podOf(old, "p", corev1.PodRunning))
			h.MustReconcile(t)
			if rs := h.set(t, hashName(h.deployment(t))); sizeOf(rs) != 3 {
				t.Errorf("the new ReplicaSet has %d", sizeOf(rs))
			}
		})
	}
}

// Nobody else would scale down a ReplicaSet that the cache lacks, and no event come. Pins DEP-72.
func TestRecreateScalesDownAnOldReplicaSetThatTheCacheLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		lacks *appsv1.ReplicaSet
		want  []string
	}{
		"an old one":              {makeSet(1, 3), []string{"list replicasets", "list pods", "update replicasets", "update deployments/status"}},
		"the new one":             {makeSet(2, 3), []string{"list replicasets", "list pods", "update deployments/status"}},
		"one that is not adopted": {makeSet(1, 3, unowned), []string{"list replicasets", "list pods", "update deployments/status"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(3, recreating, image("v2"), edited), tc.lacks)
			h.CatchUp(t)
			h.Uncache(t, tc.lacks)
			h.MustReconcile(t)
			h.WantRequests(t, tc.want...)
		})
	}
}

// The API server answers once per rollout, right before the new ReplicaSet gets the first pods. Pins DEP-72.
func TestOnlyTheStartOfNewPodsIsConfirmed(t *testing.T) {
	for name, tc := range map[string]struct {
		d     *appsv1.Deployment
		sets  []runtime.Object
		lists int
	}{
		"a new Deployment":                  {makeDeployment(3, recreating), nil, 0},
		"one with other ReplicaSets":        {makeDeployment(3, recreating), []runtime.Object{makeSet(2, 0)}, 1},
		"one that was edited":               {makeDeployment(3, recreating, edited), nil, 1},
		"one that was scaled to zero":       {makeDeployment(3, recreating), []runtime.Object{makeSet(1, 0)}, 1},
		"it has pods":                       {makeDeployment(3, recreating), []runtime.Object{makeSet(1, 3), makeSet(2, 0)}, 0},
		"it gets further pods":              {makeDeployment(3, recreating), []runtime.Object{makeSet(1, 2), makeSet(2, 0)}, 0},
		"none is wanted":                    {makeDeployment(0, recreating), []runtime.Object{makeSet(2, 0)}, 0},
		"an old one is scaled down":         {makeDeployment(3, recreating), []runtime.Object{makeSet(2, 3)}, 0},
		"an old one has pods":               {makeDeployment(3, recreating), []runtime.Object{makeSet(2, 0, observed(1, 1, 1))}, 0},
		"a rolling update confirms nothing": {makeDeployment(3), []runtime.Object{makeSet(2, 0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, append(tc.sets, tc.d)...)
			var sent []string
			for range 5 {
				h.reconcile(t)
				sent = append(sent, h.Requests()...)
			}
			for _, list := range []string{"list pods", "list replicasets"} {
				others := slices.DeleteFunc(slices.Clone(sent), func(request string) bool { return request == list })
				if lists := len(sent) - len(others); lists != tc.lists {
					t.Errorf("%s was sent %d times, want %d", list, lists, tc.lists)
				}
			}
		})
	}
}

// Pins DEP-72.
func TestNothingIsRecreatedWithoutAnAnswer(t *testing.T) {
	failure := errors.New("out of order")
	for _, request := range []string{"list replicasets", "list pods"} {
		t.Run(request, func(t *testing.T) {
			h := newHarness(t, makeDeployment(3, recreating), makeSet(2, 0))
			h.CatchUp(t)
			allow := h.Refuse(request, failure)
			if err := h.Reconcile(); !errors.Is(err, failure) {
				t.Errorf("the error is %v", err)
			}
			if sets := controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace); len(sets) != 1 {
				t.Errorf("there are %d ReplicaSets", len(sets))
			}
			allow()
			h.reconcile(t)
			if rs := h.set(t, hashName(h.deployment(t))); sizeOf(rs) != 3 {
				t.Errorf("the new ReplicaSet has %d", sizeOf(rs))
			}
		})
	}
}

// Pins DEP-29.
func TestRecreateWaitsForOldPods(t *testing.T) {
	old := makeSet(1, 10, current)
	h := newHarness(t, makeDeployment(10, recreating, image("v2")), old, podOf(old, "running", corev1.PodRunning), podOf(old, "done", corev1.PodSucceeded))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled down replica set web-1 from 10 to 0")

	h.reconcile(t)
	h.WantRequests(t)
	// The status leaves terminating pods out, so the pods themselves are looked at.
	h.changed(t, "web-1", observed(0, 0, 0))
	h.Clock.Step(time.Second)
	h.reconcile(t)
	h.WantRequests(t, "update deployments/status")

	if err := h.Fake.CoreV1().Pods(namespace).Delete(h.Context(), "running", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.reconcile(t)
	h.WantRequests(t, "list replicasets", "list pods", "create replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set "+hashName(h.deployment(t))+" from 0 to 10")
}

// Pins DEP-29.
func TestAnOldSetThatCannotBeScaledDownIsAnError(t *testing.T) {
	refusal := errors.New("no")
	h := newHarness(t, makeDeployment(10, recreating, image("v2")), makeSet(1, 10, current))
	h.CatchUp(t)
	h.Refuse("update replicasets web-1", refusal)
	if err := h.Reconcile(); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
}

// A ReplicaSet whose controller has not seen that it was scaled down may be given its pods right now. Pins DEP-64.
func TestRecreateWaitsUntilTheOldSetsWereSeen(t *testing.T) {
	unseen := func(rs *appsv1.ReplicaSet) { rs.Status = appsv1.ReplicaSetStatus{} }
	h := newHarness(t, makeDeployment(10, recreating, image("v2")), makeSet(1, 10, current, unseen))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets web-1", "update deployments/status")
	h.reconcile(t)
	h.WantRequests(t)
	h.changed(t, "web-1", observed(0, 0, 0))
	h.reconcile(t)
	h.WantRequests(t, "list replicasets", "list pods", "create replicasets", "update deployments/status")
}

// Pins DEP-29.
func TestRecreateScalesUpAnEarlierSet(t *testing.T) {
	h := newHarness(t, makeDeployment(10, recreating), makeSet(1, 0), makeSet(2, 0))
	h.reconcile(t)
	h.WantRequests(t, "update replicasets", "list replicasets", "list pods", "update replicasets", "update deployments/status")
	h.WantEvents(t, "Normal ScalingReplicaSet Scaled up replica set web-1 from 0 to 10")
}

func TestWhichPodsHoldARecreationUp(t *testing.T) {
	old := makeSet(1, 0)
	running := func(rs *appsv1.ReplicaSet) *corev1.Pod { return podOf(rs, "p", corev1.PodRunning) }
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"DEP-15: running":       {running(old), true},
		"DEP-15: pending":       {podOf(old, "p", corev1.PodPending), true},
		"DEP-15: unknown":       {podOf(old, "p", corev1.PodUnknown), true},
		"being deleted":         {controllertest.Changed(running(old), controllertest.Terminating), true},
		"has other labels":      {controllertest.Changed(running(old), controllertest.Labeled(nil)), true},
		"DEP-56: ended":         {podOf(old, "p", corev1.PodFailed), false},
		"DEP-15: orphan":        {controllertest.Changed(running(old), controllertest.Orphaned), false},
		"of the new one":        {running(makeSet(2, 0)), false},
		"DEP-15: of a namesake": {running(makeSet(1, 0, func(rs *appsv1.ReplicaSet) { rs.UID = "namesake" })), false},
		"in another place":      {controllertest.Changed(running(old), func(p *corev1.Pod) { p.Namespace = "elsewhere" }), false},
		"of an unknown one":     {running(makeSet(7, 0)), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, tc.pod)
			h.CatchUp(t)
			r := &reconciliation{deploymentController: h.c, sets: currentAnd(makeSet(2, 0), old)}
			if got, err := r.oldPodsRun(); err != nil || got != tc.want {
				t.Errorf("old pods run: %t, %v", got, err)
			}
		})
	}
}
