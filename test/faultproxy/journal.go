package faultproxy

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Entry is a request that came.
type Entry struct {
	Client, User, Verb string
	Resource           schema.GroupResource
	Subresource        string
	Namespace, Name    string
	// Code is that of the answer, 0 without one.
	Code int
}

// Journal is a record of requests, in the order in which they came.
type Journal struct {
	requests Requests

	mu      sync.Mutex
	entries []*Entry
	arrived map[int]chan struct{} // by the number of requests; closed when there are as many
}

// Record records the requests that r selects from now on, refused and held ones included.
func (p *Proxy) Record(r Requests) *Journal {
	j := &Journal{requests: r, arrived: map[int]chan struct{}{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journals = append(p.journals, j)
	return j
}

// Entries returns what has come so far.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]Entry, 0, len(j.entries))
	for _, e := range j.entries {
		all = append(all, *e)
	}
	return all
}

// Arrived is closed when n requests have come.
func (j *Journal) Arrived(n int) <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	arrived := j.arrived[n]
	if arrived == nil {
		arrived = make(chan struct{})
		j.arrived[n] = arrived
		if len(j.entries) >= n {
			close(arrived)
		}
	}
	return arrived
}

// note records a request, and returns what is to be told its answer.
func (p *Proxy) note(a attributes) (answered func(code int)) {
	p.mu.Lock()
	journals := slices.Clone(p.journals)
	p.mu.Unlock()
	var noted []func(code int)
	for _, j := range journals {
		if j.requests.match(a) {
			noted = append(noted, j.note(a))
		}
	}
	return func(code int) {
		for _, n := range noted {
			n(code)
		}
	}
}

func (j *Journal) note(a attributes) (answered func(code int)) {
	e := &Entry{
		Client: a.client, User: a.user, Verb: a.verb,
		Resource: a.resource, Subresource: a.subresource, Namespace: a.namespace, Name: a.name,
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	if arrived := j.arrived[len(j.entries)]; arrived != nil {
		close(arrived)
	}
	return func(code int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		e.Code = code
	}
}
