package disruption

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// webPods is the template of pods like those of pod.
func webPods(labels ...string) corev1.PodTemplateSpec {
	set := map[string]string{"app": "web"}
	for _, label := range labels {
		set[label] = ""
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: set}}
}

func webDeployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: owner("web"), Spec: appsv1.DeploymentSpec{Replicas: &replicas, Template: webPods()}}
}

func webReplicaSet(replicas int32, refs ...metav1.OwnerReference) *appsv1.ReplicaSet {
	rs := replicaSet("rs", replicas, refs...)
	rs.Spec.Template = webPods("hash")
	return rs
}

// Three of the pods of an owner exist when it is scaled, and stay. Pins PDB-49.
func TestABudgetFollowsTheScaleOfTheOwnersOfItsPods(t *testing.T) {
	scaled := func(replicas int32) map[string]runtime.Object {
		rc := &corev1.ReplicationController{ObjectMeta: owner("web"), Spec: corev1.ReplicationControllerSpec{Replicas: &replicas, Template: ptr.To(webPods())}}
		set := &appsv1.StatefulSet{ObjectMeta: owner("web"), Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Template: webPods()}}
		rs := webReplicaSet(replicas)
		rs.Name, rs.UID = "web", "web"
		return map[string]runtime.Object{
			"v1 ReplicationController": rc, "apps/v1 ReplicaSet": rs, "apps/v1 Deployment": webDeployment(replicas), "apps/v1 StatefulSet": set,
		}
	}
	for name, test := range map[string]struct {
		budget                func(*policyv1.PodDisruptionBudget)
		from, to              int32
		before, after         int32 // allowed disruptions
		expected, wantHealthy int32 // in the end
	}{
		"PDB-49: up, and no pod can be created":                    {minAvailable("50%"), 3, 10, 1, 0, 10, 5},
		"PDB-49: down to those that there are":                     {minAvailable("80%"), 5, 3, 0, 0, 3, 3},
		"PDB-49: down to those that there are, one may be missing": {maxUnavailable("1"), 5, 3, 0, 1, 3, 2},
	} {
		for _, kind := range [][2]string{{"v1", "ReplicationController"}, {"apps/v1", "ReplicaSet"}, {"apps/v1", "Deployment"}, {"apps/v1", "StatefulSet"}} {
			t.Run(name+", "+kind[1], func(t *testing.T) {
				objects, of := []runtime.Object{budget(test.budget), scaled(test.from)[kind[0]+" "+kind[1]]}, ownedBy(kind[0], kind[1], "web")
				if kind[1] == "Deployment" {
					objects, of = append(objects, webReplicaSet(test.from, ownersOf("apps/v1", "Deployment", "web")...)), ownedBy("apps/v1", "ReplicaSet", "rs")
				}
				b := newBench(t, append(objects, pod("a", of), pod("b", of), pod("c", of))...)
				b.Run(t, b.c)
				shows := func(expected, allowed int32) func() bool {
					return func() bool {
						status := b.stored(t)
						return status.ExpectedPods == expected && status.DisruptionsAllowed == allowed
					}
				}
				b.EventuallyAsTimePasses(t, "the budget is accounted for", time.Second, shows(test.from, test.before))
				b.AwaitIdle(t)
				b.Store(t, scaled(test.to)[kind[0]+" "+kind[1]])
				b.EventuallyAsTimePasses(t, "the budget follows", time.Second, shows(test.expected, test.after))
				if got := b.stored(t).DesiredHealthy; got != test.wantHealthy {
					t.Errorf("%d are to be healthy, want %d", got, test.wantHealthy)
				}
			})
		}
	}
}

// Pins PDB-49.
func TestOwnersThatWakeBudgets(t *testing.T) {
	percent, integer := budget(minAvailable("50%")), budget(minAvailable("1"))
	ofWeb := ownersOf("apps/v1", "Deployment", "web")
	labeled := webDeployment(3)
	labeled.Labels = map[string]string{"a": "b"}
	recreated := webDeployment(3)
	recreated.UID = "another"
	other := webDeployment(4)
	other.Spec.Template.Labels = map[string]string{"app": "db"}
	for name, test := range map[string]struct {
		budget     *policyv1.PodDisruptionBudget
		old, owner metav1.Object // no old one: it is added
		replayed   bool
		want       string
	}{
		"it is scaled":                                    {percent, webDeployment(3), webDeployment(4), false, "1/0"},
		"it is scaled, and the pods are counted":          {integer, webDeployment(3), webDeployment(4), false, "0/0"},
		"it is scaled, and the budget selects other pods": {percent, webDeployment(3), other, false, "0/0"},
		"something else changes":                          {percent, webDeployment(3), labeled, false, "0/0"},
		"it is another one":                               {percent, webDeployment(3), recreated, false, "1/0"},
		"it is added":                                     {percent, nil, webDeployment(3), false, "1/0"},
		"it is replayed":                                  {percent, nil, webDeployment(3), true, "0/0"},
		"a ReplicaSet is scaled":                          {percent, webReplicaSet(3), webReplicaSet(4), false, "1/0"},
		"its Deployment scales a ReplicaSet":              {percent, webReplicaSet(3, ofWeb...), webReplicaSet(4, ofWeb...), false, "0/0"},
		"a ReplicaSet is orphaned":                        {percent, webReplicaSet(3, ofWeb...), webReplicaSet(3), false, "1/0"},
		"a ReplicaSet is adopted":                         {percent, webReplicaSet(3), webReplicaSet(3, ofWeb...), false, "1/0"},
		"a widget scales a ReplicaSet": {
			percent, webReplicaSet(3, ownersOf("test.kcmd.dev/v1", "Widget", "w")...), webReplicaSet(4, ownersOf("test.kcmd.dev/v1", "Widget", "w")...), false, "1/0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, captured := newIdle(t, test.budget), &controllertest.Captured{}
			switch test.owner.(type) {
			case *appsv1.Deployment:
				watchOwner(b.c, captured, deploymentAsOwner)
			case *appsv1.ReplicaSet:
				watchOwner(b.c, captured, replicaSetAsOwner)
			}
			test.owner.SetResourceVersion("2")
			if test.old == nil {
				captured.Handler.OnAdd(test.owner, test.replayed)
			} else {
				test.old.SetResourceVersion("1")
				captured.Handler.OnUpdate(test.old, test.owner)
			}
			if got := b.queued(); got != test.want {
				t.Errorf("%s are queued, want %s", got, test.want)
			}
		})
	}
}

// A ReplicationController may have no template.
func TestAnOwnerWithoutATemplateWakesNobody(t *testing.T) {
	b, captured := newIdle(t, budget(minAvailable("50%"))), &controllertest.Captured{}
	watchOwner(b.c, captured, replicationControllerAsOwner)
	captured.Handler.OnAdd(&corev1.ReplicationController{ObjectMeta: owner("rc")}, false)
	if got := b.queued(); got != "0/0" {
		t.Errorf("%s are queued", got)
	}
}
