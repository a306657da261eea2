package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const (
	// nodePool labels the nodes of a test, and taints them for everybody else. Its value is
	// the namespace of the test.
	nodePool     = "test.kcmd.dev/pool"
	revisionHash = "controller-revision-hash"
)

var web = map[string]string{"app": "web"}

// newPool creates n nodes that only DaemonSets of the namespace run on.
func newPool(t *testing.T, namespace string, n int) []string {
	t.Helper()
	var names []string
	for i := range n {
		names = append(names, addNode(t, namespace, i))
	}
	return names
}

func addNode(t *testing.T, namespace string, i int) string {
	t.Helper()
	name := fmt.Sprintf("%s-%d", namespace, i)
	nodes := admin.CoreV1().Nodes()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels:      map[string]string{"type": "kwok", nodePool: namespace, corev1.LabelHostname: name},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: nodePool, Value: namespace, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("100"),
			},
		},
	}
	node.Status.Capacity = node.Status.Allocatable
	must.Get(nodes.Create(t.Context(), node, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		// It may have been deleted by the test.
		if err := nodes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && await.Gone(err) != nil {
			t.Error(err)
		}
	})
	await.That(t, name+" is ready", func(ctx context.Context) error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			err = errors.New("it is not")
		}
		return err
	})
	// Admission taints new nodes as not ready.
	setTaints(t, namespace, name)
	return name
}

// setTaints gives a node of the pool more taints with these effects, and no others.
func setTaints(t *testing.T, namespace, node string, effects ...corev1.TaintEffect) {
	t.Helper()
	taints := []corev1.Taint{{Key: nodePool, Value: namespace, Effect: corev1.TaintEffectNoSchedule}}
	for _, effect := range effects {
		taints = append(taints, corev1.Taint{Key: "test.kcmd.dev/taint", Effect: effect})
	}
	patchNode(t, node, map[string]any{"spec": map[string]any{"taints": taints}})
}

func patchNode(t *testing.T, node string, patch map[string]any) {
	t.Helper()
	body := must.Get(json.Marshal(patch))(t)
	must.Get(admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, body, metav1.PatchOptions{}))(t)
}

// createDaemonSet creates a DaemonSet named web for the pool of the namespace.
func createDaemonSet(t *testing.T, namespace string, edit func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	t.Helper()
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: web},
			Template: harness.PodTemplate("web", "web:1"),
		},
	}
	ds.Spec.Template.Spec.NodeSelector = map[string]string{nodePool: namespace}
	ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: nodePool, Operator: corev1.TolerationOpExists}}
	if edit != nil {
		edit(ds)
	}
	return must.Get(admin.AppsV1().DaemonSets(namespace).Create(t.Context(), ds, metav1.CreateOptions{}))(t)
}

func updateDaemonSet(t *testing.T, namespace string, edit func(*appsv1.DaemonSet)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		ds, err := admin.AppsV1().DaemonSets(namespace).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(ds)
		_, err = admin.AppsV1().DaemonSets(namespace).Update(t.Context(), ds, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func daemonImage(image string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = image }
}

func daemonRolling(unavailable, surge int32) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{
				MaxUnavailable: ptr.To(intstr.FromInt32(unavailable)), MaxSurge: ptr.To(intstr.FromInt32(surge)),
			},
		}
	}
}

