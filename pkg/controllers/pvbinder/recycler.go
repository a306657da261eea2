package pvbinder

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// errHandedOver ends the wait for a pod because the instance is to stop, or may no longer write. The pod
// continues.
var errHandedOver = errors.New("the instance is to stop")

// errNotNeeded ends the wait for a pod because its volume is not to be emptied any more.
var errNotNeeded = errors.New("the volume is not to be emptied any more")

// runRecycler empties a volume by a pod, and deletes the pod. If a predecessor has started the pod, it is
// waited for.
func (c *binderController) runRecycler(
	stopping, working context.Context, v *corev1.PersistentVolume, pod *corev1.Pod,
) error {
	seen, err := c.watchPod(working, pod)
	if err != nil {
		return err
	}
	defer seen.stop()
	needed, done := c.recycles.wait(working, v.UID) // before the pod is known to stopRecycle
	defer done()
	started, err := c.beginRecycle(working, v, pod)
	if _, known := c.recycles.podOf(v.UID); known && !c.isToRecycle(v) {
		return errNotNeeded // what was seen before the pod was known has not ended the wait
	}
	if err != nil {
		return err
	}
	err = c.awaitRecycler(stopping, working, needed, v, started, seen)
	if errors.Is(err, errHandedOver) || errors.Is(err, errNotNeeded) {
		return err
	}
	deleted := c.deletePod(working, started, nil)
	if controller.IsPaused(deleted) || deleted != nil && working.Err() != nil {
		return errHandedOver // the next pass, or the successor, finds the pod, which has ended
	}
	if deleted == nil { // else the next pass has to know of it, above all if the volume is not to be emptied any more
		c.recycles.remove(v.UID)
	}
	switch {
	case err != nil:
		return fmt.Errorf("failed to recycle volume: %w", err)
	case deleted != nil:
		return fmt.Errorf("failed to delete recycler pod: %w", deleted)
	}
	return nil
}

// isToRecycle reports whether a volume is still to be emptied, after the same claim, by what is known of it.
func (c *binderController) isToRecycle(v *corev1.PersistentVolume) bool {
	known := c.volumes.get(v.Name)
	return known != nil && known.UID == v.UID && isRecycled(known) &&
		known.Spec.ClaimRef != nil && known.Spec.ClaimRef.UID == v.Spec.ClaimRef.UID
}

// podWatches show what happens to a recycler pod.
type podWatches struct{ pods, events watch.Interface }

func (w podWatches) stop() {
	w.pods.Stop()
	w.events.Stop()
}

// watchPod watches a pod, whether it exists or not, and the events about it.
func (c *binderController) watchPod(ctx context.Context, pod *corev1.Pod) (podWatches, error) {
	pods, err := c.Client.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(),
	})
	if err != nil {
		return podWatches{}, fmt.Errorf("watching recycler pod %s: %w", keyOf(pod), err)
	}
	events, err := c.Client.CoreV1().Events(pod.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", pod.Name).String(),
	})
	if err != nil {
		pods.Stop()
		return podWatches{}, fmt.Errorf("watching the events of recycler pod %s: %w", keyOf(pod), err)
	}
	return podWatches{pods, events}, nil
}

// beginRecycle returns the pod to wait for: the one that a predecessor has left, if it can be waited for, or else a new
// one. It records the pod.
func (c *binderController) beginRecycle(
	ctx context.Context, v *corev1.PersistentVolume, pod *corev1.Pod,
) (recyclerPod, error) {
	pods := c.Client.CoreV1().Pods(pod.Namespace)
	if left, ok := c.recycles.podOf(v.UID); ok {
		goesOn, err := c.goesOn(ctx, v, left, pod)
		if err != nil {
			return recyclerPod{}, err
		}
		if goesOn {
			return left, nil
		}
		c.recycles.remove(v.UID)
	}
	started := recyclerPod{volume: v.Name, namespace: pod.Namespace, name: pod.Name, claim: v.Spec.ClaimRef.UID}
	created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		if err := c.deleteOldPod(ctx, pod.Namespace, pod.Name, nil, nil); err != nil {
			return recyclerPod{}, fmt.Errorf("failed to delete old recycler pod %s: %w", keyOf(pod), err)
		}
		return recyclerPod{}, errors.New("old recycler pod found, will retry later")
	case err != nil:
		if requests.MayHaveCreated(err) {
			started.late = c.Clock.Now().Add(requests.LateWithin)
			c.recycles.add(v.UID, started)
		}
		return recyclerPod{}, fmt.Errorf("unexpected error creating recycler pod:  %w", err)
	}
	started.uid = created.UID
	c.recycles.add(v.UID, started)
	return started, nil
}

// goesOn reports whether the pod that a predecessor has left exists, and was started after the last claim of the volume.
// If pods are made in another namespace by now, it is deleted: nobody would know of it any more, and it could delete
// what a later claim stores. So is one whose create had no answer.
func (c *binderController) goesOn(
	ctx context.Context, v *corev1.PersistentVolume, left recyclerPod, pod *corev1.Pod,
) (bool, error) {
	if left.uid == "" || left.namespace != pod.Namespace {
		if err := c.endPod(ctx, left); err != nil {
			return false, fmt.Errorf("failed to delete old recycler pod %s/%s: %w", left.namespace, left.name, err)
		}
		return false, nil
	}
	live, err := c.Client.CoreV1().Pods(left.namespace).Get(ctx, left.name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading recycler pod %s: %w", keyOf(pod), err)
	}
	return live.UID == left.uid && left.claim == v.Spec.ClaimRef.UID, nil
}

