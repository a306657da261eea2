package podgroupprotection

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// pageSize is the number of pods that are asked for at once.
const pageSize = 500

// answer is what the API server said of the pods of a namespace. Many groups are deleted at
// once when a workload is, so it serves for those whose deletion it is newer than. It does
// so only where it showed no pod: the end of one that it showed may have been seen since.
type answer struct {
	namespace string
	version   string          // as of which it holds
	active    map[string]bool // groups with active pods
}

// isHeld reports that a group that is being deleted has active pods.
func (c *protectionController) isHeld(ctx context.Context, group *schedulingv1alpha2.PodGroup) (bool, error) {
	// Before the pods are looked up, or it could be newer than they are.
	cached := c.pods.LastStoreSyncResourceVersion()
	active, err := c.pods.IndexKeys(activePodsIndex, types.NamespacedName{Namespace: group.Namespace, Name: group.Name}.String())
	if err != nil || len(active) > 0 {
		return true, err
	}
	if reaches(cached, group.ResourceVersion) || c.last.frees(group) {
		return false, nil
	}
	if c.last, err = c.ask(ctx, group.Namespace); err != nil {
		return true, err
	}
	if c.last.active[group.Name] {
		// No event need tell of the end of a pod that the cache has not shown.
		return true, reconcile.Requeue(errors.New("the cache does not show its pods yet"))
	}
	return false, nil
}

// frees reports that a group had no active pods after its deletion began.
func (a answer) frees(group *schedulingv1alpha2.PodGroup) bool {
	return a.namespace == group.Namespace && reaches(a.version, group.ResourceVersion) && !a.active[group.Name]
}

// reaches reports that a state as of a version contains what was written with another one.
func reaches(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order >= 0
}

// ask asks the API server for the active pods of a namespace.
func (c *protectionController) ask(ctx context.Context, namespace string) (answer, error) {
	is := answer{namespace: namespace, active: map[string]bool{}}
	options := metav1.ListOptions{Limit: pageSize, FieldSelector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	).String()}
	for {
		list, err := c.client.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return answer{}, err
		}
		for i := range list.Items {
			if pod := &list.Items[i]; isActive(pod) && groupOf(pod) != "" {
				is.active[groupOf(pod)] = true
			}
		}
		is.version = list.ResourceVersion
		if options.Continue = list.Continue; options.Continue == "" {
			return is, nil
		}
	}
}
