package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// recycles remembers the pods that empty volumes, by the volume.
type recycles struct {
	mu sync.Mutex
	of map[types.UID]recyclerPod
	// waits ends the wait for a pod, of those that this instance waits for.
	waits map[types.UID]context.CancelFunc
}

func newRecycles() *recycles {
	return &recycles{of: map[types.UID]recyclerPod{}, waits: map[types.UID]context.CancelFunc{}}
}

// wait begins the wait for the pod of a volume. The context ends when the volume is not to be emptied any more.
func (r *recycles) wait(ctx context.Context, volume types.UID) (needed context.Context, done func()) {
	needed, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits[volume] = cancel
	return needed, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waits, volume)
	}
}

// endWait ends the wait for the pod of a volume, if there is one.
func (r *recycles) endWait(volume types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if end, ok := r.waits[volume]; ok {
		end()
	}
}

func (r *recycles) podOf(volume types.UID) (recyclerPod, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pod, ok := r.of[volume]
	return pod, ok
}

// hasPod reports whether a pod is known to empty a volume.
func (r *recycles) hasPod(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range r.of {
		if pod.uid == uid {
			return true
		}
	}
	return false
}

func (r *recycles) add(volume types.UID, pod recyclerPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[volume] = pod
}

func (r *recycles) remove(volume types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, volume)
}

func (r *recycles) copied() map[types.UID]recyclerPod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.of)
}

func (r *recycles) takeOver(left map[types.UID]recyclerPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.of, left)
}

// recycleVolume empties a volume and makes it available again. It ends without an error: what did not
// succeed is tried again with the next pass.
func (c *binderController) recycleVolume(stopping, working context.Context, v *corev1.PersistentVolume) {
	logger := klog.FromContext(working).WithValues("volume", v.Name)
	live, err := c.liveReleased(working, v)
	switch {
	case err != nil:
		logger.V(3).Info("A volume is not emptied now", "err", err)
		return
	case live == nil:
		c.abandonRecycle(working, v.UID)
		return
	}
	used, err := c.podsUsing(working, live)
	if err != nil {
		logger.V(3).Info("A volume is not emptied now: whether pods use it is not known", "err", err)
		return
	}
	if len(used) > 0 {
		c.recordAll(usedByPods(live, strings.Join(used, ",")))
		return
	}
	plugin := c.plugins.recyclerFor(live)
	if plugin == nil {
		c.failRecycle(working, live, "No recycler plugin found for the volume!")
		return
	}
	err = c.runRecycler(stopping, working, live, plugin.RecyclerPod(live))
	switch {
	case errors.Is(err, errHandedOver):
		return
	case controller.IsPaused(err): // in the namespace of the pods, which says nothing about the volume
		logger.V(3).Info("A volume is not emptied now", "err", err)
		return
	case errors.Is(err, errNotNeeded):
		c.abandonRecycle(working, v.UID)
		return
	case err != nil:
		c.failRecycle(working, live, fmt.Sprintf("Recycle failed: %v", err))
		return
	}
	c.recordAll(recycled(live))
	if err := c.unbind(working, live); err != nil {
		logger.V(3).Info("A volume that was emptied could not be unbound, and is emptied again", "err", err)
	}
}

// failRecycle marks a volume as Failed.
func (c *binderController) failRecycle(ctx context.Context, v *corev1.PersistentVolume, message string) {
	if _, err := c.setPhase(ctx, v, corev1.VolumeFailed, recyclingFailed(v, message)); err != nil {
		logFailure(ctx, err, "Failed to set phase Failed", v)
	}
}

// podsUsing returns the pods that may still use a released volume, sorted. If a claim of that name is known,
// it is another one, so that the pods use another volume. Only a live list shows that no pod uses the
// volume: the cache may lack a pod.
func (c *binderController) podsUsing(ctx context.Context, v *corev1.PersistentVolume) ([]string, error) {
	if c.claims.get(claimKeyOf(v)) != nil {
		return nil, nil
	}
	ref := v.Spec.ClaimRef
	cached, err := c.pods.Of(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return nil, err
	}
	if used := usersOf(cached); len(used) > 0 {
		return used, nil
	}
	var live []*corev1.Pod
	_, err = protection.EachPod(ctx, c.Client, ref.Namespace, fields.Everything(), func(pod *corev1.Pod) {
		uses := func(of corev1.Volume) bool { return index.ClaimOf(pod, &of) == ref.Name }
		if slices.ContainsFunc(pod.Spec.Volumes, uses) {
			live = append(live, pod.DeepCopy())
		}
	})
	return usersOf(live), err
}

// usersOf returns the keys of the pods that use their volumes, sorted.
func usersOf(pods []*corev1.Pod) []string {
	var keys []string
	for _, pod := range pods {
		if !volumes.IsTerminated(pod) {
			keys = append(keys, keyOf(pod))
		}
	}
	slices.Sort(keys)
	return keys
}
