package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const (
	// staleFor is how long a cache shows the past.
	staleFor = 1500 * time.Millisecond
	// unseenFor is how long a cache does not see what happens before it sees only the end.
	unseenFor = 700 * time.Millisecond
	// firstWrite is how long a step may take until the controllers write something.
	firstWrite = 500 * time.Millisecond
)

// fault is one fault in one run.
type fault struct {
	pattern string // what kind of fault
	detail  string // at which write, or of which kind in which step
	// standby is whether another manager stands by from the beginning.
	standby bool
	// begin is called before the script, when the manager runs; nil does nothing.
	begin func(*run)
	// step is called before a step, which is counted from 0; nil does nothing.
	step func(*run, int)
}

func (f *fault) name() string { return strings.ReplaceAll(f.pattern+"/"+f.detail, " ", "-") }

// faultsOf lists all faults of a scenario, as its reference run tells them.
func faultsOf(s *Scenario, reference outcome) []fault {
	var all []fault
	alike, hasWorkers := map[string]int{}, s.hasWorkers()
	for _, w := range reference.writes {
		text := w.String()
		alike[text]++
		n, detail := alike[text], fmt.Sprintf("%s %d", text, alike[text])
		for _, f := range faultsAt(w, n, detail) {
			if !slices.Contains(forGood, f.pattern) || !slices.Contains(s.Final, text) {
				all = append(all, f)
			}
		}
		if hasWorkers {
			all = append(all, fault{pattern: "restarted", detail: detail, begin: func(r *run) { r.editAt(w, n, moreWorkers) }})
		}
	}
	for _, kind := range reference.reads {
		if len(s.Reads) > 0 && !slices.Contains(s.Reads, kind) {
			continue
		}
		for step := range s.Steps {
			all = append(all, staleness(kind, step, fmt.Sprintf("%s in step %d", kind, step+1))...)
		}
	}
	return all
}

// faultsAt are the faults at the n-th of the writes that are like w. The order of writes to different resources
// depends on chance, so that a number among all writes would tell nothing.
func faultsAt(w write, n int, detail string) []fault {
	all := []fault{
		{pattern: "killed before", detail: detail, begin: func(r *run) { r.killAt(w, n, faultproxy.Before) }},
		{pattern: "killed after", detail: detail, begin: func(r *run) { r.killAt(w, n, faultproxy.After) }},
		{pattern: "off and on", detail: detail, begin: func(r *run) { r.editAt(w, n, r.scenario.switched(false), r.scenario.switched(true)) }},
		{pattern: "handed over", detail: detail, standby: true, begin: func(r *run) { r.handOverAt(w, n) }},
		{pattern: "answer lost", detail: detail, begin: func(r *run) { r.first().proxy.LoseAnswers(r.nth(w, n)) }},
	}
	for _, refusal := range refusals(w) {
		all = append(all, fault{pattern: refusal.name, detail: detail, begin: func(r *run) { r.first().proxy.Refuse(r.nth(w, n), &refusal.status.ErrStatus) }})
	}
	return all
}

// forGood are the refusals that do not pass by themselves.
var forGood = []string{"invalid", "forbidden", "denied by a webhook"}

// refusal is one way in which the API server refuses a write.
type refusal struct {
	name   string
	status *apierrors.StatusError
}

func refusals(w write) []refusal {
	resource := w.resource
	conflict := apierrors.NewConflict(resource, w.name, errors.New("the object has been modified"))
	if w.verb == "create" {
		conflict = apierrors.NewConflict(resource, w.name, errors.New("object is being changed"))
	}
	webhook := apierrors.NewForbidden(resource, w.name, errors.New("no"))
	webhook.ErrStatus.Message = `admission webhook "faults.kcmd.dev" denied the request: no`
	return []refusal{
		{"conflict", conflict},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Group: resource.Group, Kind: resource.Resource}, w.name, nil)},
		{"forbidden", apierrors.NewForbidden(resource, w.name, errors.New("no"))},
		{"too many requests", apierrors.NewTooManyRequests("slow down", 1)},
		{"internal error", apierrors.NewInternalError(errors.New("no"))},
		{"denied by a webhook", webhook},
	}
}

// staleness are the faults of the cache of a kind in a step.
func staleness(kind string, step int, detail string) []fault {
	at := func(do func(*run, faultproxy.Requests)) func(*run, int) {
		return func(r *run, now int) {
			if now == step {
				do(r, faultproxy.Requests{Client: "informers", Resource: schema.ParseGroupResource(kind)})
			}
		}
	}
	return []fault{
		{pattern: "behind", detail: detail, step: at((*run).leaveBehind)},
		{pattern: "unobserved", detail: detail, step: at((*run).keepUnobserved)},
		{pattern: "restarted in the past", detail: detail, step: at((*run).restartInThePast)},
		{pattern: "taken over behind", detail: detail, standby: true, step: at((*run).takeOverBehind)},
	}
}