func daemonOnDelete(ds *appsv1.DaemonSet) {
	ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

// waitForDaemonSet waits until check accepts the DaemonSet web, and returns it.
func waitForDaemonSet(t *testing.T, namespace, what string, check func(*appsv1.DaemonSet) error) *appsv1.DaemonSet {
	t.Helper()
	var ds *appsv1.DaemonSet
	await.That(t, what, func(ctx context.Context) (err error) {
		if ds, err = admin.AppsV1().DaemonSets(namespace).Get(ctx, "web", metav1.GetOptions{}); err != nil {
			return err
		}
		if ds.Status.ObservedGeneration < ds.Generation {
			return fmt.Errorf("generation %d of %d is observed", ds.Status.ObservedGeneration, ds.Generation)
		}
		return check(ds)
	})
	return ds
}

// waitForDaemons waits until n nodes run an updated, available pod and that is all.
func waitForDaemons(t *testing.T, namespace string, n int32) *appsv1.DaemonSet {
	t.Helper()
	return waitForDaemonSet(t, namespace, fmt.Sprintf("%d nodes run a pod", n), func(ds *appsv1.DaemonSet) error {
		s := ds.Status
		if s.DesiredNumberScheduled != n || s.CurrentNumberScheduled != n || s.NumberReady != n || s.NumberAvailable != n ||
			s.UpdatedNumberScheduled != n || s.NumberUnavailable != 0 || s.NumberMisscheduled != 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

// nodesOf returns the nodes of pods, sorted.
func nodesOf(pods []corev1.Pod) []string {
	var nodes []string
	for i := range pods {
		nodes = append(nodes, pods[i].Spec.NodeName)
	}
	slices.Sort(nodes)
	return nodes
}

// historyOf lists the ControllerRevisions of the namespace, in the order of their number.
func historyOf(ctx context.Context, namespace string) ([]appsv1.ControllerRevision, error) {
	list, err := admin.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items, nil
}

func waitForHistory(t *testing.T, namespace string, numbers ...int64) []appsv1.ControllerRevision {
	t.Helper()
	var all []appsv1.ControllerRevision
	await.That(t, fmt.Sprintf("the revisions are %v", numbers), func(ctx context.Context) (err error) {
		if all, err = historyOf(ctx, namespace); err != nil {
			return err
		}
		var got []int64
		for i := range all {
			got = append(got, all[i].Revision)
		}
		if !slices.Equal(got, numbers) {
			err = fmt.Errorf("they are %v", got)
		}
		return err
	})
	return all
}

func daemonEvent(kind, reason, message string) string {
	return fmt.Sprintf("daemonset-controller %s %s: %s", kind, reason, message)
}

// Pins DS-24 and DS-29.
func TestDaemonSetRunsOnEveryNode(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	pool := newPool(t, namespace, 2)
	createDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Annotations = map[string]string{"example.com/team": "a"} })
	ds := waitForDaemons(t, namespace, 2)
	current := waitForHistory(t, namespace, 1)[0]
	hash := current.Labels[revisionHash]
	if current.Name != "web-"+hash || current.Annotations["example.com/team"] != "a" || current.Labels["app"] != "web" || !metav1.IsControlledBy(&current, ds) {
		t.Errorf("the revision is %+v", current.ObjectMeta)
	}
	pods := cluster.WaitForReadyPods(t, namespace, web, 2)
	if got := nodesOf(pods); !slices.Equal(got, pool) {
		t.Errorf("pods run on %v, want %v", got, pool)
	}
	var events []string
	for _, p := range pods {
		terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || terms[0].MatchFields[0].Key != "metadata.name" || terms[0].MatchFields[0].Values[0] != p.Spec.NodeName {
			t.Errorf("%s on %s is pinned by %+v", p.Name, p.Spec.NodeName, terms)
		}
		if p.Labels[revisionHash] != hash || p.GenerateName != "web-" || !metav1.IsControlledBy(&p, ds) || !*p.OwnerReferences[0].BlockOwnerDeletion {
			t.Errorf("the pod is %+v", p.ObjectMeta)
		}
		if !slices.Contains(p.Spec.Tolerations, corev1.Toleration{Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: "NoSchedule"}) {
			t.Errorf("the pod tolerates %v", p.Spec.Tolerations)
		}
		events = append(events, daemonEvent("Normal", "SuccessfulCreate", "Created pod: "+p.Name))
	}
	cluster.WaitForEvents(t, namespace, ds.UID, events...)

	// A cordoned node is a node like the others, and a deleted pod is replaced.
	patchNode(t, pool[0], map[string]any{"spec": map[string]any{"unschedulable": true}})
	cluster.DeletePodNow(t, namespace, pods[0].Name)
	cluster.DeletePodNow(t, namespace, pods[1].Name)
	await.That(t, "the pods are replaced", func(ctx context.Context) error {
		now, err := cluster.PodsOf(ctx, namespace, web)
		if err == nil && (len(now) != 2 || now[0].Name == pods[0].Name || now[0].Name == pods[1].Name) {
			err = fmt.Errorf("there are %d", len(now))
		}
		return err
	})
	waitForDaemons(t, namespace, 2)
}

// Pins DS-9.
func TestDaemonSetFollowsNodes(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createDaemonSet(t, namespace, nil)
	waitForDaemons(t, namespace, 0)
	first := addNode(t, namespace, 0)
	waitForDaemons(t, namespace, 1)
	second := addNode(t, namespace, 1)
	waitForDaemons(t, namespace, 2)

	// A label that no longer matches drives the pod out, and back in when it does.
	patchNode(t, first, map[string]any{"metadata": map[string]any{"labels": map[string]any{nodePool: "none"}}})
	waitForDaemons(t, namespace, 1)
	cluster.WaitForReadyPods(t, namespace, web, 1)
	patchNode(t, first, map[string]any{"metadata": map[string]any{"labels": map[string]any{nodePool: namespace}}})
	waitForDaemons(t, namespace, 2)

	if err := admin.CoreV1().Nodes().Delete(t.Context(), second, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Nothing looks at a node that is gone; the next event of the set shows it.
	updateDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 1 })
	waitForDaemonSet(t, namespace, "the node is not counted", func(ds *appsv1.DaemonSet) error {
		if ds.Status.DesiredNumberScheduled != 1 || ds.Status.CurrentNumberScheduled != 1 || ds.Status.NumberMisscheduled != 0 {
			return fmt.Errorf("the status is %+v", ds.Status)
		}
		return nil
	})
}

// Pins DS-21 and DS-49.
func TestDaemonSetRespectsTaints(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	pool := newPool(t, namespace, 2)
	createDaemonSet(t, namespace, nil)
	waitForDaemons(t, namespace, 2)
	before := cluster.WaitForReadyPods(t, namespace, web, 2)

	setTaints(t, namespace, pool[0], corev1.TaintEffectNoSchedule)
	// Nothing has to be done for a pod that may stay: that it is out of place shows with
	// the next event.
	updateDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = ptr.To[int32](9) })
	waitForDaemonSet(t, namespace, "a pod is out of place", func(ds *appsv1.DaemonSet) error {
		s := ds.Status
		if s.DesiredNumberScheduled != 1 || s.CurrentNumberScheduled != 1 || s.NumberMisscheduled != 1 || s.NumberAvailable != 1 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	setTaints(t, namespace, pool[0])
	waitForDaemons(t, namespace, 2)
	for _, p := range cluster.WaitForReadyPods(t, namespace, web, 2) {
		if p.UID != before[0].UID && p.UID != before[1].UID {
			t.Errorf("%s was replaced", p.Name)
		}
	}

	setTaints(t, namespace, pool[0], corev1.TaintEffectNoExecute)
	waitForDaemons(t, namespace, 1)
	if got := nodesOf(cluster.WaitForReadyPods(t, namespace, web, 1)); got[0] != pool[1] {
		t.Errorf("the pod that is left runs on %v", got)
	}
	updateDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	waitForDaemons(t, namespace, 2)
}

// Pins DS-20.
func TestDaemonSetAffinity(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	pool := newPool(t, namespace, 3)
	createDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: pool[1:2]}},
			}}},
		}}
	})
	waitForDaemons(t, namespace, 2)
	if got := nodesOf(cluster.WaitForReadyPods(t, namespace, web, 2)); !slices.Equal(got, []string{pool[0], pool[2]}) {
		t.Errorf("pods run on %v of %v", got, pool)
	}
}

