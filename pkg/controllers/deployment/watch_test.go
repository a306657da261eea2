package deployment

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// other is a Deployment beside web that selects app=other.
func other(d *appsv1.Deployment) {
	d.Name, d.UID = "other", "d-2"
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
}

// Pins DEP-5.
func TestEveryEventOfADeploymentQueuesIt(t *testing.T) {
	h := newHarness(t, makeDeployment(1))
	h.c.owners.Queue, h.Queued.Namespace = h.Queued, namespace
	queued := func(what string, want ...string) {
		t.Helper()
		var got []string
		controllertest.Eventually(t, what, func() bool {
			got = append(got, h.Queued.Take()...)
			return len(got) >= len(want)
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: queued %q, want %q", what, got, want)
		}
	}
	h.Start(t)
	queued("one that is there", "backlog web")
	controllertest.Change(t, h.Env, namespace, "web", func(d *appsv1.Deployment) { d.Spec.Paused = true })
	queued("a change", "web")
	d := h.deployment(t)
	d.Status.Replicas = 1
	if _, err := h.Fake.AppsV1().Deployments(namespace).UpdateStatus(h.Context(), d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	queued("a change of the status", "web")
	own := d.DeepCopy()
	own.ResourceVersion = h.NextVersion()
	h.c.owners.WroteStatus(d, own)
	h.c.owners.Updated(reconcile.Fresh, d, own)
	queued("its own write of the status", "web")
	h.c.owners.Updated(reconcile.Backlog, d, d)
	queued("a resync", "backlog web")
	h.Store(t, makeDeployment(1, other))
	queued("another", "other")
	h.Remove(t, d)
	queued("a deletion", "web")
}

// Pins DEP-6.
func TestWhichEventsQueueADeployment(t *testing.T) {
	orphan := func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil }
	labelled := func(app string) setChange {
		return func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": app} }
	}
	unlabelled := func(rs *appsv1.ReplicaSet) { rs.Labels = nil }
	deleting := func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }
	ownedBy := func(uid string) setChange {
		return func(rs *appsv1.ReplicaSet) {
			rs.OwnerReferences[0].UID = "d-2"
			rs.OwnerReferences[0].Name = uid
		}
	}
	update := func(c *deploymentController, old, rs *appsv1.ReplicaSet) {
		old.ResourceVersion, rs.ResourceVersion = "1", "2"
		c.replicaSetsOfOwners().Updated(reconcile.Fresh, old, rs)
	}
	for _, tc := range []struct {
		name  string
		event func(*deploymentController)
		want  int
	}{
		{"an owned ReplicaSet", func(c *deploymentController) { c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1)) }, 1},
		{"a ReplicaSet of an owner that is gone", func(c *deploymentController) {
			c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "gone" }))
		}, 0},
		{"a ReplicaSet of another kind of owner", func(c *deploymentController) {
			c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].Kind = "Rollout" }))
		}, 0},
		{"an orphan that matches", func(c *deploymentController) { c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, orphan)) }, 1},
		{"an orphan that matches nothing", func(c *deploymentController) {
			c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, orphan, labelled("x")))
		}, 0},
		{"an orphan without labels", func(c *deploymentController) {
			c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, orphan, unlabelled))
		}, 0},
		{"an orphan in another namespace", func(c *deploymentController) {
			c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, orphan, func(rs *appsv1.ReplicaSet) { rs.Namespace = "elsewhere" }))
		}, 0},
		{"an owned ReplicaSet added while being deleted", func(c *deploymentController) { c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, deleting)) }, 1},
		{"an orphan added while being deleted", func(c *deploymentController) {
			c.replicaSetsOfOwners().Added(reconcile.Fresh, makeSet(1, 1, orphan, deleting))
		}, 0},
		{"a resync of a ReplicaSet", func(c *deploymentController) {
			rs := makeSet(1, 1)
			c.replicaSetsOfOwners().Updated(reconcile.Backlog, rs, rs)
		}, 0},
		{"an owned ReplicaSet changed", func(c *deploymentController) { update(c, makeSet(1, 1), makeSet(1, 2)) }, 1},
		{"a ReplicaSet moved from one owner to another", func(c *deploymentController) { update(c, makeSet(1, 1), makeSet(1, 1, ownedBy("other"))) }, 2},
		{"a ReplicaSet released and matching another", func(c *deploymentController) { update(c, makeSet(1, 1), makeSet(1, 1, orphan, labelled("other"))) }, 2},
		{"a ReplicaSet released with the labels it had", func(c *deploymentController) { update(c, makeSet(1, 1, ownedBy("other")), makeSet(1, 1, orphan)) }, 2},
		{"an orphan whose labels changed", func(c *deploymentController) { update(c, makeSet(1, 1, orphan, labelled("x")), makeSet(1, 1, orphan)) }, 1},
		{"an orphan that changed otherwise", func(c *deploymentController) { update(c, makeSet(1, 1, orphan), makeSet(1, 2, orphan)) }, 0},
		{"an owned ReplicaSet deleted", func(c *deploymentController) { c.replicaSetsOfOwners().Deleted(makeSet(1, 1)) }, 1},
		{"an orphan deleted", func(c *deploymentController) { c.replicaSetsOfOwners().Deleted(makeSet(1, 1, orphan)) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(1), makeDeployment(1, other))
			h.CatchUp(t)
			tc.event(h.c)
			if got := h.c.owners.Loop.Inspect().Depth; got != tc.want {
				t.Errorf("%d Deployments are queued, want %d", got, tc.want)
			}
		})
	}
}

