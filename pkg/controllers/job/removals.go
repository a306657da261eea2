package job

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/expectations"
)

// removals remembers the pods whose finalizer this process removed, until the cache shows
// it: such a pod must not be counted again. Whether it does is looked up, so an event
// that is missed leaves nothing behind. A pod that is shown with its finalizer five minutes
// later was brought back by a backup, and is counted again.
type removals struct {
	clock clock.PassiveClock
	// cached returns a pod as cached, nil if there is none of that name.
	cached func(pod types.NamespacedName) *corev1.Pod

	mu   sync.Mutex
	jobs map[types.NamespacedName]map[types.UID]removal
}

// removal is a finalizer that was removed from the pod with the name.
type removal struct {
	name string
	at   time.Time
}

// add remembers pods of a Job, by UID and name.
func (r *removals) add(job types.NamespacedName, all []*corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.jobs[job]
	if names == nil {
		names = map[types.UID]removal{}
		r.jobs[job] = names
	}
	for _, pod := range all {
		names[pod.UID] = removal{name: pod.Name, at: r.clock.Now()}
	}
}

// failed takes back a pod whose finalizer could not be removed.
func (r *removals) failed(job types.NamespacedName, pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs[job], pod.UID)
}

// of returns the pods of a Job for which the cache is behind, and forgets the others.
func (r *removals) of(job types.NamespacedName) sets.Set[types.UID] {
	r.mu.Lock()
	defer r.mu.Unlock()
	unseen := sets.New[types.UID]()
	names := r.jobs[job]
	for uid, removed := range names {
		pod := r.cached(types.NamespacedName{Namespace: job.Namespace, Name: removed.name})
		if pod == nil || pod.UID != uid || !isTracked(pod) || r.clock.Since(removed.at) >= expectations.Timeout {
			delete(names, uid)
			continue
		}
		unseen.Insert(uid)
	}
	if len(names) == 0 {
		delete(r.jobs, job)
	}
	return unseen
}

func (r *removals) has(job types.NamespacedName, pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.jobs[job][pod]
	return ok
}

func (r *removals) hasAny(job types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.jobs[job]) > 0
}

func (r *removals) drop(job types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, job)
}

func (r *removals) copy() map[types.NamespacedName]map[types.UID]removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[types.NamespacedName]map[types.UID]removal, len(r.jobs))
	for job, names := range r.jobs {
		all[job] = maps.Clone(names)
	}
	return all
}

// adopt takes over what a predecessor remembered.
func (r *removals) adopt(jobs map[types.NamespacedName]map[types.UID]removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for job, names := range jobs {
		if r.jobs[job] == nil {
			r.jobs[job] = maps.Clone(names)
		}
	}
}

// removeFinalizers removes the finalizer of pods and returns those that have it no more,
// and the first error.
func (c *jobController) removeFinalizers(ctx context.Context, o *observation, all []*corev1.Pod) ([]*corev1.Pod, error) {
	c.removals.add(o.key, all)
	var released []*corev1.Pod
	var failure error
	for i, err := range inBursts(ctx, len(all), func(ctx context.Context, i int) error { return c.removeFinalizer(ctx, o, all[i]) }) {
		if err == nil {
			released = append(released, all[i])
			continue
		}
		c.removals.failed(o.key, all[i])
		failure = cmp.Or(failure, err)
	}
	return released, failure
}

// removeFinalizer lets a pod of a Job go. One that is gone already is no error.
func (c *jobController) removeFinalizer(ctx context.Context, o *observation, pod *corev1.Pod) error {
	patched, err := c.patchFinalizer(ctx, pod)
	if err == nil && patched != nil {
		c.pods.Patched(o.job, patched)
	}
	return err
}

// patchFinalizer sends the patch that removes the finalizer. The pod it returns is nil if
// there is no such pod.
func (c *jobController) patchFinalizer(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	patch, err := finalizerPatch(pod.UID)
	if err != nil {
		return nil, err
	}
	patched, err := c.pods.Patch(ctx, pod.Namespace, pod.Name, patch)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("removing the finalizer of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patched, nil
}

type finalizerBody struct {
	Metadata finalizerMetadata `json:"metadata"`
}

type finalizerMetadata struct {
	UID        types.UID `json:"uid,omitempty"`
	Finalizers []string  `json:"$deleteFromPrimitiveList/finalizers"`
}

// finalizerPatch is the strategic merge patch that removes the finalizer from the pod
// with the UID, and from no namesake.
func finalizerPatch(uid types.UID) ([]byte, error) {
	patch, err := json.Marshal(finalizerBody{finalizerMetadata{UID: uid, Finalizers: []string{batchv1.JobTrackingFinalizer}}})
	if err != nil {
		return nil, fmt.Errorf("encoding the removal of a finalizer: %w", err)
	}
	return patch, nil
}
