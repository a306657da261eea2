package claims

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The model: processes that hold leases, read files at different moments, lose contact and
// come back. What they decide is decided by the code under test; what the API server and
// elections do is modelled in a few lines. A step is what happens at one instant, and the
// order of steps is arbitrary.

const (
	tick       = time.Second
	lasts      = 8 * tick // lease duration
	deadlineIn = 5 * tick // renew deadline
)

// world is the API server and the time.
type world struct {
	now     time.Time
	stored  map[Lease]*coordinationv1.Lease
	version int
	renewed map[Lease]time.Time
	main    Lease // the lease that a stranger takes; none if it is empty
	procs   []*proc
	log     []string
}

// file is one version of the configuration: the lease of each controller.
type file map[string]Lease

// proc is one process.
type proc struct {
	w        *world
	name     string
	file     file
	cut      bool // it does not reach the API server
	locks    map[Lease]*held
	observer Observer
	runs     map[string]Lease      // its instances, and the lock each started under
	stops    map[string]bool       // those that were told to stop
	main     *coordinationv1.Lease // as its elector has seen it last
}

// held is a lease from the view of one process.
type held struct {
	admission *Admission
	leading   bool
	until     time.Time // end of the term
	written   []string  // the claim that is stored; valid while leading
	asked     bool
	question  Question
	answer    []coordinationv1.Lease // nil while there is no answer yet
	read      time.Time
	seen      string // version last seen by a standby
	since     time.Time
}

func newWorld(processes int, first file, leases []Lease) *world {
	w := &world{now: time.Unix(1000, 0), stored: map[Lease]*coordinationv1.Lease{}, renewed: map[Lease]time.Time{}}
	for _, l := range leases {
		w.stored[l] = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
	}
	for n := range processes {
		p := &proc{w: w, name: fmt.Sprintf("p%d", n), locks: map[Lease]*held{}, runs: map[string]Lease{}, stops: map[string]bool{}}
		for _, l := range leases {
			p.locks[l] = &held{admission: NewAdmission(l)}
		}
		p.load(first)
		w.procs = append(w.procs, p)
	}
	return w
}

func (w *world) say(format string, args ...any) {
	w.log = append(w.log, w.now.Format("05 ")+fmt.Sprintf(format, args...))
}

// write stores a lease.
func (w *world) write(l Lease, holder string, claim []string) {
	w.version++
	w.renewed[l] = w.now
	lease := w.stored[l]
	lease.ResourceVersion = fmt.Sprint(w.version)
	lease.Spec.HolderIdentity = ptr.To(holder)
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(lasts / time.Second))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(int64(w.version), 0)}
	if holder != stranger {
		lease.Annotations = Annotations(holder, claim)
	}
}

// stranger holds the main lease, runs everything and knows no claims.
const stranger = "stranger"

// intrude has the stranger renew the main lease, or take it if it is free or has expired.
func (w *world) intrude() {
	holder := ptr.Deref(w.stored[w.main].Spec.HolderIdentity, "")
	if holder != "" && holder != stranger && w.now.Sub(w.renewed[w.main]) < lasts {
		return
	}
	w.say("the stranger holds %s", w.main.Name)
	w.write(w.main, stranger, nil)
}

// leave has the stranger give the main lease back.
func (w *world) leave() {
	if ptr.Deref(w.stored[w.main].Spec.HolderIdentity, "") == stranger {
		w.say("the stranger gives %s back", w.main.Name)
		w.write(w.main, "", nil)
	}
}

// running are the processes with an instance of a controller that may write.
func (w *world) running(controller string) []string {
	var all []string
	for _, p := range w.procs {
		if l, runs := p.runs[controller]; runs && p.valid(l) {
			all = append(all, p.name+" under "+l.Name)
		}
	}
	return all
}

func (p *proc) valid(l Lease) bool { return p.locks[l].leading && p.w.now.Before(p.locks[l].until) }

// load is the process reading a version of the file.
func (p *proc) load(f file) {
	p.file = f
	for l, h := range p.locks {
		var wanted []string
		for c, of := range f {
			if of == l {
				wanted = append(wanted, c)
			}
		}
		h.admission.Want(wanted)
	}
	p.w.say("%s reads %v", p.name, f)
	p.follow()
}

// follow makes the instances what they should be, as the supervisor does.
func (p *proc) follow() {
	for l, h := range p.locks {
		if h.leading && !p.valid(l) {
			h.leading, h.asked, h.answer = false, false, nil
			h.admission.Lost()
			p.w.say("%s loses %s", p.name, l.Name)
		}
	}
	for c, l := range p.runs {
		if p.file[c] != l || !p.valid(l) || !p.locks[l].admission.Granted(c) {
			p.stops[c] = true
		}
	}
	for c, l := range p.file {
		if _, runs := p.runs[c]; !runs && p.valid(l) && p.locks[l].admission.Granted(c) {
			p.runs[c] = l
			p.locks[l].admission.Started(c)
			p.w.say("%s starts %s under %s", p.name, c, l.Name)
		}
	}
}

