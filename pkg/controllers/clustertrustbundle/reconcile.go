package clustertrustbundle

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconcile deletes nothing before the wanted ClusterTrustBundle exists.
func (p *publisher) reconcile(ctx context.Context, _ string) error {
	plan := decide(p.name, p.trust, p.bundles.existing())
	if err := p.publish(ctx, plan); err != nil {
		return err
	}
	var failures []error
	for _, name := range plan.surplus {
		err := p.bundles.delete(ctx, name)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// It is gone, or another one has its name, as the cache will show. An admission webhook may say so, too.
			p.loop.AddAfter(key, reconcile.RecheckAfter)
		case err != nil:
			failures = append(failures, fmt.Errorf("deleting cluster trust bundle %s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}

func (p *publisher) publish(ctx context.Context, plan plan) error {
	switch {
	case plan.create:
		err := p.bundles.create(ctx, p.name, p.trust)
		if apierrors.IsAlreadyExists(err) {
			return reconcile.AwaitCache(fmt.Errorf("the cache does not show cluster trust bundle %s: %w", p.name, err))
		}
		if err != nil {
			return fmt.Errorf("creating cluster trust bundle %s: %w", p.name, err)
		}
		p.loop.AddAfter(key, reconcile.RecheckAfter)
	case plan.update:
		if err := p.bundles.update(ctx, p.name, p.trust); err != nil {
			return fmt.Errorf("updating cluster trust bundle %s: %w", p.name, err)
		}
	}
	return nil
}
