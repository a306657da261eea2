package podgc

import (
	"maps"
	"slices"
	"time"
)

// quarantinePeriod is how long a node has to be missing before it is asked for.
const quarantinePeriod = 40 * time.Second

// quarantine holds nodes that are missing. A missing node is known by its name only, so it
// stays in only while every pass finds it missing. Only passes use it, one at a time.
type quarantine struct {
	ends map[string]time.Time
}

// handover is a quarantine as it was when nobody looked any more.
type handover struct {
	ends map[string]time.Time
	left time.Time
}

func newQuarantine() *quarantine { return &quarantine{ends: map[string]time.Time{}} }

// add puts a node in, unless it is in already.
func (q *quarantine) add(node string, now time.Time) {
	if _, in := q.ends[node]; !in {
		q.ends[node] = now.Add(quarantinePeriod)
	}
}

// release takes out the nodes that are there again.
func (q *quarantine) release(exists func(node string) bool) {
	maps.DeleteFunc(q.ends, func(node string, _ time.Time) bool { return exists(node) })
}

// due takes out the nodes whose time is over, sorted.
func (q *quarantine) due(now time.Time) []string {
	var over []string
	for node, end := range q.ends {
		if !end.After(now) {
			over = append(over, node)
			delete(q.ends, node)
		}
	}
	slices.Sort(over)
	return over
}

// state is what a successor adopts.
func (q *quarantine) state(now time.Time) handover { return handover{maps.Clone(q.ends), now} }

// adopt takes over what a predecessor held, unless nobody has looked for longer than between
// two passes: the nodes may have been there in the meantime.
func (q *quarantine) adopt(predecessor any, now time.Time) {
	if h, ok := predecessor.(handover); ok && now.Sub(h.left) <= passPeriod {
		maps.Copy(q.ends, h.ends)
	}
}
