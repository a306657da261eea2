package podgc

import (
	"maps"
	"slices"
	"time"
)

// quarantinePeriod is how long a node has to be missing before it is read live.
const quarantinePeriod = 40 * time.Second

// quarantine holds nodes that are missing. A missing node is known by its name only, so it
// stays in only while every pass finds it missing. Only passes use it, one at a time.
type quarantine struct {
	ends map[string]time.Time
}

// handover is the quarantine at the end of an instance.
type handover struct {
	ends map[string]time.Time
	left time.Time
}

func newQuarantine() *quarantine { return &quarantine{ends: map[string]time.Time{}} }

// add puts a node into quarantine, unless it is there already.
func (q *quarantine) add(node string, now time.Time) {
	if _, in := q.ends[node]; !in {
		q.ends[node] = now.Add(quarantinePeriod)
	}
}

// release removes the nodes that exist again.
func (q *quarantine) release(exists func(node string) bool) {
	maps.DeleteFunc(q.ends, func(node string, _ time.Time) bool { return exists(node) })
}

// due removes and returns the nodes whose period has passed, sorted.
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

// state returns the state to hand over.
func (q *quarantine) state(now time.Time) handover { return handover{maps.Clone(q.ends), now} }

// adopt takes over the quarantine of the predecessor, unless it is older than the time between
// two passes: the nodes may have existed in the meantime.
func (q *quarantine) adopt(h handover, now time.Time) {
	if now.Sub(h.left) <= passPeriod {
		maps.Copy(q.ends, h.ends)
	}
}
