package attachdetach

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// podRef is what is needed of a pod to record an event on it.
type podRef struct {
	types.NamespacedName
	UID types.UID
}

// podState is what a pod contributes to the state of the world.
type podState struct {
	uid  types.UID
	node string
	// wants are the volumes it wants attached to the node.
	wants map[corev1.UniqueVolumeName]bool
	// labels are those of all its volumes in metrics.
	labels []string
	// missed is set if the cache lacks the pod, and its deletion was not seen.
	missed bool
	// over is set once the pod was seen not to use its volumes any more.
	over bool
}

// contribution is what the volumes of a pod were found to be.
type contribution struct {
	wanted []identified
	// unattachable are volumes that may have been attachable before, and are not any more.
	unattachable []corev1.UniqueVolumeName
	labels       []string
	// incomplete reports whether it is not known yet what a volume is.
	incomplete bool
}

// contributionOf finds out what the volumes of a pod are. It calls drivers of FlexVolumes, so the lock must
// not be held.
func (c *attachDetachController) contributionOf(
	ctx context.Context, pod *corev1.Pod, resolver volumes.Resolver,
) contribution {
	logger := klog.FromContext(ctx)
	var found contribution
	for i := range pod.Spec.Volumes {
		spec, err := resolver.Resolve(logger, pod, &pod.Spec.Volumes[i])
		if err != nil {
			logger.V(4).Info("Skipping a volume of a pod", "pod", klog.KObj(pod), "volume", pod.Spec.Volumes[i].Name, "err", err)
			found.incomplete = true
			continue
		}
		if _, label, ok := c.plugins.find(ctx, spec); ok {
			found.labels = append(found.labels, label)
		}
		what, ok, err := c.plugins.identify(ctx, spec)
		switch {
		case err != nil:
			logger.V(4).Info("Skipping a volume of a pod", "pod", klog.KObj(pod), "volume", pod.Spec.Volumes[i].Name, "err", err)
			found.incomplete = true
		case ok:
			found.wanted = append(found.wanted, what)
		case spec.CSI() != nil:
			csi := spec.CSI()
			found.unattachable = append(found.unattachable,
				corev1.UniqueVolumeName(csiPlugin+"/"+csi.Driver+"^"+csi.VolumeHandle))
		case spec.Volume != nil && spec.Volume.FlexVolume != nil, spec.PV != nil && spec.PV.Spec.FlexVolume != nil:
			found.incomplete = true // the driver may be installed later
		}
	}
	return found
}

// reconcilePod brings the desired state in line with a pod.
func (c *attachDetachController) reconcilePod(ctx context.Context, key types.NamespacedName) error {
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if err != nil {
		return err
	}
	if !found {
		if err := c.confirmGone(ctx, key); err != nil {
			return err
		}
		pod = nil
	}
	c.placePod(ctx, key, pod)
	return nil
}

// confirmGone returns an error if a pod that the cache lacks uses its volumes by a live list. Only a list after a break of
// the watch lacks such a pod, which goes on wanting its volumes.
func (c *attachDetachController) confirmGone(ctx context.Context, key types.NamespacedName) error {
	uid, ok := c.missedPod(key)
	if !ok {
		return nil
	}
	pods, err := c.Client.CoreV1().Pods(key.Namespace).List(ctx, named(key.Name))
	if err != nil {
		return fmt.Errorf("reading pod %s, which the cache lacks: %w", key, err)
	}
	uses := func(pod corev1.Pod) bool { return pod.UID == uid && !volumes.IsTerminated(&pod) }
	if slices.ContainsFunc(pods.Items, uses) {
		return reconcile.AwaitCache(fmt.Errorf("the cache does not show pod %s, which exists", key))
	}
	return nil
}

// missedPod returns the UID of a pod that wants volumes, or may, and that only a list lacked.
func (c *attachDetachController) missedPod(key types.NamespacedName) (uid types.UID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.world.pods[key]
	if state == nil || !state.missed || len(state.wants) == 0 && !c.world.incomplete[key] {
		return "", false
	}
	return state.uid, true
}

