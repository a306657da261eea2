package controllertest

import (
	"time"

	"k8s.io/client-go/tools/cache"
)

// Captured is an informer that keeps the handler it was given, for tests that call it directly.
type Captured struct {
	cache.SharedIndexInformer
	Handler cache.ResourceEventHandler
	Resync  time.Duration
}

// AddEventHandler implements cache.SharedInformer. The handler has the resync period of the controller.
func (c *Captured) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	c.Handler = h
	return nil, nil
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (c *Captured) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	c.Handler, c.Resync = h, resync
	return nil, nil
}