// Pins DS-31.
func TestDaemonSetRollingUpdate(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	newPool(t, namespace, 3)
	createDaemonSet(t, namespace, daemonRolling(1, 0))
	waitForDaemons(t, namespace, 3)
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	live := map[types.UID]bool{}
	for _, p := range cluster.WaitForReadyPods(t, namespace, web, 3) {
		live[p.UID] = true
	}
	stop := harness.Follow(t, w, err, func(event watch.EventType, p *corev1.Pod) error {
		ready := event != watch.Deleted && p.DeletionTimestamp == nil && harness.IsReady(p)
		if live[p.UID] = ready; !ready {
			delete(live, p.UID)
		}
		if len(live) < 2 {
			return fmt.Errorf("only %d pods are ready", len(live))
		}
		return nil
	})
	updateDaemonSet(t, namespace, daemonImage("web:2"))
	waitForDaemons(t, namespace, 3)
	stop()
	hash := waitForHistory(t, namespace, 1, 2)[1].Labels[revisionHash]
	for _, p := range cluster.WaitForReadyPods(t, namespace, web, 3) {
		if p.Labels[revisionHash] != hash || p.Spec.Containers[0].Image != "web:2" {
			t.Errorf("%s is not updated: %v", p.Name, p.Labels)
		}
	}
}

