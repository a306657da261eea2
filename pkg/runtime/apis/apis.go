// Package apis knows which resources the API server offers.
//
//  1. One discovery serves the whole process: the REST mapper of all controllers and
//     the question whether a controller's APIs are there.
//  2. It is refreshed periodically, sooner after it failed and when a watch did: a kind may
//     not be served any more, or when the mapper was asked for a kind that it does not
//     know: it may be newer. Something that is waited for is looked for more often at
//     first. In between it answers from memory.
//  3. A group whose discovery fails counts as it last did: an aggregated API server
//     that is down for a moment does not stop the controllers of its kinds.
//  4. What is served, and what of it is preferred, has a generation, which grows with each
//     change. Who depends on all that is served compares it with the one that was used.
package apis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// RefreshPeriod is the period of discovery.
	RefreshPeriod = 30 * time.Second
	// RetryPeriod is when it is tried again after it failed. It doubles with each failure up
	// to MaxRetryPeriod, once it has succeeded before.
	RetryPeriod = time.Second
	// MaxRetryPeriod is the longest of these periods.
	MaxRetryPeriod = 5 * time.Second
	// suspectPause is the shortest time between two refreshes.
	suspectPause = 2 * time.Second
)

// Catalog is what the API server offers.
type Catalog struct {
	cached discovery.CachedDiscoveryInterface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	clock  clock.WithTicker

	changed chan struct{}
	suspect chan struct{}

	mu         sync.Mutex
	known      bool
	lacks      bool          // something was asked for that is not served
	wait       time.Duration // until it is looked for again
	err        error
	lists      []*metav1.APIResourceList // the preferred ones
	served     map[schema.GroupVersionResource]bool
	preferred  map[schema.GroupVersionResource]string // the verbs of those in lists
	generation uint64
	// unknown is what the mapper was asked for in vain since what is served last changed.
	unknown map[string]bool
}

// New makes an empty catalog. Nothing is asked of the API server before Run.
func New(client discovery.DiscoveryInterface, c clock.WithTicker) *Catalog {
	cached := memory.NewMemCacheClient(client)
	return &Catalog{
		cached:  cached,
		mapper:  restmapper.NewDeferredDiscoveryRESTMapper(cached),
		clock:   c,
		changed: make(chan struct{}, 1),
		suspect: make(chan struct{}, 1),
		served:  map[schema.GroupVersionResource]bool{},
		unknown: map[string]bool{},
	}
}

// Generation is that of what is served and preferred. It grows with each change.
func (c *Catalog) Generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// Changed receives a value after what is served has changed.
func (c *Catalog) Changed() <-chan struct{} { return c.changed }

// Missing says which of the resources are not served, or why that is not known. It is
// empty if all of them are.
func (c *Catalog) Missing(resources []schema.GroupVersionResource) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(resources) == 0 {
		return ""
	}
	if !c.known {
		if c.err != nil {
			return fmt.Sprintf("the API server cannot be asked what it serves: %v", c.err)
		}
		return "the API server has not been asked yet what it serves"
	}
	for _, r := range resources {
		if !c.served[r] {
			c.lacks = true
			return fmt.Sprintf("the API server does not serve %s in %s", r.Resource, r.GroupVersion())
		}
	}
	return ""
}

// Suspect has the catalog refreshed soon: something failed that is served as far as it knows.
func (c *Catalog) Suspect() {
	select {
	case c.suspect <- struct{}{}:
	default:
	}
}

// Run refreshes the catalog until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	retry := RetryPeriod
	for ctx.Err() == nil {
		err := c.Refresh(ctx)
		if err == nil {
			retry = RetryPeriod
			c.pause(ctx, suspectPause, nil)
			c.pause(ctx, c.nextRefresh()-suspectPause, c.suspect)
			continue
		}
		klog.FromContext(ctx).V(2).Info("Discovery failed", "err", err)
		c.pause(ctx, retry, nil)
		if c.Complete() {
			retry = min(2*retry, MaxRetryPeriod)
		}
	}
}

// nextRefresh is when to ask again. What is waited for is asked for after a time that
// doubles from the last change on: it is found about as fast as it was away.
func (c *Catalog) nextRefresh() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lacks {
		return RefreshPeriod
	}
	c.wait = min(2*c.wait, RefreshPeriod)
	return c.wait
}

// pause waits for a time, or until there is a reason not to.
func (c *Catalog) pause(ctx context.Context, d time.Duration, unless <-chan struct{}) {
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-unless:
	case <-ctx.Done():
	}
}

// Complete reports that discovery has succeeded at least once.
func (c *Catalog) Complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// Refresh asks the API server. What fails keeps its last answer.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.mapper.Reset() // invalidates the discovery cache too
	_, lists, err := c.cached.ServerGroupsAndResources()
	failed := map[schema.GroupVersion]error{}
	if groups, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		failed = groups
	} else if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = err
		return err
	}
	preferred, _ := c.cached.ServerPreferredResources() // from memory; what failed has been dealt with
	c.settle(servedBy(lists), failed, preferred)
	return nil
}

// Preferred returns the preferred resources as of the last discovery that succeeded, at
// least in part; empty before that. They must not be changed.
func (c *Catalog) Preferred() []*metav1.APIResourceList {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

func (c *Catalog) settle(served map[schema.GroupVersionResource]bool, failed map[schema.GroupVersion]error, preferred []*metav1.APIResourceList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.served {
		if failed[r.GroupVersion()] != nil {
			served[r] = true
		}
	}
	c.lists = keepFailed(preferred, c.lists, failed)
	verbs := verbsOf(c.lists)
	if c.known && maps.Equal(served, c.served) && maps.Equal(verbs, c.preferred) {
		return
	}
	c.served, c.preferred, c.known, c.err = served, verbs, true, nil
	c.generation++
	c.lacks, c.wait = false, suspectPause
	clear(c.unknown)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// keepFailed adds to new lists those of the groups and versions that could not be asked, as
// they were last.
func keepFailed(lists, before []*metav1.APIResourceList, failed map[schema.GroupVersion]error) []*metav1.APIResourceList {
	lists = slices.Clip(lists)
	for _, list := range before {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil && failed[gv] != nil {
			lists = append(lists, list)
		}
	}
	return lists
}

func servedBy(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]bool {
	served := map[schema.GroupVersionResource]bool{}
	for r := range verbsOf(lists) {
		served[r] = true
	}
	return served
}

// verbsOf returns the verbs of each resource.
func verbsOf(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]string {
	verbs := map[schema.GroupVersionResource]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			verbs[gv.WithResource(r.Name)] = strings.Join(r.Verbs, " ")
		}
	}
	return verbs
}