// stopped is the end of an instance that was told to stop.
func (p *proc) stopped(c string) {
	l := p.runs[c]
	delete(p.runs, c)
	delete(p.stops, c)
	p.locks[l].admission.Stopped(c)
	p.w.say("%s has stopped %s under %s", p.name, c, l.Name)
	p.follow()
}

// heed ends the terms of all leases but the main one while a stranger holds that.
func (p *proc) heed() {
	if p.observer.Stranger(p.main, p.name, p.w.now) == "" {
		return
	}
	for l, h := range p.locks {
		if l != p.w.main && p.valid(l) && h.admission.Grants() {
			p.w.say("%s ends its term of %s", p.name, l.Name)
			h.until = p.w.now
		}
	}
}

// elect is one move of the election: renewing, or taking a lease that is free or expired.
func (p *proc) elect(l Lease) {
	h, stored := p.locks[l], p.w.stored[l]
	if l == p.w.main {
		p.main = stored.DeepCopy()
		p.heed()
		p.follow()
	}
	if h.seen != stored.ResourceVersion {
		h.seen, h.since = stored.ResourceVersion, p.w.now
	}
	holder := ptr.Deref(stored.Spec.HolderIdentity, "")
	mine := holder == p.name
	switch {
	case mine && p.valid(l):
	case mine, holder == "", p.w.now.Sub(h.since) >= lasts:
		h.leading = false
		h.admission.Lost()
		h.asked, h.answer = false, nil
		p.w.say("%s takes %s", p.name, l.Name)
	default:
		return
	}
	h.written = h.admission.Claim()
	p.w.write(l, p.name, h.written)
	h.leading, h.until = true, p.w.now.Add(deadlineIn)
}

// inquire is one move of asking: to ask and read if the claim is stored, or to take the answer.
func (p *proc) inquire(l Lease) {
	h := p.locks[l]
	switch {
	case !p.valid(l) || !h.admission.Pending():
	case !h.asked:
		if slices.Equal(h.written, h.admission.Claim()) && !p.cut {
			h.asked, h.question, h.read = true, h.admission.Ask(), p.w.now
			for _, stored := range p.w.stored {
				h.answer = append(h.answer, *stored.DeepCopy())
			}
		}
	default:
		live := p.observer.Live(h.answer, p.name, p.w.main, h.read)
		h.asked, h.answer = false, nil
		h.admission.Answer(h.question, live)
		if blocked := h.admission.Blocked(); len(blocked) > 0 {
			p.w.say("%s waits under %s: %v", p.name, l.Name, blocked)
		}
		p.heed()
		p.follow()
	}
}

// release gives back a lease under which nothing runs.
func (p *proc) release(l Lease) {
	h := p.locks[l]
	if p.cut || !p.valid(l) || len(h.admission.Active()) > 0 {
		return
	}
	h.leading, h.asked, h.answer = false, false, nil
	h.admission.Lost()
	p.w.write(l, "", nil)
	p.w.say("%s gives %s back", p.name, l.Name)
}

// check fails unless each controller has at most one owner.
func (w *world) check(t *testing.T, controllers []string) {
	t.Helper()
	for _, c := range controllers {
		if owners := w.running(c); len(owners) > 1 {
			t.Fatalf("%s has the owners %v:\n%v", c, owners, join(w.log))
		}
	}
}

func join(lines []string) string {
	var all string
	for _, l := range lines[max(0, len(lines)-60):] {
		all += l + "\n"
	}
	return all
}

// settle lets everybody work in turn, with no trouble, for a while. The last of the files is
// that of all further processes.
func (w *world) settle(t *testing.T, controllers []string, final ...file) {
	t.Helper()
	for n, p := range w.procs {
		p.cut = false
		p.load(final[min(n, len(final)-1)])
	}
	for range 40 {
		w.now = w.now.Add(tick)
		for _, p := range w.procs {
			p.follow()
			for _, l := range slices.SortedFunc(maps.Keys(p.locks), func(a, b Lease) int { return int(a.Name[1]) - int(b.Name[1]) }) {
				p.elect(l)
				p.inquire(l)
				p.inquire(l)
				w.check(t, controllers)
			}
			for c := range maps.Clone(p.stops) {
				p.stopped(c)
			}
		}
		w.check(t, controllers)
	}
	for _, c := range controllers {
		if len(w.running(c)) != 1 {
			t.Fatalf("%s is not running in the end:\n%v", c, join(w.log))
		}
	}
}

func leasesOf(n int) []Lease {
	var all []Lease
	for i := range n {
		all = append(all, Lease{Namespace: "kube-system", Name: fmt.Sprintf("l%d", i)})
	}
	return all
}
