package claims

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Whatever happens in whatever order: no controller has two owners, and when things calm
// down each has one.
// Pins MGR-174.
func TestNoControllerHasTwoOwners(t *testing.T) {
	controllers := []string{"a", "b", "c"}
	leases := leasesOf(3)
	runs := 60
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		anyFile := func() file {
			f := file{}
			for _, c := range controllers {
				f[c] = leases[random.IntN(len(leases))]
			}
			return f
		}
		current := anyFile()
		w := newWorld(2+random.IntN(2), current, leases)
		for range 600 {
			p := w.procs[random.IntN(len(w.procs))]
			l := leases[random.IntN(len(leases))]
			switch n := random.IntN(100); {
			case n < 12:
				w.now = w.now.Add(tick)
			case n < 15:
				current = anyFile()
			case n < 20:
				p.load(current)
			case n < 24:
				p.cut = !p.cut
			case n < 26:
				p.release(l)
			case n < 60:
				if !p.cut {
					p.elect(l)
				}
			case n < 90:
				p.inquire(l)
			default:
				for c := range p.stops {
					p.stopped(c)
					break
				}
			}
			for _, p := range w.procs {
				p.follow()
			}
			w.check(t, controllers)
		}
		w.settle(t, controllers, current)
	}
}

// A stranger takes the main lease while leases move and things run under all of them. Whoever has seen it runs nothing, whatever was asked before, and all is well when it
// has gone.
func TestNothingRunsBesideAStranger(t *testing.T) {
	controllers := []string{"a", "b", "c"}
	leases := leasesOf(3)
	runs, ended := 60, 0
	if testing.Short() {
		runs = 20
	}
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 2))
		spread := file{"a": leases[0], "b": leases[1], "c": leases[2]}
		w := newWorld(2, spread, leases)
		w.main = leases[0]
		for range 600 {
			p := w.procs[random.IntN(len(w.procs))]
			l := leases[random.IntN(len(leases))]
			switch n := random.IntN(100); {
			case n < 12:
				w.now = w.now.Add(tick)
			case n < 15:
				w.intrude()
			case n < 18:
				w.leave()
			case n < 20:
				p.release(l)
			case n < 60:
				p.elect(l)
				ended += p.besideStranger(t, l)
			case n < 90:
				p.inquire(l)
			default:
				for c := range p.stops {
					p.stopped(c)
					break
				}
			}
			for _, p := range w.procs {
				p.follow()
			}
			w.check(t, controllers)
		}
		w.leave()
		w.settle(t, controllers, spread)
	}
	if ended < runs {
		t.Errorf("in %d runs a stranger was seen %d times: the test does not test", runs, ended)
	}
}

// besideStranger fails if a process runs something although it has seen a stranger that lives.
func (p *proc) besideStranger(t *testing.T, seen Lease) int {
	t.Helper()
	if seen != p.w.main || p.observer.Stranger(p.w.stored[seen], p.name, p.w.now) == "" {
		return 0
	}
	for c, l := range p.runs {
		if p.valid(l) && !p.stops[c] { // what drains is fenced by the term that has ended
			t.Fatalf("%s runs %s under %s beside the stranger:\n%v", p.name, c, l.Name, join(p.w.log))
		}
	}
	return 1
}

// Every order in which two holders can read a new file, claim, look and stop, to a depth.
func TestEveryInterleavingOfAMove(t *testing.T) {
	const depth = 10
	controllers := []string{"a"}
	leases := leasesOf(2)
	for from, to := range map[Lease]Lease{leases[0]: leases[1], leases[1]: leases[0]} {
		for order := range 1 << depth {
			before, after := file{"a": from}, file{"a": to}
			w := newWorld(2, before, leases)
			for n, p := range w.procs { // p0 holds the first lease, p1 the second
				p.elect(leases[n])
				p.inquire(leases[n])
				p.inquire(leases[n])
			}
			w.check(t, controllers)
			for step := range depth {
				p := w.procs[order>>step&1]
				p.advance(after)
				w.check(t, controllers)
			}
			w.settle(t, controllers, after)
		}
	}
}

// Two holders whose files differ for good both claim a controller: neither has it at first, and
// one of them gets it, in every order of events.
func TestClaimantsDoNotWaitForEachOtherForEver(t *testing.T) {
	const depth = 8
	controllers := []string{"a"}
	leases := leasesOf(2)
	for order := range 1 << depth {
		w := newWorld(2, file{}, leases)
		for n, p := range w.procs {
			p.elect(leases[n])
		}
		files := []file{{"a": leases[0]}, {"a": leases[1]}}
		for step := range depth {
			n := order >> step & 1
			w.procs[n].advance(files[n])
			w.check(t, controllers)
		}
		w.settle(t, controllers, files...)
	}
}

// A controller moves to another lease, and somebody deletes the one that it has left, as no file names it any more. The
// process that has not read that file makes the lease again and goes on: the other one waits all the time.
// Pins MGR-252.
func TestALeaseIsDeletedWhileItsHolderRuns(t *testing.T) {
	controllers, leases := []string{"a"}, leasesOf(2)
	for from, to := range map[Lease]Lease{leases[0]: leases[1], leases[1]: leases[0]} {
		before, after := file{"a": from}, file{"a": to}
		w := newWorld(2, before, leases)
		for n, l := range []Lease{from, to} {
			w.procs[n].elect(l)
			w.procs[n].inquire(l)
			w.procs[n].inquire(l)
		}
		w.procs[1].load(after)
		claims := func() {
			for range 2 { // to ask, and to be answered
				w.procs[1].elect(to)
				w.procs[1].inquire(to)
			}
			w.check(t, controllers)
		}
		claims()
		deleted := w.stored[from]
		delete(w.stored, from)
		w.now = w.now.Add(tick)
		claims()
		w.stored[from] = deleted // with the next renewal
		w.procs[0].elect(from)
		claims()
		w.settle(t, controllers, after)
	}
}

// advance makes the next move of a process that is to read a new file.
func (p *proc) advance(next file) {
	if !maps.Equal(p.file, next) {
		p.load(next)
		return
	}
	for c := range p.stops {
		p.stopped(c)
		return
	}
	for l, h := range p.locks {
		if !p.valid(l) {
			continue
		}
		if !slices.Equal(h.written, h.admission.Claim()) {
			p.elect(l)
		} else {
			p.inquire(l)
		}
	}
}

// A claim that does not wait for the look, or a look before the claim, would not do: the
// model finds two owners then. This guards the model itself.
func TestTheModelFindsMistakes(t *testing.T) {
	leases := leasesOf(2)
	w := newWorld(2, file{"a": leases[0]}, leases)
	w.procs[1].load(file{"a": leases[1]})
	for n, p := range w.procs {
		h := p.locks[leases[n]]
		h.question, h.read = h.admission.Ask(), w.now
		h.asked = true // looked before anything was claimed
		h.answer = []coordinationv1.Lease{}
		h.admission.version = h.question.version
		p.w.write(leases[n], p.name, h.admission.Claim())
		h.leading, h.until = true, w.now.Add(deadlineIn)
		p.inquire(leases[n])
	}
	if owners := w.running("a"); len(owners) != 2 {
		t.Errorf("got the owners %v, want two", owners)
	}
}
