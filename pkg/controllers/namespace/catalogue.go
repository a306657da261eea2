package namespace

import (
	"errors"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
)

const (
	// propagation is the time that a type which was served when the deletion was seen
	// may take to show up in the discovery of every API server.
	propagation = time.Second

	// maxAge bounds how long one discovery is used. A namespace that is stuck for longer
	// learns of types that came back meanwhile.
	maxAge = time.Minute
)

// discoverer is the part of a discovery client that is used.
type discoverer interface {
	ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error)
}

// resourceTypes are what there is to sweep, with the verbs that each type supports.
type resourceTypes map[schema.GroupVersionResource]metav1.Verbs

// discovered is the result of one discovery.
type discovered struct {
	began, ended time.Time
	types        resourceTypes
	// failed says why types may be missing, unparsable why all of them are.
	failed, unparsable error
}

// catalogue shares one discovery between the namespaces that it is new enough for.
type catalogue struct {
	server discoverer
	clock  clock.PassiveClock

	mu   sync.Mutex
	last discovered
}

func newCatalogue(server discoverer, c clock.PassiveClock) *catalogue {
	return &catalogue{server: server, clock: c}
}

// since returns a discovery that began late enough to hold every type with content in a
// namespace whose deletion was seen at the given time.
func (c *catalogue) since(seen time.Time) discovered {
	asked := c.clock.Now()
	// Those who wait here for a discovery in progress will mostly be served by it.
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if !c.last.serves(seen, asked, now) {
		c.last = discover(c.server)
		c.last.began, c.last.ended = now, c.clock.Now()
	}
	return c.last
}

// serves says whether a discovery may be used now for a namespace whose deletion was seen
// at some time. An incomplete one serves only those who had asked before it ended: another
// one is due, but not one for each of them.
func (d discovered) serves(seen, asked, now time.Time) bool {
	if d.began.IsZero() || d.began.Before(seen.Add(propagation)) {
		return false
	}
	if d.failed != nil || d.unparsable != nil {
		return d.ended.After(asked)
	}
	return now.Sub(d.began) < maxAge
}

var errNothingDiscovered = errors.New("discovery returned no resources")

// discover asks the server for everything that can be deleted from a namespace. Types are
// missing if it fails in part.
func discover(server discoverer) discovered {
	lists, err := server.ServerPreferredNamespacedResources()
	if err == nil && len(lists) == 0 {
		// Believing this would let go of namespaces with all their content.
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

// supports says whether a type is known to support a verb.
func (t resourceTypes) supports(resource schema.GroupVersionResource, verb string) bool {
	return slices.Contains(t[resource], verb)
}
