package podgc

import (
	"maps"
	"slices"
	"time"
)

// quarantinePeriod is how long a node has to be missing before it is asked for.
const quarantinePeriod = 40 * time.Second

// quarantine holds nodes that are missing. Only passes use it, one at a time.
type quarantine struct {
	ends map[string]time.Time
}

func newQuarantine() *quarantine { return &quarantine{ends: map[string]time.Time{}} }

// add puts a node in, unless it is in already.
func (q *quarantine) add(node string, now time.Time) {
	if _, in := q.ends[node]; !in {
		q.ends[node] = now.Add(quarantinePeriod)
	}
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
func (q *quarantine) state() map[string]time.Time { return maps.Clone(q.ends) }

// adopt takes over what a predecessor held.
func (q *quarantine) adopt(predecessor any) {
	if ends, ok := predecessor.(map[string]time.Time); ok {
		maps.Copy(q.ends, ends)
	}
}
