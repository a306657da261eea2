// Package apis discovers which resources the API server serves.
//
//  1. One discovery serves the whole process: the REST mapper of all controllers, and the
//     check that the resources of a controller are served.
//  2. It is refreshed periodically, and sooner after it failed, after a watch failed (a kind
//     may no longer be served), or when the mapper was asked for an unknown kind (it may be
//     new). While something is waited for, it is refreshed more often at first. In between,
//     results come from memory.
//  3. A group whose discovery fails keeps its last result: an aggregated API server that is
//     down for a moment does not stop the controllers of its kinds, nor do these kinds count
//     as unknown.
//  4. Kinds are mapped by the last result, also while the API server is asked again: the mapper has
//     no context, so who is to stop must not wait for it.
//  5. What is served, and what of it is preferred, has a generation, which grows with each
//     change. Users that depend on everything that is served compare it with the generation
//     they used.
package apis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// refreshPeriod is the period of discovery.
	refreshPeriod = 30 * time.Second
	// retryPeriod is the delay after a failure. It doubles with each failure up to
	// maxRetryPeriod, once it has succeeded before.
	retryPeriod = time.Second
	// maxRetryPeriod is the longest of these periods.
	maxRetryPeriod = 5 * time.Second
	// suspectPause is the shortest time between two refreshes.
	suspectPause = 2 * time.Second
)

// Catalog is what the API server offers.
type Catalog struct {
	clock clock.WithTicker
	// newView makes a view that knows nothing yet. view is the newest one that was filled: kinds are mapped by it while the
	// next one is being filled, which takes as long as an API server that hangs.
	newView func() *view
	view    atomic.Pointer[view]

	changed chan struct{}
	suspect chan struct{}

	mu         sync.Mutex
	known      bool
	lacks      bool                                   // a resource that is not served was asked for
	wait       time.Duration                          // until the next attempt to find it
	err        error                                  // of the last attempt
	lists      []*metav1.APIResourceList              // the preferred ones
	served     map[schema.GroupVersionResource]string // the kinds, empty for subresources
	preferred  map[schema.GroupVersionResource]string // the verbs of those in lists
	generation uint64
	// unknown is what the mapper did not find since what is served last changed.
	unknown map[string]bool
}

// view is what one discovery found.
type view struct {
	cached discovery.CachedDiscoveryInterface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func viewOf(client discovery.DiscoveryInterface) *view {
	cached := memory.NewMemCacheClient(client)
	return &view{cached: cached, mapper: restmapper.NewDeferredDiscoveryRESTMapper(cached)}
}

// New makes an empty catalog. No request is sent before Run.
func New(client discovery.DiscoveryInterface, c clock.WithTicker) *Catalog {
	catalog := &Catalog{
		clock:   c,
		newView: func() *view { return viewOf(client) },
		changed: make(chan struct{}, 1),
		suspect: make(chan struct{}, 1),
		served:  map[schema.GroupVersionResource]string{},
		unknown: map[string]bool{},
	}
	catalog.view.Store(catalog.newView())
	return catalog
}

// Generation is that of what is served and preferred. It grows with each change.
func (c *Catalog) Generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// Changed receives a value after what is served has changed, or the reason why that is not known.
func (c *Catalog) Changed() <-chan struct{} { return c.changed }

// Missing describes which of the resources are not served, or why that is not known. It is
// empty if all of them are served.
func (c *Catalog) Missing(resources []schema.GroupVersionResource) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(resources) == 0 {
		return ""
	}
	if !c.known {
		return c.unreachedLocked()
	}
	for _, r := range resources {
		if _, served := c.served[r]; !served {
			c.lacks = true
			return fmt.Sprintf("the API server does not serve %s in %s", r.Resource, r.GroupVersion())
		}
	}
	return ""
}

// Unreached is why the API server could not be asked the last time, empty if it could.
func (c *Catalog) Unreached() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unreachedLocked()
}

func (c *Catalog) unreachedLocked() string {
	switch {
	case c.err != nil:
		return "API discovery failed: " + reasonOf(c.err)
	case !c.known:
		return "API discovery has not completed yet"
	}
	return ""
}

// Suspect refreshes the catalog soon: a request failed for a resource that it lists as
// served.
func (c *Catalog) Suspect() {
	select {
	case c.suspect <- struct{}{}:
	default:
	}
}