// placePod brings the desired state in line with a pod, which is nil if there is none.
func (c *attachDetachController) placePod(ctx context.Context, key types.NamespacedName, pod *corev1.Pod) {
	var found contribution
	if pod != nil && !isBound(pod) {
		pod = nil
	}
	if pod != nil {
		found = c.contributionOf(ctx, pod, c.resolver)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.world.pods[key]
	if state != nil && (pod == nil || pod.UID != state.uid || pod.Spec.NodeName != state.node) {
		c.noteOver(state, contribution{incomplete: c.world.incomplete[key]})
		c.releaseAll(state)
		c.world.counts.pod(state.node, state.labels, nil)
		delete(c.world.pods, key)
		delete(c.world.incomplete, key)
		state = nil
	}
	if pod == nil {
		return
	}
	if state == nil {
		state = &podState{uid: pod.UID, node: pod.Spec.NodeName, wants: map[corev1.UniqueVolumeName]bool{}}
		c.world.pods[key] = state
	}
	c.world.counts.pod(state.node, state.labels, found.labels)
	state.labels, state.missed = found.labels, false
	c.applyContribution(key, pod, state, found)
	if found.incomplete && !volumes.IsTerminated(pod) {
		c.world.incomplete[key] = true
	} else {
		delete(c.world.incomplete, key)
	}
	if len(state.wants) == 0 && len(state.labels) == 0 && !c.world.incomplete[key] {
		delete(c.world.pods, key) // most pods
	}
}

// applyContribution adds and removes the volumes that a pod wants. Even a pod that has ended identifies volumes that
// are known only by name.
func (c *attachDetachController) applyContribution(
	key types.NamespacedName, pod *corev1.Pod, state *podState, found contribution,
) {
	for _, what := range found.wanted {
		if l := c.world.links[place{what.name(), state.node}]; l != nil && l.state == attached {
			if v := c.world.volumes[l.volume]; v.known.IsZero() {
				c.world.learn(v, what)
			}
		}
	}
	if volumes.IsTerminated(pod) {
		c.noteOver(state, found)
		c.releaseAll(state)
		return
	}
	for _, name := range found.unattachable {
		if state.wants[name] {
			c.release(state, name)
		}
	}
	if n := c.world.nodes[state.node]; n == nil || !n.managed {
		return
	}
	for _, what := range found.wanted {
		at := place{what.name(), state.node}
		state.wants[at.volume] = true
		if c.world.want(at, what, podRef{key, pod.UID}) {
			c.placeQueue.Add(at)
		}
	}
}

// noteOver has the wait for a node begin with a pod that is over or gone, if it may have used a volume until now that nobody was
// known to want: any volume if it is not known what its volumes are.
func (c *attachDetachController) noteOver(state *podState, found contribution) {
	n := c.world.nodes[state.node]
	if n == nil || state.over {
		return
	}
	state.over = true
	used := map[corev1.UniqueVolumeName]bool{}
	for _, what := range found.wanted {
		used[what.name()] = true
	}
	for _, l := range n.links {
		if (found.incomplete || used[l.volume]) && !l.isWanted() && !l.unwantedSince.IsZero() {
			l.unwantedSince = c.Clock.Now()
		}
	}
}

func (c *attachDetachController) releaseAll(state *podState) {
	for name := range state.wants {
		c.release(state, name)
	}
}

func (c *attachDetachController) release(state *podState, name corev1.UniqueVolumeName) {
	delete(state.wants, name)
	at := place{name, state.node}
	if c.world.unwant(at, state.uid) {
		c.placeQueue.Add(at)
	}
}

// isBound reports whether a pod may want volumes on a node.
func isBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && len(pod.Spec.Volumes) > 0 }

// reconcileClaim enqueues the pods that use a claim, which may have been bound since they were examined.
func (c *attachDetachController) reconcileClaim(_ context.Context, key types.NamespacedName) error {
	claim, found, err := reconcile.Found(c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name))
	if err != nil {
		return fmt.Errorf("failed to sync pvc %q, will retry again: %w", key.String(), err)
	}
	if !found || !isBoundClaim(claim) {
		return nil
	}
	pods, err := c.usersOf.Of(key)
	if err != nil {
		return fmt.Errorf("failed to sync pvc %q, will retry again: %w", key.String(), err)
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !volumes.IsTerminated(pod) {
			c.podQueue.Add(reconcile.KeyOf(pod))
		}
	}
	return nil
}

func isBoundClaim(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != ""
}
