package podgroupprotection

import (
	"context"
	"errors"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// answerLife is how long an answer is reused.
const answerLife = time.Minute

// answer is a live list of the active pods of a namespace. The deletion of a workload deletes
// many groups at once, so the list is reused for groups whose deletion is older. It is reused
// only for groups without pods in it: a listed pod may have finished since. It is not reused for
// long, because versions go back when the API server's data is restored from a backup.
type answer struct {
	listed  time.Time
	version string          // as of which it holds
	active  map[string]bool // groups with active pods
}

// isHeld reports whether a group that is being deleted has active pods. A cache without any proves nothing, whatever
// its version: a list after a break of the watch may have lacked pods.
func (c *protectionController) isHeld(ctx context.Context, group *schedulingv1alpha2.PodGroup) (bool, error) {
	active, err := c.pods.IndexKeys(activePodsIndex, reconcile.KeyOf(group).String())
	if err != nil || len(active) > 0 {
		return true, err
	}
	now := c.Clock.Now()
	maps.DeleteFunc(c.answers, func(_ string, a answer) bool { return now.Sub(a.listed) >= answerLife })
	if c.answers[group.Namespace].frees(group) {
		return false, nil
	}
	is, err := c.listActive(ctx, group.Namespace)
	if err != nil {
		return true, err
	}
	c.answers[group.Namespace] = is
	if is.active[group.Name] {
		// There may be no event for the end of a pod that the cache never contained.
		return true, reconcile.AwaitCache(errors.New("the cache does not show its pods yet"))
	}
	return false, nil
}

// frees reports whether an answer shows that a group had no active pods after its deletion began.
func (a answer) frees(group *schedulingv1alpha2.PodGroup) bool {
	return reaches(a.version, group.ResourceVersion) && !a.active[group.Name]
}

// reaches reports whether a state at one version includes the write with another version.
func reaches(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	return err == nil && order >= 0
}

// listActive lists the active pods of a namespace live.
func (c *protectionController) listActive(ctx context.Context, namespace string) (answer, error) {
	is := answer{listed: c.Clock.Now(), active: map[string]bool{}}
	activePods := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	version, err := protection.EachPod(ctx, c.Client, namespace, activePods, func(pod *corev1.Pod) {
		if isActive(pod) && index.GroupOf(pod) != "" {
			is.active[index.GroupOf(pod)] = true
		}
	})
	if err != nil {
		return answer{}, err
	}
	is.version = version
	return is, nil
}

// isActive reports whether a pod blocks the deletion of its group.
func isActive(pod *corev1.Pod) bool {
	return !pods.IsTerminal(pod)
}

// activeGroupOf is the index function of activePodsIndex.
func activeGroupOf(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !isActive(pod) || index.GroupOf(pod) == "" {
		return nil, nil
	}
	return []string{types.NamespacedName{Namespace: pod.Namespace, Name: index.GroupOf(pod)}.String()}, nil
}