// Run refreshes the catalog until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	retry := retryPeriod
	for ctx.Err() == nil {
		err := c.Refresh(ctx)
		if err == nil {
			retry = retryPeriod
			c.pause(ctx, suspectPause, nil)
			c.pause(ctx, c.nextRefresh()-suspectPause, c.suspect)
			continue
		}
		klog.FromContext(ctx).V(2).Info("Discovery failed", "err", err)
		c.pause(ctx, retry, nil)
		if c.Complete() {
			retry = min(2*retry, maxRetryPeriod)
		}
	}
}

// nextRefresh returns when to refresh next. While something is waited for, the interval
// doubles from the last change on, so the delay in noticing it is proportional to how long it
// was missing.
func (c *Catalog) nextRefresh() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lacks {
		return refreshPeriod
	}
	c.wait = min(2*c.wait, refreshPeriod)
	return c.wait
}

// pause waits for a time, or until a refresh is requested.
func (c *Catalog) pause(ctx context.Context, d time.Duration, unless <-chan struct{}) {
	timer := c.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-unless:
	case <-ctx.Done():
	}
}

// Complete reports whether discovery has succeeded at least once.
func (c *Catalog) Complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// Refresh queries the API server. What fails keeps its last result.
func (c *Catalog) Refresh(ctx context.Context) error {
	next := c.newView()
	_, lists, err := next.cached.ServerGroupsAndResources()
	failed := map[schema.GroupVersion]error{}
	if err := c.note(err, failed); err != nil {
		return err
	}
	// From memory, but for what has failed.
	preferred, err := next.cached.ServerPreferredResources()
	if err := c.note(err, failed); err != nil {
		return err
	}
	c.view.Store(next)
	c.settle(servedBy(lists), failed, preferred)
	return nil
}

// note adds to the groups and versions that could not be asked. It returns an error if nothing could be.
func (c *Catalog) note(err error, failed map[schema.GroupVersion]error) error {
	if groups, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		maps.Copy(failed, groups)
		return nil
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		news := !c.known && (c.err == nil || reasonOf(c.err) != reasonOf(err))
		c.err = err
		if news {
			c.tellLocked()
		}
	}
	return err
}

// reasonOf is the message of an error. Of some answers client-go has none, and says "unknown".
func reasonOf(err error) string {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Message == "unknown" {
		return fmt.Sprintf("the API server answered %d %s", answer.Status().Code, answer.Status().Reason)
	}
	return err.Error()
}

func (c *Catalog) tellLocked() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Preferred returns the preferred resources as of the last discovery that succeeded, at
// least in part; empty before that. They must not be changed.
func (c *Catalog) Preferred() []*metav1.APIResourceList {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

func (c *Catalog) settle(served map[schema.GroupVersionResource]string, failed map[schema.GroupVersion]error, preferred []*metav1.APIResourceList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = nil
	for r, kind := range c.served {
		if failed[r.GroupVersion()] != nil {
			served[r] = kind
		}
	}
	c.lists = keepFailed(preferred, c.lists, failed)
	verbs := verbsOf(c.lists)
	if c.known && maps.Equal(served, c.served) && maps.Equal(verbs, c.preferred) {
		return
	}
	c.served, c.preferred, c.known = served, verbs, true
	c.generation++
	c.lacks, c.wait = false, suspectPause
	clear(c.unknown)
	c.tellLocked()
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

// servedBy returns the kind of each resource, which subresources do not have: theirs may be of another group.
func servedBy(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]string {
	return describe(lists, func(r *metav1.APIResource) string {
		if strings.Contains(r.Name, "/") {
			return ""
		}
		return r.Kind
	})
}

// verbsOf returns the verbs of each resource.
func verbsOf(lists []*metav1.APIResourceList) map[schema.GroupVersionResource]string {
	return describe(lists, func(r *metav1.APIResource) string { return strings.Join(r.Verbs, " ") })
}

func describe(lists []*metav1.APIResourceList, as func(*metav1.APIResource) string) map[schema.GroupVersionResource]string {
	described := map[schema.GroupVersionResource]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			described[gv.WithResource(list.APIResources[i].Name)] = as(&list.APIResources[i])
		}
	}
	return described
}
