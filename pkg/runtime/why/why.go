package why

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/journal"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Query asks about one object.
type Query struct {
	// Type is a resource as in kubectl: deployment, deploy, deployments.apps. Case does not matter.
	Type string
	// Namespace is that of the object; ignored if objects of the type have none.
	Namespace string
	Name      string
	// Last is how many writes are shown at most. Default: 20.
	Last int
}

const defaultLast = 20

// Sources are what answers are made from. All are safe for concurrent use.
type Sources struct {
	Journal *journal.Journal
	// Controllers are the states of all controllers, Keys what they hold.
	Controllers func() []supervisor.Status
	Keys        func(wanted func(key string) bool) map[string][]controller.LoopKey
	Leadership  func() leadership.Status
	// Reads are the resources that a controller reads; everything is true if it reads any.
	Reads func(name string) (resources []schema.GroupResource, everything bool)
	// Served are the resources of the API server, none if that is not known yet.
	Served func() []*metav1.APIResourceList
	// Caches are nil if there is no connection.
	Caches func() Caches
	// Stops are the kinds of which nothing is deleted.
	Stops func() []breaker.Stop
	// Rejected is why the content of the configuration file is not in force, empty if it is.
	Rejected func() string
	// Unreached is why the API server could not be asked last what it serves, empty if it could.
	Unreached func() string
	Clock     clock.PassiveClock
}

// Caches are those of informers.
type Caches interface {
	Lookup(resource schema.GroupResource, namespace, name string) (object metav1.Object, certain bool)
	// Problem is why a cache of the resource does not hold what it should, empty if none is known.
	Problem(resource schema.GroupResource) string
	Visit(namespace string, visit func(schema.GroupResource, metav1.Object))
}

// Answer is what is known.
type Answer struct {
	// Object is the object, as resource, namespace and name.
	Object Object `json:"object"`
	// Findings say in sentences what keeps something from happening.
	Findings []string `json:"findings"`
	// Controllers are those that are concerned with it, sorted by name.
	Controllers []Controller `json:"controllers"`
	// Keys are what queues hold of it.
	Keys []Key `json:"keys"`
	// Writes are the last ones, the oldest first. Earlier counts those that are not shown.
	Writes  []Write `json:"writes"`
	Earlier int     `json:"earlier"`
	// Since is when the oldest write of all that is remembered was made; zero if there is none.
	Since time.Time `json:"since,omitzero"`
	// Asked is when the answer was made.
	Asked time.Time `json:"asked"`
}

// Object names an object.
type Object struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Controller is the state of a controller.
type Controller struct {
	Name   string           `json:"name"`
	State  supervisor.State `json:"state"`
	Reason string           `json:"reason,omitempty"`
}

// Key is a key in a queue of a controller.
type Key struct {
	Controller string `json:"controller"`
	controller.LoopKey
}

// Write is a write of a controller.
type Write struct {
	Time       time.Time `json:"time"`
	Controller string    `json:"controller"`
	Queue      string    `json:"queue,omitempty"`
	// Key and Trigger are what the controller worked on, and why.
	Key     string `json:"key,omitempty"`
	Trigger string `json:"trigger,omitempty"`
	Verb    string `json:"verb"`
	Object  Object `json:"object"`
	// Subresource is empty for the object itself.
	Subresource string `json:"subresource,omitempty"`
	// Code is the HTTP status of the response, 0 if there was none, and Error why it failed.
	Code  int     `json:"code"`
	Error string  `json:"error,omitempty"`
	Took  float64 `json:"tookSeconds"`
	// Generation is that of the configuration in force, Term the number of the term of the lease,
	// 0 for a controller that runs without one.
	Generation uint64 `json:"generation"`
	Term       uint64 `json:"term"`
}

// Ask answers a query. It fails if the type is unknown.
func (s Sources) Ask(q Query) (*Answer, error) {
	subject, err := resolve(s.Served(), q)
	if err != nil {
		return nil, err
	}
	if q.Last <= 0 {
		q.Last = defaultLast
	}
	a := &Answer{Object: objectOf(subject.Target), Asked: s.Clock.Now(), Findings: []string{}, Controllers: []Controller{}, Keys: []Key{}, Writes: []Write{}}
	family := s.familyOf(subject)
	concerned := s.writes(a, family, q.Last)
	s.keys(a, family, concerned)
	s.controllers(a, family, concerned)
	s.find(a, subject)
	return a, nil
}

// writes fills in the last writes, and returns which controllers made some.
func (s Sources) writes(a *Answer, f *family, last int) (by map[string]bool) {
	by = map[string]bool{}
	for _, r := range f.records {
		if f.has(r.Target) {
			by[r.Controller] = true
			a.Writes = append(a.Writes, writeOf(r))
		}
	}
	slices.SortStableFunc(a.Writes, func(x, y Write) int { return x.Time.Compare(y.Time) })
	a.Earlier = max(0, len(a.Writes)-last)
	a.Writes = a.Writes[a.Earlier:]
	a.Since = f.since
	return by
}

func writeOf(r journal.Record) Write {
	return Write{
		Time: r.Began, Controller: r.Controller, Queue: r.Queue, Key: r.Key, Trigger: r.Trigger, Verb: r.Verb, Object: objectOf(r.Target),
		Subresource: r.Subresource, Code: r.Code, Error: r.Message, Took: r.Took.Seconds(), Generation: r.Generation, Term: r.Term,
	}
}

func objectOf(t clients.Target) Object {
	return Object{Resource: t.Resource.String(), Namespace: t.Namespace, Name: t.Name}
}

// keys fills in what queues hold, and adds the controllers that do to those concerned.
func (s Sources) keys(a *Answer, f *family, concerned map[string]bool) {
	held := s.Keys(func(key string) bool { return len(f.keys[key]) > 0 })
	for name, keys := range held {
		for _, k := range keys {
			if s.readsAny(name, f.keys[k.Key]) {
				concerned[name] = true
				a.Keys = append(a.Keys, Key{Controller: name, LoopKey: k})
			}
		}
	}
	slices.SortFunc(a.Keys, compareKeys)
}

func (s Sources) readsAny(name string, resources map[schema.GroupResource]bool) bool {
	reads, everything := s.Reads(name)
	return everything || slices.ContainsFunc(reads, func(r schema.GroupResource) bool { return resources[r] })
}

// controllers fills in the states of those that are concerned.
func (s Sources) controllers(a *Answer, f *family, concerned map[string]bool) {
	for _, c := range s.Controllers() {
		reads, _ := s.Reads(c.Name)
		if !concerned[c.Name] && !slices.ContainsFunc(reads, func(r schema.GroupResource) bool { return f.resources[r] }) {
			continue
		}
		shown := Controller{Name: c.Name, State: c.State, Reason: c.Reason}
		if _, problem := c.Healthy(); problem != "" {
			shown.Reason = problem
		}
		a.Controllers = append(a.Controllers, shown)
	}
}
