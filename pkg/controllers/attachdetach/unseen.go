package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// What is attached when a process takes over can be wanted by a pod that its caches do not show yet: its predecessor
// had seen the pod, but that is not recorded in the API. Later, a list after a break of the watch can lack a pod that
// runs. Its kubelet says that it uses the volume, which does not matter any more when a detach is forced by the time.

// confirmPods returns an unconfirmed error if there may be a pod on the node that wants the volume there and is not
// known to; to the question for pods, if one may want any volume there. That is asked until the answer for the node has
// been no once, and only for volumes that no observed pod has wanted.
func (c *attachDetachController) confirmPods(ctx context.Context, at place, ask questions) error {
	name := at.node
	onNode := fields.OneTermEqualSelector("spec.nodeName", name).String()
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: onNode})
	if err != nil {
		return unconfirmed{fmt.Errorf("listing the pods on node %s: %w", name, err)}
	}
	var wanted []use
	there := map[types.UID]bool{}
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != name || volumes.IsTerminated(&pods.Items[i]) {
			continue
		}
		there[pods.Items[i].UID] = true
		uses, err := c.usesOf(ctx, &pods.Items[i])
		if err != nil {
			return unconfirmed{err}
		}
		wanted = append(wanted, uses...)
	}
	missing, managed, ok := c.unseen(at, wanted, ask.pods)
	switch {
	case !ok && ask.users:
		return c.confirmOver(name, there)
	case !ok:
		return nil
	}
	if !managed {
		node, found, err := reconcile.Found(c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return unconfirmed{fmt.Errorf("reading node %s: %w", name, err)}
		}
		if !found || !metav1.HasAnnotation(node.ObjectMeta, managedAnnotation) {
			return nil // no volume is wanted there, whatever its pods say
		}
	}
	c.noteUnseen(at, wanted)
	return unconfirmed{fmt.Errorf("waiting for the caches to show pod %s on node %s, and its volumes", missing.pod, name)}
}

// confirmOver returns an unconfirmed error if a pod is over or gone by a live list, and the caches do not show that yet,
// nor what it wanted. Once they show it, the node is waited for, see noteOver.
func (c *attachDetachController) confirmOver(node string, there map[types.UID]bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.world.incomplete {
		if pod := c.world.pods[key]; pod.node == node && !there[pod.uid] {
			return unconfirmed{fmt.Errorf("waiting for the caches to show that pod %s on node %s is over", key, node)}
		}
	}
	return nil
}

// noteUnseen records that the volume is used after all if one of these uses, which were just read, is not known.
func (c *attachDetachController) noteUnseen(at place, uses []use) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.world.links[at]
	isUnseen := func(u use) bool { return u.volume == at.volume && l.pods[u.pod.UID] != u.pod }
	if l != nil && slices.ContainsFunc(uses, isUnseen) {
		l.usedUnseen = true
	}
}

// confirmWaited returns an unconfirmed error if the last answer was that a pod uses the volume that the caches do not
// show. That pod is gone by now, and the node is waited for from now on.
func (c *attachDetachController) confirmWaited(at place) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.world.links[at]
	if l == nil || !l.usedUnseen {
		return nil
	}
	l.unwantedSince, l.usedUnseen = c.Clock.Now(), false
	return unconfirmed{fmt.Errorf("volume %q was wanted on node %q by a pod that the caches have not shown", at.volume, at.node)}
}

// unseen returns the first of these uses, of all volumes or of the one, that is not known, and whether the node is
// known to be managed. If there is none of all volumes, the pods of the node are known from now on.
func (c *attachDetachController) unseen(at place, uses []use, all bool) (missing use, managed, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.world.nodes[at.node]
	if n == nil {
		return use{}, false, false
	}
	for _, u := range uses {
		if !all && u.volume != at.volume {
			continue
		}
		if l := n.links[u.volume]; l == nil || l.pods[u.pod.UID] != u.pod {
			return u, n.managed, true
		}
	}
	n.podsKnown = n.podsKnown || all
	return use{}, n.managed, false
}

// use is a volume that a pod wants on its node.
type use struct {
	volume corev1.UniqueVolumeName
	pod    podRef
}

// usesOf finds out which volumes a pod wants, from the API server where the caches do not show it.
func (c *attachDetachController) usesOf(ctx context.Context, pod *corev1.Pod) ([]use, error) {
	if !isBound(pod) || volumes.IsTerminated(pod) {
		return nil, nil
	}
	found := c.contributionOf(ctx, pod, c.resolver)
	if found.incomplete {
		live, err := c.liveResolver(ctx, pod)
		if err != nil {
			return nil, err
		}
		found = c.contributionOf(ctx, pod, live)
	}
	var uses []use
	for _, what := range found.wanted {
		uses = append(uses, use{what.name(), podRef{reconcile.KeyOf(pod), pod.UID}})
	}
	return uses, nil
}

// liveResolver resolves the volumes of a pod by claims and PersistentVolumes that were just read. The role of the
// controller permits to list them, but not to get one.
func (c *attachDetachController) liveResolver(ctx context.Context, pod *corev1.Pod) (volumes.Resolver, error) {
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	pvs := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range pod.Spec.Volumes {
		name := index.ClaimOf(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		list, err := c.Client.CoreV1().PersistentVolumeClaims(pod.Namespace).List(ctx, named(name))
		if err != nil {
			return volumes.Resolver{}, fmt.Errorf("reading claim %s/%s: %w", pod.Namespace, name, err)
		}
		for i := range list.Items {
			claim := &list.Items[i]
			if err := errors.Join(claims.Add(claim), c.readVolume(ctx, claim.Spec.VolumeName, pvs)); err != nil {
				return volumes.Resolver{}, err
			}
		}
	}
	return volumes.Resolver{
		Claims:  corelisters.NewPersistentVolumeClaimLister(claims),
		Volumes: corelisters.NewPersistentVolumeLister(pvs),
	}, nil
}

// readVolume reads a PersistentVolume, if there is one of the name.
func (c *attachDetachController) readVolume(ctx context.Context, name string, into cache.Store) error {
	if name == "" {
		return nil
	}
	list, err := c.Client.CoreV1().PersistentVolumes().List(ctx, named(name))
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", name, err)
	}
	for i := range list.Items {
		if err := into.Add(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// named selects the object of a name.
func named(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}
