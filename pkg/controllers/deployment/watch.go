package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *deploymentController) watch(replicaSets, podInformer cache.SharedIndexInformer) {
	c.owners.Watch()
	c.replicaSetsOfOwners().Watch(replicaSets)
	watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		UpdateIf: ends,
		Update:   func(_ reconcile.Lane, old, _ *corev1.Pod) { c.podEnded(old) },
		Delete:   c.podEnded,
	})
}

// ends reports whether a pod has finished, or its ReplicaSet has released it. After a restart of the watch, it may be
// another one of the name.
func ends(old, pod *corev1.Pod) bool {
	return !pods.IsTerminal(old) && (pods.IsTerminal(pod) || old.UID != pod.UID || !owners.SameController(old, pod))
}

// replicaSetsOfOwners declares which events of ReplicaSets enqueue which Deployments.
func (c *deploymentController) replicaSetsOfOwners() owners.Dependents[*appsv1.Deployment, *appsv1.ReplicaSet] {
	return owners.Dependents[*appsv1.Deployment, *appsv1.ReplicaSet]{Owners: c.owners}
}

// podEnded enqueues a Deployment with the strategy Recreate, which may be waiting for its old
// pods, when the last running pod of a ReplicaSet was deleted, released or has finished. Pods that have
// finished do not block a recreation (kubernetes/kubernetes#106410).
func (c *deploymentController) podEnded(pod *corev1.Pod) {
	rs, ok := owners.Resolve(metav1.GetControllerOfNoCopy(pod), replicaSetKind.Kind, c.replicaSets.ReplicaSets(pod.Namespace).Get)
	if !ok {
		return
	}
	d, ok := c.owners.Of(rs)
	if !ok || !isRecreate(d) {
		return
	}
	owned, err := c.pods.OwnedBy(replicaSetKind.Kind, rs)
	if err != nil {
		klog.Background().Error(err, "Failed to count the pods of a ReplicaSet", "replicaSet", klog.KObj(rs))
	}
	if !anyRunning(owned) {
		c.owners.Enqueue(reconcile.Fresh, d)
	}
}
