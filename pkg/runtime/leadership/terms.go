package leadership

import (
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
)

// Terms are those in which this process holds locks, at one moment.
type Terms struct {
	byNumber     map[uint64]*election.Term
	byController map[string]*election.Term
	barriers     map[string]*takeover.Barrier
}

// Term is the term with a number, nil if it is over.
func (t Terms) Term(number uint64) *election.Term { return t.byNumber[number] }

// OfController is the term under which a controller records events: that in which it is
// allowed to run or, while it still stops, the one in which it ran. Nil if there is none.
func (t Terms) OfController(name string) *election.Term { return t.byController[name] }

// BarrierOf returns what a controller waits for before it begins, nil for nothing.
func (t Terms) BarrierOf(name string) *takeover.Barrier { return t.barriers[name] }

// Terms returns the terms of some locks, and of what is still stopping under others.
func (l *Leadership) Terms(locks []*Lock) Terms {
	all := Terms{
		byNumber:     map[uint64]*election.Term{},
		byController: map[string]*election.Term{},
		barriers:     map[string]*takeover.Barrier{},
	}
	for _, k := range l.all() {
		if k.term == nil {
			continue
		}
		for _, c := range k.admission.Active() {
			all.byController[c] = k.term
		}
	}
	for _, k := range locks {
		if k.term == nil {
			continue
		}
		all.byNumber[k.number] = k.term
		for _, c := range k.Controllers {
			if k.elector == nil || k.admission.Granted(c) {
				all.byController[c] = k.term
				all.barriers[c] = k.barrierOf(c)
			}
		}
	}
	return all
}