// No request is sent. Pins DEP-52.
func TestPodDeletionsMatterToARecreation(t *testing.T) {
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		left []corev1.PodPhase // pods of the ReplicaSet that are left
		want int
	}{
		{"DEP-7: the last pod", makeDeployment(1, recreating), nil, 1},
		{"DEP-7: another pod runs", makeDeployment(1, recreating), []corev1.PodPhase{corev1.PodRunning}, 0},
		{"DEP-7: another pod is unknown", makeDeployment(1, recreating), []corev1.PodPhase{corev1.PodUnknown}, 0},
		{"DEP-56: only ended pods are left", makeDeployment(1, recreating), []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}, 1},
		{"DEP-7: a rolling update does not wait for pods", makeDeployment(1), nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rs := makeSet(1, 1)
			h := newHarness(t, tc.d, rs)
			for i, phase := range tc.left {
				if err := h.Fake.Tracker().Add(podOf(rs, string(rune('a'+i)), phase)); err != nil {
					t.Fatal(err)
				}
			}
			h.CatchUp(t)
			h.c.podEnded(podOf(rs, "deleted", corev1.PodRunning))
			if got := h.c.owners.Loop.Inspect().Depth; got != tc.want {
				t.Errorf("%d Deployments are queued, want %d", got, tc.want)
			}
			h.WantRequests(t)
		})
	}
}

// The ReplicaSet may not count terminating pods, and something may keep a pod that has ended. Pins DEP-56.
func TestTheEndOfThePodsLetsARecreationGoOn(t *testing.T) {
	old := makeSet(1, 0)
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		return controllertest.Changed(podOf(old, "p", phase), controllertest.Terminating)
	}
	h := newHarness(t, makeDeployment(1, image("v2"), recreating, withoutDeadline), old, pod(corev1.PodRunning))
	h.run(t)
	h.AwaitIdle(t)
	if n := len(controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)); n != 1 {
		t.Fatalf("there are %d ReplicaSets while an old pod runs", n)
	}
	h.Store(t, pod(corev1.PodFailed))
	h.eventually(t, "the new ReplicaSet is created", func() bool {
		return len(controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)) == 2
	})
}

// The status of the ReplicaSet that released it may be seen before that pod is. Pins DEP-71.
func TestTheReleaseOfThePodsLetsARecreationGoOn(t *testing.T) {
	old := makeSet(1, 0)
	h := newHarness(t, makeDeployment(1, image("v2"), recreating, withoutDeadline), old, podOf(old, "p", corev1.PodRunning))
	h.run(t)
	h.AwaitIdle(t)
	if n := len(controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)); n != 1 {
		t.Fatalf("there are %d ReplicaSets while an old pod runs", n)
	}
	h.eventually(t, "the status is written", func() bool { return h.deployment(t).Status.ObservedGeneration == 1 })
	for range 5 {
		h.Clock.Step(time.Minute)
		h.AwaitIdle(t)
	}
	h.Store(t, controllertest.Changed(podOf(old, "p", corev1.PodRunning), controllertest.Orphaned))
	h.eventually(t, "the new ReplicaSet is created", func() bool {
		return len(controllertest.AllStored[*appsv1.ReplicaSet](t, h.Env, namespace)) == 2
	})
}

// Pins DEP-56.
func TestWhichUpdateIsTheEndOfAPod(t *testing.T) {
	rs := makeSet(1, 1)
	running, failed := podOf(rs, "p", corev1.PodRunning), podOf(rs, "p", corev1.PodFailed)
	another := controllertest.Changed(podOf(rs, "p", corev1.PodRunning), func(p *corev1.Pod) { p.UID = "another" })
	for name, tc := range map[string]struct {
		old, pod *corev1.Pod
		want     bool
	}{
		"it has failed":           {running, failed, true},
		"it has succeeded":        {running, podOf(rs, "p", corev1.PodSucceeded), true},
		"it is unknown":           {running, podOf(rs, "p", corev1.PodUnknown), false},
		"it goes on":              {podOf(rs, "p", corev1.PodPending), running, false},
		"it was another that ran": {running, another, true},
		"DEP-71: it was released": {running, controllertest.Changed(podOf(rs, "p", corev1.PodRunning), controllertest.Orphaned), true},
		"it had ended":            {failed, failed, false},
		"another that had ended":  {failed, another, false},
	} {
		if got := ends(tc.old, tc.pod); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Pins DEP-7.
func TestPodsOfNobodyDoNotMatter(t *testing.T) {
	h := newHarness(t, makeDeployment(1, recreating), makeSet(1, 1))
	h.CatchUp(t)
	bare := podOf(makeSet(1, 1), "bare", corev1.PodRunning)
	bare.OwnerReferences = nil
	h.c.podEnded(bare)
	h.c.podEnded(podOf(makeSet(2, 1), "of-a-gone-set", corev1.PodRunning))
	h.c.podEnded(podOf(makeSet(1, 1, func(rs *appsv1.ReplicaSet) { rs.UID = "namesake" }), "of-a-namesake", corev1.PodRunning))
	if got := h.c.owners.Loop.Inspect().Depth; got != 0 {
		t.Errorf("%d Deployments are queued, want 0", got)
	}
}
