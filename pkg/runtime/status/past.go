package status

import (
	"slices"
	"sync"
	"time"

	"kcmd.dev/pkg/runtime/supervisor"
)

const (
	// pastSpan is how far the plots of the page go back.
	pastSpan = 10 * time.Minute
	// pastSpacing is the shortest time between two samples.
	pastSpacing = 5 * time.Second
)

// Past is what the page draws of the last minutes. A sample is taken when somebody looks: when the
// status is read, and when metrics are scraped. A process that nobody looks at takes none, and
// neither has a timer. It can be used by several goroutines.
type Past struct {
	mu      sync.Mutex
	samples []Sample
}

// Sample is the work of all controllers at one moment.
type Sample struct {
	at    time.Time
	works map[string]work
}

// work is that of one controller.
type work struct {
	generation uint64
	queued     int
	done       uint64
}

// Due reports whether the newest sample is old enough for another one.
func (p *Past) Due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dueLocked(now)
}

func (p *Past) dueLocked(now time.Time) bool {
	n := len(p.samples)
	return n == 0 || now.Sub(p.samples[n-1].at) >= pastSpacing
}

// Observe takes a sample, if one is due, and returns those of the last minutes, the oldest first.
func (p *Past) Observe(now time.Time, all []supervisor.Status) []Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dueLocked(now) {
		p.samples = append(slices.DeleteFunc(p.samples, func(s Sample) bool { return now.Sub(s.at) > pastSpan }), sampleOf(now, all))
	}
	return slices.Clone(p.samples)
}

func sampleOf(now time.Time, all []supervisor.Status) Sample {
	s := Sample{at: now, works: make(map[string]work, len(all))}
	for _, c := range all {
		if len(c.Loops) == 0 {
			continue
		}
		w := work{generation: c.Generation}
		for _, l := range c.Loops {
			w.queued += l.Depth
			w.done += l.Reconciled
		}
		s.works[c.Name] = w
	}
	return s
}

// value is a number at some time.
type value struct {
	at time.Time
	n  float64
}

// of is the work of one controller, or of all if name is empty.
func (s Sample) of(name string) map[string]work {
	if name == "" {
		return s.works
	}
	if w, ok := s.works[name]; ok {
		return map[string]work{name: w}
	}
	return nil
}

// queued is how many keys waited in the queues of one controller, or of all if name is empty.
func queued(samples []Sample, name string) []value {
	values := make([]value, 0, len(samples))
	for _, s := range samples {
		n := 0
		for _, w := range s.of(name) {
			n += w.queued
		}
		values = append(values, value{s.at, float64(n)})
	}
	return values
}

// done is how many keys per second one controller, or all if name is empty, did between samples.
// The first value is also that of the time when the first sample was taken.
func done(samples []Sample, name string) []value {
	var values []value
	for i := 1; i < len(samples); i++ {
		before, s := samples[i-1], samples[i]
		n := uint64(0)
		for each, w := range s.of(name) {
			n += w.since(before.works[each])
		}
		rate := float64(n) / s.at.Sub(before.at).Seconds()
		if i == 1 {
			values = append(values, value{before.at, rate})
		}
		values = append(values, value{s.at, rate})
	}
	return values
}

// since is what was done since an earlier sample. A new instance counts from zero.
func (w work) since(before work) uint64 {
	if w.generation != before.generation || w.done < before.done {
		return w.done
	}
	return w.done - before.done
}
