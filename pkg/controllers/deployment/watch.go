package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *deploymentController) watch(replicaSets, pods cache.SharedIndexInformer) {
	c.owners.Watch()
	c.replicaSetsOfOwners().Watch(replicaSets)
	watch.Objects(pods, watch.Funcs[*corev1.Pod]{Delete: c.podDeleted})
}

// replicaSetsOfOwners declares which events of ReplicaSets enqueue which Deployments.
func (c *deploymentController) replicaSetsOfOwners() owners.Dependents[*appsv1.Deployment, *appsv1.ReplicaSet] {
	return owners.Dependents[*appsv1.Deployment, *appsv1.ReplicaSet]{Owners: c.owners}
}

// podDeleted enqueues a Deployment with the strategy Recreate, which may be waiting for its old
// pods, when a ReplicaSet has lost its last running pod. Pods that have finished do not block a
// recreation (kubernetes/kubernetes#106410).
func (c *deploymentController) podDeleted(pod *corev1.Pod) {
	rs, ok := owners.Resolve(metav1.GetControllerOfNoCopy(pod), replicaSetKind.Kind, c.replicaSets.ReplicaSets(pod.Namespace).Get)
	if !ok {
		return
	}
	d, ok := c.owners.Of(rs)
	if !ok || !isRecreate(d) {
		return
	}
	pods, err := c.pods.OwnedBy(replicaSetKind.Kind, rs)
	if err != nil {
		klog.Background().Error(err, "Failed to count the pods of a ReplicaSet", "replicaSet", klog.KObj(rs))
	}
	if !anyRunning(pods) {
		c.owners.Enqueue(reconcile.Fresh, d)
	}
}
