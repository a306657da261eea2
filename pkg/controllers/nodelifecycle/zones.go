package nodelifecycle

import (
	"slices"
	"time"
)

// zoneState says how many of the nodes of a zone are ready.
type zoneState string

const (
	// uncounted is that of a zone without nodes that count.
	uncounted zoneState = ""
	initial   zoneState = "Initial"
	normal    zoneState = "Normal"
	partial   zoneState = "PartialDisruption"
	full      zoneState = "FullDisruption"
)

// rates holds the rates of tainting, in nodes per second, and the thresholds that select a rate.
type rates struct {
	normal, disrupted float32
	large             int // zones with more nodes are large
	unhealthy         float32
}

// count is the number of nodes of a zone that count.
type count struct{ ready, notReady int }

func (n count) all() int { return n.ready + n.notReady }

// health is the share of ready nodes in percent.
func (n count) health() float64 { return 100 * float64(n.ready) / float64(n.all()) }

// fewUnhealthy is the number of unready nodes that never disrupt a zone, provided that a node is ready.
const fewUnhealthy = 2

// stateOf returns the state of a zone with nodes that count.
func (r rates) stateOf(n count) zoneState {
	switch {
	case n.ready == 0 && n.notReady > 0:
		return full
	case n.notReady > fewUnhealthy && float32(n.notReady)/float32(n.all()) >= r.unhealthy:
		return partial
	default:
		return normal
	}
}

// rateOf returns the rate of a zone in a state, as long as another zone has ready nodes.
func (r rates) rateOf(state zoneState, nodes int) float32 {
	switch {
	case state != partial:
		return r.normal
	case nodes > r.large:
		return r.disrupted
	default:
		return 0
	}
}

// reaction is the response to the states of all zones.
type reaction int

const (
	// keep: the rates stay.
	keep reaction = iota
	// follow: each zone whose state has changed gets its rate.
	follow
	// stop: no more nodes get taints, and tainted nodes lose theirs.
	stop
	// resume: all nodes get a new grace period, and all zones their rates.
	resume
)

// reactionTo returns the reaction to a change of zone states. now contains only zones with nodes that count, before also
// those that had some. A new zone with a ready node resumes like one that comes back: otherwise those that were stopped
// would stay so. If all that are left are down, it does not matter whether the last one that was up went down or is gone.
func reactionTo(before, now []zoneState) reaction {
	isUp := func(s zoneState) bool { return s != full && s != initial }
	was, is := areFull(before), areFull(now)
	switch {
	case len(now) == 0 || was && is:
		return keep
	case is:
		return stop
	case slices.Contains(before, full) && !slices.ContainsFunc(before, isUp):
		return resume
	default:
		return follow
	}
}

func areFull(zones []zoneState) bool {
	return !slices.ContainsFunc(zones, func(s zoneState) bool { return s != full })
}

// zone is a zone and the queue of its nodes that wait for a taint. It is guarded by the lock of the
// cluster.
type zone struct {
	state   zoneState
	count   count // as of the last pass
	nodes   int   // with those that do not count
	limiter limiter
	waiting []*record
}

// leave removes a node from the queue.
func (z *zone) leave(r *record) {
	if i := slices.Index(z.waiting, r); i >= 0 {
		z.waiting = slices.Delete(z.waiting, i, i+1)
	}
}

// limiter releases nodes at a rate, with a burst of one, or of what is due between two passes if that is more. It
// releases the first node immediately.
type limiter struct {
	rate  float32 // per second, 0: none at all
	saved float64 // as of the time, at most a burst
	at    time.Time
}

func newLimiter(rate float32, now time.Time) limiter { return limiter{rate: rate, saved: 1, at: now} }

// take lets one through, if it is time.
func (l *limiter) take(now time.Time) bool {
	l.save(now)
	if l.rate <= 0 || l.saved < 1 {
		return false
	}
	l.saved--
	return true
}

// set changes the rate. If a node could have been released at the old rate, it still can be.
func (l *limiter) set(rate float32, now time.Time) {
	if l.rate == rate {
		return
	}
	l.save(now)
	if l.rate <= 0 || l.saved < 1 {
		l.saved = 0
	}
	l.saved = min(1, l.saved)
	l.rate = rate
}

func (l *limiter) save(now time.Time) {
	if passed := now.Sub(l.at); passed > 0 {
		burst := max(1, float64(l.rate)*grantPeriod.Seconds())
		l.saved = min(burst, l.saved+float64(l.rate)*passed.Seconds())
	}
	l.at = now
}
