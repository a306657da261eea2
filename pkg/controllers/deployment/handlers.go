package deployment

import (
	"errors"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *deploymentController) watch(deployments, replicaSets, pods cache.SharedIndexInformer) error {
	return errors.Join(
		watch.Objects(deployments, watch.Funcs[*appsv1.Deployment]{
			Add:    c.enqueue,
			Update: func(lane reconcile.Lane, _, d *appsv1.Deployment) { c.enqueue(lane, d) },
			Delete: func(d *appsv1.Deployment) { c.enqueue(reconcile.Fresh, d) },
		}),
		watch.Objects(replicaSets, watch.Funcs[*appsv1.ReplicaSet]{
			Add:    c.replicaSetAdded,
			Update: c.replicaSetUpdated,
			Delete: c.replicaSetDeleted,
		}),
		watch.Objects(pods, watch.Funcs[*corev1.Pod]{Delete: c.podDeleted}),
	)
}

func (c *deploymentController) enqueue(lane reconcile.Lane, d *appsv1.Deployment) {
	c.loop.Enqueue(lane, cache.MetaObjectToName(d))
}

func (c *deploymentController) replicaSetAdded(lane reconcile.Lane, rs *appsv1.ReplicaSet) {
	owner := metav1.GetControllerOfNoCopy(rs)
	// An orphan that is being deleted is not adopted.
	if owner != nil || rs.DeletionTimestamp != nil {
		c.enqueueOwner(lane, rs.Namespace, owner)
		return
	}
	c.enqueueMatching(lane, rs)
}

func (c *deploymentController) replicaSetUpdated(lane reconcile.Lane, old, rs *appsv1.ReplicaSet) {
	if old.ResourceVersion == rs.ResourceVersion {
		return
	}
	owner := metav1.GetControllerOfNoCopy(rs)
	moved := !ownership.SameController(old, rs)
	if moved {
		c.enqueueOwner(lane, old.Namespace, metav1.GetControllerOfNoCopy(old))
	}
	switch {
	case owner != nil:
		c.enqueueOwner(lane, rs.Namespace, owner)
	case moved || !maps.Equal(old.Labels, rs.Labels):
		c.enqueueMatching(lane, rs)
	}
}

func (c *deploymentController) replicaSetDeleted(rs *appsv1.ReplicaSet) {
	c.enqueueOwner(reconcile.Fresh, rs.Namespace, metav1.GetControllerOfNoCopy(rs))
}

// podDeleted looks at a Deployment that may have waited for its old pods to be gone. It
// may have when a ReplicaSet lost its last running pod: pods that have ended do not hold
// it up (kubernetes/kubernetes#106410).
func (c *deploymentController) podDeleted(pod *corev1.Pod) {
	rs, ok := ownership.Resolve(metav1.GetControllerOfNoCopy(pod), replicaSetKind.Kind, c.replicaSets.ReplicaSets(pod.Namespace).Get)
	if !ok {
		return
	}
	d, ok := c.ownerOf(rs.Namespace, metav1.GetControllerOfNoCopy(rs))
	if !ok || !isRecreate(d) {
		return
	}
	pods, err := c.pods.OwnedBy(replicaSetKind.Kind, rs)
	if err != nil {
		klog.Background().Error(err, "Cannot count the pods of a ReplicaSet", "replicaSet", klog.KObj(rs))
	}
	if !anyRunning(pods) {
		c.enqueue(reconcile.Fresh, d)
	}
}

func (c *deploymentController) ownerOf(namespace string, ref *metav1.OwnerReference) (*appsv1.Deployment, bool) {
	return ownership.Resolve(ref, deploymentKind.Kind, c.deployments.Deployments(namespace).Get)
}

func (c *deploymentController) enqueueOwner(lane reconcile.Lane, namespace string, ref *metav1.OwnerReference) {
	if d, ok := c.ownerOf(namespace, ref); ok {
		c.enqueue(lane, d)
	}
}

// enqueueMatching looks at every Deployment that may adopt an orphan.
func (c *deploymentController) enqueueMatching(lane reconcile.Lane, orphan *appsv1.ReplicaSet) {
	if len(orphan.Labels) == 0 {
		return
	}
	here, err := c.deployments.Deployments(orphan.Namespace).List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "Cannot list Deployments", "namespace", orphan.Namespace)
		return
	}
	for _, d := range ownership.Matching(orphan, here, c.selectors) {
		c.enqueue(lane, d)
	}
}