// killAt ends the first manager at a write, and has another one begin then.
func (r *run) killAt(w write, n int, m faultproxy.Moment) {
	first := r.first()
	f := first.proxy.Sever(r.nth(w, n), m)
	meanwhile(r, f.Hit(), func() error {
		r.abandon(first)
		_, err := r.join(r.newProxy())
		return err
	})
}

// editAt changes the configuration when a write comes.
func (r *run) editAt(w write, n int, changes ...func(*manager.Config)) {
	first := r.first()
	meanwhile(r, first.proxy.Record(r.like(w)).Arrived(n), func() error {
		for _, change := range changes {
			if err := first.Edit(r.ctx, change); err != nil {
				return err
			}
		}
		return nil
	})
}

// handOverAt ends the leader in the ordinary way when a write comes.
func (r *run) handOverAt(w write, n int) {
	first := r.first()
	meanwhile(r, first.proxy.Record(r.like(w)).Arrived(n), first.Stop)
}

func (r *run) leaveBehind(kind faultproxy.Requests) {
	f := r.first().proxy.HoldEvents(kind)
	meanwhile(r, time.After(staleFor), func() error { f.Lift(); return nil })
}

// keepUnobserved has the cache filled again by a list after a time in which it saw nothing.
func (r *run) keepUnobserved(kind faultproxy.Requests) {
	first := r.first()
	hold := first.proxy.HoldEvents(kind)
	meanwhile(r, time.After(unseenFor), func() error {
		watches := kind
		watches.Verbs = []string{"watch"}
		expired := first.proxy.Refuse(watches, &apierrors.NewResourceExpired("too old resource version").ErrStatus)
		first.proxy.Cut()
		hold.Lift()
		defer expired.Lift()
		return r.await("the watch of "+kind.Resource.String()+" is refused", func() error {
			if expired.Hits() == 0 {
				return errors.New("it was not opened")
			}
			return nil
		})
	})
}

// restartInThePast kills the manager when it has begun to react to a step, and has another one begin with lists
// from before the step.
func (r *run) restartInThePast(kind faultproxy.Requests) {
	first, proxy := r.first(), r.newProxy()
	past := kind
	past.FromCache = true
	faults := []*faultproxy.Fault{proxy.AnswerFromPast(r.ctx, past), proxy.HoldEvents(kind)}
	meanwhile(r, r.reaction(first), func() error {
		first.proxy.Pause()
		r.abandon(first)
		meanwhile(r, time.After(staleFor), func() error {
			for _, f := range faults {
				f.Lift()
			}
			return nil
		})
		_, err := r.join(proxy)
		return err
	})
}

// takeOverBehind ends the leader when it has begun to react to a step that its successor does not see yet.
func (r *run) takeOverBehind(kind faultproxy.Requests) {
	first, second := r.replicas[0], r.replicas[1]
	f := second.proxy.HoldEvents(kind)
	meanwhile(r, r.reaction(first), func() error {
		meanwhile(r, time.After(staleFor), func() error { f.Lift(); return nil })
		return first.Stop()
	})
}

// hasWorkers reports whether the number of workers of a controller can be changed, which restarts it.
func (s *Scenario) hasWorkers() bool {
	c := v1beta1.NewDefault()
	harness.Only(s.Controllers)(c)
	return len(workersOf(c)) > 0
}

// moreWorkers restarts the controllers that have workers.
func moreWorkers(c *manager.Config) {
	for _, workers := range workersOf(c) {
		**workers++
	}
}

// write is a request of a controller that changes something.
type write struct {
	verb        string
	resource    schema.GroupResource
	subresource string
	name        string
}

func (w write) String() string {
	text := w.verb + " " + w.resource.Resource
	if w.subresource != "" {
		text += " " + w.subresource
	}
	return text
}

func writesOf(entries []faultproxy.Entry) []write {
	var all []write
	for _, e := range entries {
		all = append(all, write{e.Verb, e.Resource, e.Subresource, e.Name})
	}
	return all
}

// readsOf lists the kinds that were watched.
func readsOf(entries []faultproxy.Entry) []string {
	var all []string
	for _, e := range entries {
		if kind := e.Resource.String(); !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	slices.Sort(all)
	return all
}