// awaitRecycler waits until a pod has succeeded. It passes the events of the pod on to the volume. needed is derived
// from working, and ends also when the volume is not to be emptied any more.
func (c *binderController) awaitRecycler(
	stopping, working, needed context.Context, v *corev1.PersistentVolume, pod recyclerPod, seen podWatches,
) error {
	pods, events := seen.pods.ResultChan(), seen.events.ResultChan()
	for pods != nil || events != nil {
		select {
		case <-stopping.Done():
			return errHandedOver
		case <-needed.Done():
			if working.Err() != nil {
				return errHandedOver
			}
			return errNotNeeded
		case e, ok := <-pods:
			if !ok {
				pods = nil
				continue
			}
			if done, err := judgeRecycler(e, pod.uid); done {
				return err
			}
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			if about, isEvent := e.Object.(*corev1.Event); isEvent && e.Type == watch.Added {
				c.recordAll(recyclerEvent(v, about))
			}
		}
	}
	if stopping.Err() != nil || working.Err() != nil { // which ends the watches as well
		return errHandedOver
	}
	return fmt.Errorf("recycler pod %q watch channel had been closed", pod.name)
}

// judgeRecycler decides whether a pod has ended, and how. Other pods of its name do not count.
func judgeRecycler(e watch.Event, uid types.UID) (done bool, err error) {
	pod, ok := e.Object.(*corev1.Pod)
	switch {
	case !ok || pod.UID != uid:
		return false, nil
	case e.Type == watch.Deleted:
		return true, errors.New("recycler pod was deleted")
	case pod.Status.Phase == corev1.PodSucceeded:
		return true, nil
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Message != "":
		return true, errors.New(pod.Status.Message)
	case pod.Status.Phase == corev1.PodFailed:
		return true, errors.New("pod failed, pod.Status.Message unknown")
	}
	return false, nil
}

// deleteOldPod deletes the pod that has the name of a recycler pod, but not one that has replaced it meanwhile:
// by then, another instance may have the lease, and wait for its own pod. Nor does it delete one that is to be kept.
func (c *binderController) deleteOldPod(
	ctx context.Context, namespace, name string, keep func(types.UID) bool, grace *int64,
) error {
	live, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return nil
	case err != nil:
		return err
	case keep != nil && keep(live.UID):
		return nil
	}
	return c.deletePod(ctx, recyclerPod{namespace: live.Namespace, name: live.Name, uid: live.UID}, grace)
}

// abandonGrace is how long a pod has to end, in seconds, whose volume is not to be emptied any more. The shell that is
// its first process ignores the signal to end, and would go on deleting for the whole grace period of a pod.
const abandonGrace int64 = 1

// endPod deletes a recycler pod, which ends soon. If its create had no answer, it returns an error until that cannot be
// executed any more: a pod that comes after its volume has been emptied would delete what the next claim stores.
func (c *binderController) endPod(ctx context.Context, pod recyclerPod) error {
	if pod.uid != "" {
		return c.deletePod(ctx, pod, ptr.To(abandonGrace))
	}
	if err := c.deleteOldPod(ctx, pod.namespace, pod.name, c.recycles.hasPod, ptr.To(abandonGrace)); err != nil {
		return err
	}
	if c.Clock.Now().Before(pod.late) {
		return errors.New("it may still be created")
	}
	return nil
}

// deletePod deletes a recycler pod, and no other of its name. grace is the time that it has to end, in seconds, nil for
// its own.
func (c *binderController) deletePod(ctx context.Context, pod recyclerPod, grace *int64) error {
	err := c.Client.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name,
		metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: ptr.To(pod.uid)}})
	if controller.Absent(err) || apierrors.IsConflict(err) {
		return nil // it is gone
	}
	return err
}

// abandonRemnants deletes the pods that were started to empty volumes that are gone.
func (c *binderController) abandonRemnants() {
	for volume, pod := range c.recycles.copied() {
		if v := c.volumes.get(pod.volume); v == nil || v.UID != volume {
			c.stopRecycle(pod.volume, volume)
		}
	}
}

// stopRecycle starts to delete the pod, if any, that empties a volume: by ending the operation that waits for it, or
// by one of its own, if there is none.
func (c *binderController) stopRecycle(volume string, uid types.UID) {
	if _, ok := c.recycles.podOf(uid); !ok {
		return
	}
	c.recycles.endWait(uid)
	c.operations.start(recycleName(volume, uid), func(_, working context.Context) error {
		c.abandonRecycle(working, uid)
		return nil
	})
}

// abandonRecycle deletes the pod that was started to empty a volume which is not to be emptied any more. If that
// fails, the next pass tries again: when the volume is released again, it must not count as emptied by this pod.
func (c *binderController) abandonRecycle(ctx context.Context, volume types.UID) {
	pod, ok := c.recycles.podOf(volume)
	if !ok {
		return
	}
	if err := c.endPod(ctx, pod); err != nil {
		klog.FromContext(ctx).V(3).Info("Deleting a recycler pod failed", "pod", pod.name, "err", err)
		return
	}
	c.recycles.remove(volume)
}