// Pins DS-25b and DS-32.
func TestDaemonSetSurge(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	newPool(t, namespace, 3)
	createDaemonSet(t, namespace, daemonRolling(0, 1))
	waitForDaemons(t, namespace, 3)
	cluster.WaitForReadyPods(t, namespace, web, 3)
	ready, existing, most := map[types.UID]bool{}, map[types.UID]bool{}, 0
	w, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	stop := harness.Follow(t, w, err, func(event watch.EventType, p *corev1.Pod) error {
		alive := event != watch.Deleted && p.DeletionTimestamp == nil
		existing[p.UID], ready[p.UID] = alive, alive && harness.IsReady(p)
		if most = max(most, count(existing)); most > 4 {
			return fmt.Errorf("there are %d pods", most)
		}
		if len(ready) >= 3 && count(ready) < 3 {
			return fmt.Errorf("only %d pods are ready", count(ready))
		}
		return nil
	})
	updateDaemonSet(t, namespace, daemonImage("web:2"))
	waitForDaemons(t, namespace, 3)
	for _, p := range cluster.WaitForReadyPods(t, namespace, web, 3) {
		if p.Spec.Containers[0].Image != "web:2" {
			t.Errorf("%s is not updated", p.Name)
		}
	}
	stop()
	if most != 4 {
		t.Errorf("there never was a pod beside another")
	}
}

func count(set map[types.UID]bool) int {
	n := 0
	for _, in := range set {
		if in {
			n++
		}
	}
	return n
}

// Pins DS-18.
func TestDaemonSetOnDelete(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	newPool(t, namespace, 2)
	createDaemonSet(t, namespace, daemonOnDelete)
	waitForDaemons(t, namespace, 2)
	pods := cluster.WaitForReadyPods(t, namespace, web, 2)
	updateDaemonSet(t, namespace, daemonImage("web:2"))
	waitForHistory(t, namespace, 1, 2)
	updated := func(n int32) func(*appsv1.DaemonSet) error {
		return func(ds *appsv1.DaemonSet) error {
			if s := ds.Status; s.UpdatedNumberScheduled != n || s.NumberAvailable != 2 {
				return fmt.Errorf("the status is %+v", s)
			}
			return nil
		}
	}
	waitForDaemonSet(t, namespace, "no pod is updated", updated(0))
	cluster.DeletePodNow(t, namespace, pods[0].Name)
	waitForDaemonSet(t, namespace, "one pod is updated", updated(1))
	if _, err := admin.CoreV1().Pods(namespace).Get(t.Context(), pods[1].Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the other pod: %v", err)
	}
}

