package job

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// askAgainAfter is how long a failed pod that is being deleted waits for its replacement before the API server is asked
// again whether there can be one.
const askAgainAfter = time.Minute

// letGo has no failed pod wait for its replacement if the namespace is being deleted: nobody can create one there, and
// the Job is deleted after its pods only. The API server is asked when such a pod is being deleted.
func (c *jobController) letGo(ctx context.Context, r *reconciliation) {
	if r.job.DeletionTimestamp != nil || !r.isRetainedPodLeaving() {
		return
	}
	if !c.podControl.Untracked.InTerminatingNamespace(ctx, r.job, r.template(), metav1.NewControllerRef(r.job, jobKind)) {
		r.wakeUp(askAgainAfter)
		return
	}
	klog.FromContext(ctx).V(2).Info("Replacing no pods, since the namespace is being deleted", "job", klog.KObj(r.job))
	r.indexed.retained = nil
}

func (r *reconciliation) isRetainedPodLeaving() bool {
	for _, pod := range r.indexed.retained {
		if pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}
