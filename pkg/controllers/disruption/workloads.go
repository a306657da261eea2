package disruption

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/owners"
)

// workloads looks up the desired replicas of the controllers of pods.
type workloads struct {
	replicationControllers corelisters.ReplicationControllerLister
	replicaSets            appslisters.ReplicaSetLister
	deployments            appslisters.DeploymentLister
	statefulSets           appslisters.StatefulSetLister
	scales                 *scaleReader
}

func newWorkloads(env controller.Env, scales scale.ScalesGetter) *workloads {
	core, apps := env.Informers.Core().V1(), env.Informers.Apps().V1()
	return &workloads{
		replicationControllers: core.ReplicationControllers().Lister(),
		replicaSets:            apps.ReplicaSets().Lister(),
		deployments:            apps.Deployments().Lister(),
		statefulSets:           apps.StatefulSets().Lister(),
		scales:                 newScaleReader(env.Mapper, scales, env.Discovery, env.Clock),
	}
}

// workload is a controller of pods and its desired replicas.
type workload struct {
	uid      types.UID
	replicas int32
}

// replicaSum is the sum of the replicas of workloads.
type replicaSum struct {
	replicas int32
	// unmanaged are the names of the pods without a controller, which are not counted.
	unmanaged []string
	// until is when the first of the cached scales that were used expires; zero if none was
	// used.
	until time.Time
}

// replicasBehind sums up the desired replicas of the controllers of pods in a namespace. Each is counted once, even a
// Deployment with pods of several ReplicaSets. The sum is at most the largest number that the status of a budget can
// hold.
func (w *workloads) replicasBehind(ctx context.Context, namespace string, selected []*corev1.Pod) (replicaSum, error) {
	controllers, unmanaged := controllersOf(selected)
	sum := replicaSum{unmanaged: unmanaged}
	var replicas int64
	counted := map[types.UID]bool{}
	for _, c := range controllers {
		found, until, err := w.find(ctx, namespace, c.ref)
		if !until.IsZero() && (sum.until.IsZero() || until.Before(sum.until)) {
			sum.until = until
		}
		if err != nil {
			return sum, err
		}
		if found == nil {
			return sum, fmt.Errorf("found no controllers for pod %q", c.pod)
		}
		if !counted[found.uid] {
			counted[found.uid] = true
			replicas += int64(found.replicas)
		}
	}
	sum.replicas = int32(min(replicas, math.MaxInt32))
	return sum, nil
}

// podController is a reference to a controller of pods, and the first pod that has it.
type podController struct {
	ref *metav1.OwnerReference
	pod string
}

// controllersOf returns the distinct controllers of pods, and the names of those without. They
// are ordered by the names of the pods: an error about one of them is written to the status of
// the budget, which must not change from one reconcile to the next.
func controllersOf(selected []*corev1.Pod) (controllers []podController, unmanaged []string) {
	first := map[types.UID]podController{}
	for _, pod := range selected {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			unmanaged = append(unmanaged, pod.Name)
			continue
		}
		if known, ok := first[ref.UID]; !ok || pod.Name < known.pod {
			first[ref.UID] = podController{ref: ref, pod: pod.Name}
		}
	}
	controllers = slices.SortedFunc(maps.Values(first), func(a, b podController) int { return cmp.Compare(a.pod, b.pod) })
	slices.Sort(unmanaged)
	return controllers, unmanaged
}

// find returns the workload that a controller reference refers to, nil if there is none. If it
// should be cached but is not, it is read from the API server.
func (w *workloads) find(
	ctx context.Context, namespace string, ref *metav1.OwnerReference,
) (*workload, time.Time, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, time.Time{}, err
	}
	if found, err := w.cached(namespace, gv.Group, ref); found != nil || err != nil {
		return found, time.Time{}, err
	}
	return w.scales.find(ctx, namespace, gv.WithKind(ref.Kind), ref)
}

// cached returns workloads of the cached kinds.
func (w *workloads) cached(namespace, group string, ref *metav1.OwnerReference) (*workload, error) {
	apps := group == appsv1.GroupName || group == extensionsv1beta1.GroupName
	switch {
	case ref.Kind == "ReplicationController" && group == corev1.GroupName:
		if rc, ok := owners.Resolve(ref, ref.Kind, w.replicationControllers.ReplicationControllers(namespace).Get); ok {
			return &workload{rc.UID, ptr.Deref(rc.Spec.Replicas, 1)}, nil
		}
	case ref.Kind == "ReplicaSet" && apps:
		if rs, ok := owners.Resolve(ref, ref.Kind, w.replicaSets.ReplicaSets(namespace).Get); ok {
			return w.behindReplicaSet(rs)
		}
	case ref.Kind == "StatefulSet" && group == appsv1.GroupName:
		if set, ok := owners.Resolve(ref, ref.Kind, w.statefulSets.StatefulSets(namespace).Get); ok {
			return &workload{set.UID, ptr.Deref(set.Spec.Replicas, 1)}, nil
		}
	}
	return nil, nil
}

// behindReplicaSet returns the Deployment that controls a ReplicaSet, otherwise the ReplicaSet.
// It returns nil if the Deployment is not cached, and an error if the reference is invalid.
func (w *workloads) behindReplicaSet(rs *appsv1.ReplicaSet) (*workload, error) {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil {
		return &workload{rs.UID, ptr.Deref(rs.Spec.Replicas, 1)}, nil
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	switch {
	case err != nil:
		return nil, err
	case ref.Kind != "Deployment":
		return &workload{rs.UID, ptr.Deref(rs.Spec.Replicas, 1)}, nil
	case gv.Group != appsv1.GroupName && gv.Group != extensionsv1beta1.GroupName:
		return nil, nil
	}
	deployment, ok := owners.Resolve(ref, ref.Kind, w.deployments.Deployments(rs.Namespace).Get)
	if !ok {
		return nil, nil
	}
	return &workload{deployment.UID, ptr.Deref(deployment.Spec.Replicas, 1)}, nil
}