// Pins DS-25.
func TestDaemonSetReplacesEndedPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	node := addNode(t, namespace, 0)
	ds := createDaemonSet(t, namespace, nil)
	waitForDaemons(t, namespace, 1)
	end := func(phase corev1.PodPhase) (string, time.Duration) {
		pod := cluster.WaitForReadyPods(t, namespace, web, 1)[0]
		began := time.Now()
		cluster.PatchPodStatus(t, namespace, pod.Name, map[string]any{"phase": phase})
		await.That(t, "the pod is replaced", func(ctx context.Context) error {
			now, err := cluster.PodsOf(ctx, namespace, web)
			if err == nil && (len(now) != 1 || now[0].UID == pod.UID) {
				err = fmt.Errorf("there are %d pods", len(now))
			}
			return err
		})
		return pod.Name, time.Since(began)
	}
	found := "Found %s daemon pod %s/%s on node %s, will try to %s it"
	name, _ := end(corev1.PodSucceeded)
	cluster.WaitForEvent(t, namespace, ds.UID, daemonEvent("Normal", "SucceededDaemonPod", fmt.Sprintf(found, "succeeded", namespace, name, node, "delete")))
	first, _ := end(corev1.PodFailed)
	cluster.WaitForEvent(t, namespace, ds.UID, daemonEvent("Warning", "FailedDaemonPod", fmt.Sprintf(found, "failed", namespace, first, node, "kill")))
	began := time.Now()
	var took time.Duration
	for range 2 {
		_, took = end(corev1.PodFailed)
	}
	// The second failure waits for the rest of a second, the third for the rest of two.
	if total := time.Since(began); total < 2*time.Second {
		t.Errorf("three failures took %v, the last %v", total, took)
	}
	waitForDaemons(t, namespace, 1)
}

