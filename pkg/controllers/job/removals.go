package job

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// removals remembers the pods whose finalizer this process removed, until the cache shows it:
// such a pod must not be counted again. Entries are checked against the cache, not removed by
// events, so a missed event leaves none behind. If the cache does not show a removal for long,
// the API server is asked.
type removals struct {
	// cached returns a pod as cached, nil if there is none of that name.
	cached func(pod types.NamespacedName) *corev1.Pod
	// version returns the version of the cache.
	version func() string
	clock   clock.PassiveClock
	perPod[removal]
}

// removal is the record of one pod.
type removal struct {
	name string
	// version is that of the pod without the finalizer, empty if unknown.
	version string
	// known is when the finalizer was removed, or last found to be.
	known time.Time
}

func newRemovals(cached func(types.NamespacedName) *corev1.Pod, version func() string, c clock.PassiveClock) *removals {
	return &removals{cached: cached, version: version, clock: c, perPod: newPerPod[removal]()}
}

// add remembers pods of a Job, by UID and name.
func (r *removals) add(job types.NamespacedName, all []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.jobs[job]
	if known == nil {
		known = map[types.UID]removal{}
		r.jobs[job] = known
	}
	for _, pod := range all {
		known[pod.UID] = removal{name: pod.Name, known: r.clock.Now()}
	}
}

// done records the version of a pod without the finalizer.
func (r *removals) done(job types.NamespacedName, pod types.UID, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.jobs[job][pod]; ok {
		known.version = version
		r.jobs[job][pod] = known
	}
}

// failed drops the record of a pod whose finalizer could not be removed.
func (r *removals) failed(job types.NamespacedName, pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs[job], pod.UID)
}

// of returns the pods of a Job whose removal the cache does not show yet, and drops the others.
// doubtful are those for which this has lasted so long that the API server may have been
// restored from a backup, with the finalizer.
func (r *removals) of(job types.NamespacedName) (unseen sets.Set[types.UID], doubtful []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unseen = sets.New[types.UID]()
	known := r.jobs[job]
	for uid, removal := range known {
		pod := r.cached(types.NamespacedName{Namespace: job.Namespace, Name: removal.name})
		isOld := r.clock.Since(removal.known) >= writes.Timeout
		switch {
		case pod == nil && !isOld && controller.IsOlder(r.version(), removal.version):
			unseen.Insert(uid) // a list lacked the pod, and its next event may be older than the removal
		case pod == nil || pod.UID != uid || !isTracked(pod):
			delete(known, uid)
		case isOld:
			doubtful = append(doubtful, pod)
			fallthrough
		default:
			unseen.Insert(uid)
		}
	}
	if len(known) == 0 {
		delete(r.jobs, job)
	}
	return unseen, doubtful
}

func (r *removals) has(job types.NamespacedName, pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.jobs[job][pod]
	return ok
}

// takeOver adds the records of the predecessor.
func (r *removals) takeOver(jobs map[types.NamespacedName]map[types.UID]removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, known := range jobs {
		if r.jobs[job] == nil {
			r.jobs[job] = maps.Clone(known)
		}
	}
}

// unseenRemovals returns the pods of a Job that must not be counted although the cache may
// show them with the finalizer.
func (c *jobController) unseenRemovals(ctx context.Context, job types.NamespacedName) (sets.Set[types.UID], error) {
	unseen, doubtful := c.memory.removals.of(job)
	for _, cached := range doubtful {
		tracked, err := c.isTrackedLive(ctx, cached)
		if err != nil {
			return nil, err
		}
		if tracked {
			unseen.Delete(cached.UID)
			c.memory.removals.failed(job, cached)
			continue
		}
		c.memory.removals.add(job, []*corev1.Pod{cached}) // the cache is just stale
	}
	return unseen, nil
}

// isTrackedLive asks the API server whether a pod has the finalizer. It lists because the role
// of the controller does not allow get on pods.
func (c *jobController) isTrackedLive(ctx context.Context, pod *corev1.Pod) (bool, error) {
	list, err := c.Client.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(),
	})
	if err != nil {
		return false, fmt.Errorf("reading pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return slices.ContainsFunc(list.Items, func(live corev1.Pod) bool { return live.UID == pod.UID && isTracked(&live) }), nil
}

// removeFinalizers removes the finalizer of pods and returns those that no longer have it, and
// the first failure.
func (c *jobController) removeFinalizers(ctx context.Context, r *reconciliation, all []*corev1.Pod) ([]*corev1.Pod, error) {
	c.memory.removals.add(r.key, all)
	var released []*corev1.Pod
	results := inBursts(ctx, len(all), func(ctx context.Context, i int) error {
		return c.removeFinalizer(ctx, r, all[i], anyVersion)
	})
	for i, err := range results {
		if err == nil {
			released = append(released, all[i])
			continue
		}
		c.memory.removals.failed(r.key, all[i])
		// If the Job was deleted meanwhile, the sweep for it has left the pod out, see trackedPods.
		c.orphanSeen(reconcile.Fresh, all[i])
	}
	return released, reconcile.Worst(results...)
}

// removeFinalizer removes the finalizer of a pod, if it still has the version.
func (c *jobController) removeFinalizer(
	ctx context.Context, r *reconciliation, pod *corev1.Pod, version string,
) error {
	patched, err := c.patchFinalizer(ctx, pod, version)
	if err != nil {
		return err
	}
	c.memory.removals.done(r.key, pod.UID, patched.ResourceVersion)
	c.podControl.Patched(r.job, patched)
	return nil
}

// anyVersion lets a patch change a pod of whatever version.
const anyVersion = ""

// patchFinalizer sends the patch that removes the finalizer, if the pod still has the version. NotFound does not prove
// that the pod is gone, since an admission webhook may answer so too: it is a reason to wait until the cache shows it.
func (c *jobController) patchFinalizer(
	ctx context.Context, pod *corev1.Pod, version string,
) (*metav1.ObjectMeta, error) {
	patch, err := finalizerPatch(pod.UID, version)
	if err != nil {
		return nil, err
	}
	patched, err := c.podControl.Untracked.Patch(ctx, pod.Namespace, pod.Name, patch)
	if err == nil && slices.Contains(patched.Finalizers, batchv1.JobTrackingFinalizer) {
		return nil, reconcile.AwaitCache(fmt.Errorf("removing the finalizer of pod %s/%s: it is still there, "+
			"an admission webhook may keep it", pod.Namespace, pod.Name))
	}
	if err == nil {
		return patched, nil
	}
	isNotFound := apierrors.IsNotFound(err)
	err = fmt.Errorf("removing the finalizer of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	if isNotFound {
		return nil, reconcile.AwaitCache(err)
	}
	return nil, err
}

type finalizerBody struct {
	Metadata finalizerMetadata `json:"metadata"`
}

type finalizerMetadata struct {
	UID        types.UID `json:"uid,omitempty"`
	Version    string    `json:"resourceVersion,omitempty"`
	Finalizers []string  `json:"$deleteFromPrimitiveList/finalizers"`
}

// finalizerPatch is the strategic merge patch that removes the finalizer from the pod
// with the UID, and from no namesake.
func finalizerPatch(uid types.UID, version string) ([]byte, error) {
	patch, err := json.Marshal(finalizerBody{finalizerMetadata{
		UID: uid, Version: version, Finalizers: []string{batchv1.JobTrackingFinalizer},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the removal of a finalizer: %w", err)
	}
	return patch, nil
}
