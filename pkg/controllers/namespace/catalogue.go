package namespace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

// maxAge bounds how long one discovery is used. A namespace that is stuck for longer then
// includes types that were restored in the meantime.
const maxAge = time.Minute

// discoverer is the part of a discovery client that is used.
type discoverer interface {
	ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error)
}

// resourceTypes are the types to sweep, with the verbs that each supports.
type resourceTypes map[schema.GroupVersionResource]metav1.Verbs

// discovered is the result of one discovery.
type discovered struct {
	began, ended time.Time
	types        resourceTypes
	// failed is why types may be missing, unparsable why all of them are.
	failed, unparsable error
}

// catalogue shares one discovery between the namespaces that it is new enough for.
type catalogue struct {
	server discoverer
	clock  clock.PassiveClock
	// isServed reports whether a custom type is served that discovery does not show.
	isServed func(context.Context, schema.GroupResource) (bool, error)

	mu    sync.Mutex
	last  discovered
	shown shownTypes
}

func newCatalogue(
	server discoverer, c clock.PassiveClock, isServed func(context.Context, schema.GroupResource) (bool, error),
) *catalogue {
	return &catalogue{server: server, clock: c, isServed: isServed, shown: shownTypes{}}
}

// since returns a discovery that began late enough to hold every type with content in a
// namespace whose deletion was seen at the given time.
func (c *catalogue) since(ctx context.Context, seen time.Time) discovered {
	asked := c.clock.Now()
	// Callers that wait here for a discovery in progress can usually use it.
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if !c.last.serves(seen, asked, now) {
		c.last = discover(c.server)
		if c.last.failed == nil && c.last.unparsable == nil {
			c.last.failed = c.shown.note(c.last.types, now, func(of schema.GroupResource) (bool, error) {
				return c.isServed(ctx, of)
			})
		}
		c.last.began, c.last.ended = now, c.clock.Now()
	}
	return c.last
}

// serves reports whether a discovery may be used now for a namespace whose deletion was seen at some time. It must have
// begun when nothing could be created in the namespace any more, or a type that appeared just before would be missed.
// An incomplete one may be used only by callers that asked before it ended: another one is needed, but not one for each
// of them.
func (d discovered) serves(seen, asked, now time.Time) bool {
	if d.began.IsZero() || d.began.Before(seen.Add(settleTime)) {
		return false
	}
	if d.failed != nil || d.unparsable != nil {
		return d.ended.After(asked)
	}
	return now.Sub(d.began) < maxAge
}

var errNothingDiscovered = errors.New("discovery returned no resources")

// discover returns the types that can be deleted from a namespace. Types are missing if it
// fails in part.
func discover(server discoverer) discovered {
	lists, err := server.ServerPreferredNamespacedResources()
	if err == nil && len(lists) == 0 {
		// Accepting an empty discovery would finalize namespaces with all their content.
		err = errNothingDiscovered
	}
	deletable := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists)
	resources, unparsable := discovery.GroupVersionResources(deletable)
	found := resourceTypes{}
	for resource := range resources {
		found[resource] = verbsOf(deletable, resource)
	}
	return discovered{types: found, failed: err, unparsable: unparsable}
}

func verbsOf(lists []*metav1.APIResourceList, resource schema.GroupVersionResource) metav1.Verbs {
	for _, list := range lists {
		if list.GroupVersion != resource.GroupVersion().String() {
			continue
		}
		for _, r := range list.APIResources {
			if r.Name == resource.Resource {
				return r.Verbs
			}
		}
	}
	return nil
}

// supports reports whether discovery lists a verb for a type.
func (t resourceTypes) supports(resource schema.GroupVersionResource, verb string) bool {
	return slices.Contains(t[resource], verb)
}