// Pins DS-23.
func TestDaemonSetAdoptsAndReleases(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	node := addNode(t, namespace, 0)
	cluster.CreatePod(t, namespace, "orphan", "web", func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	cluster.WaitForReadyPods(t, namespace, web, 1)
	ds := createDaemonSet(t, namespace, daemonOnDelete)
	waitForDaemonSet(t, namespace, "the orphan counts", func(ds *appsv1.DaemonSet) error {
		if s := ds.Status; s.NumberAvailable != 1 || s.UpdatedNumberScheduled != 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	if p := cluster.WaitForReadyPods(t, namespace, web, 1)[0]; p.Name != "orphan" || !metav1.IsControlledBy(&p, ds) {
		t.Errorf("%s is owned by %v", p.Name, p.OwnerReferences)
	}
	cluster.PatchPod(t, namespace, "orphan", `{"metadata":{"labels":{"app":"other"}}}`)
	waitForDaemons(t, namespace, 1)
	await.That(t, "the orphan is released", func(ctx context.Context) error {
		p, err := admin.CoreV1().Pods(namespace).Get(ctx, "orphan", metav1.GetOptions{})
		if err == nil && len(p.OwnerReferences) > 0 {
			err = fmt.Errorf("it is owned by %v", p.OwnerReferences)
		}
		return err
	})
}

// Pins DS-40.
func TestDaemonSetWaitsMinReadySeconds(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	addNode(t, namespace, 0)
	createDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 3 })
	waitForDaemonSet(t, namespace, "it is ready and not yet available", func(ds *appsv1.DaemonSet) error {
		if ds.Status.NumberAvailable > 0 {
			return await.Final(errors.New("it is available at once"))
		}
		if ds.Status.NumberReady != 1 || ds.Status.NumberUnavailable != 1 {
			return fmt.Errorf("the status is %+v", ds.Status)
		}
		return nil
	})
	waitForDaemons(t, namespace, 1)
}

// Pins DS-36 and DS-37.
func TestDaemonSetHistory(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	addNode(t, namespace, 0)
	createDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = ptr.To[int32](2) })
	waitForDaemons(t, namespace, 1)
	for i := 2; i <= 5; i++ {
		updateDaemonSet(t, namespace, daemonImage(fmt.Sprintf("web:%d", i)))
		waitForDaemons(t, namespace, 1)
	}
	all := waitForHistory(t, namespace, 3, 4, 5)
	// A rollback takes up the revision that exists.
	updateDaemonSet(t, namespace, daemonImage("web:4"))
	waitForDaemons(t, namespace, 1)
	if now := waitForHistory(t, namespace, 3, 5, 6); now[2].Name != all[1].Name {
		t.Errorf("revision 6 is %s, want %s", now[2].Name, all[1].Name)
	}

	// A duplicate of the current revision is left alone until something happens, then it
	// is merged.
	current := waitForHistory(t, namespace, 3, 5, 6)[2]
	duplicate := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: "duplicate", Labels: map[string]string{"app": "web", revisionHash: "duplicate"}, OwnerReferences: current.OwnerReferences,
		},
		Data: current.Data, Revision: 7,
	}
	must.Get(admin.AppsV1().ControllerRevisions(namespace).Create(t.Context(), duplicate, metav1.CreateOptions{}))(t)
	updateDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 1 })
	waitForDaemons(t, namespace, 1)
	if now := waitForHistory(t, namespace, 3, 5, 7); now[2].Name != "duplicate" {
		t.Errorf("%s is kept", now[2].Name)
	}
	if p := cluster.WaitForReadyPods(t, namespace, web, 1)[0]; p.Labels[revisionHash] != "duplicate" {
		t.Errorf("the pod has labels %v", p.Labels)
	}
}

// Pins DS-34.
func TestDaemonSetNameCollision(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	addNode(t, namespace, 0)
	createDaemonSet(t, namespace, nil)
	next := waitForDaemons(t, namespace, 1).DeepCopy()
	daemonImage("web:2")(next)
	taken := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + podtemplate.Hash(&next.Spec.Template, nil)},
		Data:       runtime.RawExtension{Raw: []byte(`{"spec":{}}`)},
	}
	must.Get(admin.AppsV1().ControllerRevisions(namespace).Create(t.Context(), taken, metav1.CreateOptions{}))(t)
	updateDaemonSet(t, namespace, daemonImage("web:2"))
	ds := waitForDaemons(t, namespace, 1)
	if ds.Status.CollisionCount == nil || *ds.Status.CollisionCount != 1 {
		t.Errorf("got collisionCount %v, want 1", ds.Status.CollisionCount)
	}
	hash := podtemplate.Hash(&next.Spec.Template, ptr.To[int32](1))
	if p := cluster.WaitForReadyPods(t, namespace, web, 1)[0]; p.Labels[revisionHash] != hash {
		t.Errorf("the pod has the hash %s, want %s", p.Labels[revisionHash], hash)
	}
}

// Pins DS-27.
func TestDaemonSetDropsPodsOfLostNodes(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	pool := newPool(t, namespace, 2)
	createDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5k")}
	})
	waitForDaemonSet(t, namespace, "two pods are pending", func(ds *appsv1.DaemonSet) error {
		if s := ds.Status; s.CurrentNumberScheduled != 2 || s.NumberReady != 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	if err := admin.CoreV1().Nodes().Delete(t.Context(), pool[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	updateDaemonSet(t, namespace, func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 1 })
	await.That(t, "one pod is left", func(ctx context.Context) error {
		left, err := cluster.PodsOf(ctx, namespace, web)
		if err == nil && len(left) != 1 {
			err = fmt.Errorf("there are %d", len(left))
		}
		return err
	})
}
