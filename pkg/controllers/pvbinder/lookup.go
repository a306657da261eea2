package pvbinder

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// claimOf returns the claim that the claimRef of a volume refers to with its UID, nil if that claim does
// not exist. A volume is released because of that answer. So only a live read can show that the claim of a
// volume that has not been released is gone, or that another claim has its name.
func (c *binderController) claimOf(
	ctx context.Context, v *corev1.PersistentVolume,
) (*corev1.PersistentVolumeClaim, error) {
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return nil, nil
	}
	claim, live, err := c.claimNamed(ctx, v)
	switch {
	case err != nil || claim == nil:
		return nil, err
	case claim.UID == ref.UID:
		return claim, nil
	case live || c.gone.has(v.Name, ref.UID):
		return nil, nil
	}
	if claim, err = c.liveClaim(ctx, ref); err != nil {
		return nil, err
	}
	if claim == nil || claim.UID != ref.UID {
		if c.gone.add(v.Name, ref.UID); c.hasGone(v) {
			c.gone.forget(v.Name)
		}
		return nil, nil
	}
	return claim, nil
}

// claimNamed returns the claim that has the name in the claimRef of a volume, nil if there is none, and
// whether it was read live.
func (c *binderController) claimNamed(
	ctx context.Context, v *corev1.PersistentVolume,
) (claim *corev1.PersistentVolumeClaim, live bool, err error) {
	ref := v.Spec.ClaimRef
	if claim = c.claims.get(claimKeyOf(v)); claim != nil || isOver(v) {
		return claim, false, nil
	}
	claim, found, err := reconcile.Found(c.cachedClaims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name))
	if found || err != nil {
		return claim, false, err
	}
	claim, err = c.liveClaim(ctx, ref)
	return claim, true, err
}

// liveClaim reads a claim from the API server. It returns nil if it does not exist.
func (c *binderController) liveClaim(
	ctx context.Context, ref *corev1.ObjectReference,
) (*corev1.PersistentVolumeClaim, error) {
	claim, err := c.Client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("checking whether claim %s/%s exists: %w", ref.Namespace, ref.Name, err)
	}
	return claim, nil
}

// cachedClaim reads a claim from the cache.
func (c *binderController) cachedClaim(key string) (*corev1.PersistentVolumeClaim, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, err
	}
	return c.cachedClaims.PersistentVolumeClaims(namespace).Get(name)
}

// goneLife is how long the result of a live read that shows a claim to be gone is reused.
const goneLife = 5 * time.Minute

// goneClaims remembers which claims live reads have shown to be gone. A released volume whose claim has a
// successor of the same name would otherwise cost a read with each pass. A UID never comes back.
type goneClaims struct {
	clock clock.PassiveClock

	mu sync.Mutex
	of map[string]goneClaim // by volume
}

type goneClaim struct {
	uid  types.UID
	read time.Time // live
}

func newGoneClaims(c clock.PassiveClock) *goneClaims {
	return &goneClaims{clock: c, of: map[string]goneClaim{}}
}

func (g *goneClaims) has(volume string, claim types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.of[volume]
	return ok && known.uid == claim && g.clock.Since(known.read) < goneLife
}

func (g *goneClaims) add(volume string, claim types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of[volume] = goneClaim{claim, g.clock.Now()}
}

func (g *goneClaims) forget(volume string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, volume)
}
