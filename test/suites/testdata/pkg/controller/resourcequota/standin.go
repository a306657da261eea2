// Package resourcequota stands in for upstream's, see kcmd.dev/test/suites.
package resourcequota

import (
	"context"
	"time"

	"kcmd.dev/test/suites/launch"
)

// ControllerOptions has the fields that tests set.
type ControllerOptions struct {
	ResyncPeriod                                                   func() time.Duration
	QuotaClient, ResourceQuotaInformer, InformerFactory            any
	ReplenishmentResyncPeriod, DiscoveryFunc, IgnoredResourcesFunc any
	InformersStarted, Registry                                     any
}

// Controller looks for new resources by itself.
type Controller struct{ *launch.Controller }

func NewController(_ context.Context, options *ControllerOptions) (*Controller, error) {
	return &Controller{launch.New([]any{options.QuotaClient, options.ResourceQuotaInformer}, "resourcequota-controller",
		"--resource-quota-sync-period="+options.ResyncPeriod().String())}, nil
}

func (*Controller) Sync(ctx context.Context, _ ...any) { <-ctx.Done() }
