package podgc

import (
	"maps"
	"slices"
	"time"
)

// quarantinePeriod is how long a node has to be missing before it is read live.
const quarantinePeriod = 40 * time.Second

// quarantine holds nodes that are missing and have pods. A missing node is known by its name
// only, so it stays in only while every pass finds it missing. Only passes use it, one at a time.
type quarantine struct {
	ends map[string]time.Time
}

// handover is the quarantine at the end of an instance.
type handover struct {
	ends map[string]time.Time
	left time.Time
}

func newQuarantine() *quarantine { return &quarantine{ends: map[string]time.Time{}} }

// update removes the nodes that are not missing and adds those that are, unless they are there
// already.
func (q *quarantine) update(missing []string, now time.Time) {
	ends := make(map[string]time.Time, len(missing))
	for _, node := range missing {
		end, in := q.ends[node]
		if !in {
			end = now.Add(quarantinePeriod)
		}
		ends[node] = end
	}
	q.ends = ends
}

// due returns the nodes whose period has passed, sorted. They stay due until it is renewed.
func (q *quarantine) due(now time.Time) []string {
	var over []string
	for node, end := range q.ends {
		if !end.After(now) {
			over = append(over, node)
		}
	}
	slices.Sort(over)
	return over
}

// renew begins the period of nodes again.
func (q *quarantine) renew(nodes []string, now time.Time) {
	for _, node := range nodes {
		q.ends[node] = now.Add(quarantinePeriod)
	}
}

// state returns the state to hand over.
func (q *quarantine) state(now time.Time) handover { return handover{maps.Clone(q.ends), now} }

// takeOver takes over the quarantine of the predecessor, unless it is older than the time between
// two passes: the nodes may have existed in the meantime.
func (q *quarantine) takeOver(h handover, now time.Time) {
	if now.Sub(h.left) <= passPeriod {
		maps.Copy(q.ends, h.ends)
	}
}
