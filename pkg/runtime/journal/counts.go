package journal

import (
	"sync"
	"sync/atomic"

	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/runtime/clients"
)

// result is what became of a write.
type result int

const (
	// success: the API server carried it out.
	success result = iota
	// rejected: the API server answered that it may not or cannot be carried out, for example
	// because of a conflict, a quota or a missing right.
	rejected
	// failed: the API server failed, or did not respond.
	failed
	// refused: this process did not let it through.
	refused
	resultCount
)

// resultNames are the values of the label.
var resultNames = [resultCount]string{success: "success", rejected: "rejected", failed: "failed", refused: "refused"}

func resultOf(w *clients.Write) result {
	switch {
	case w.Refused:
		return refused
	case w.Code == 0 || w.Code >= 500:
		return failed
	case w.Code >= 400:
		return rejected
	}
	return success
}

// results counts the writes of one controller, in all of its instances.
type results [resultCount]atomic.Uint64

func (r *results) add(w *clients.Write) { r[resultOf(w)].Add(1) }

// counts are the results of all controllers that have had an instance.
type counts struct {
	mu           sync.Mutex
	byController map[string]*results
}

func (c *counts) of(name string) *results {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byController == nil {
		c.byController = map[string]*results{}
	}
	r := c.byController[name]
	if r == nil {
		r = &results{}
		c.byController[name] = r
	}
	return r
}

// Register exposes the number of writes as a metric.
func (j *Journal) Register(r interface {
	CustomMustRegister(...metrics.StableCollector)
}) {
	r.CustomMustRegister(&collector{counts: &j.counts, writes: metrics.NewDesc(
		"kcmd_controller_writes_total", "Number of writes of a controller, by result: success, rejected by the API server, failed without a usable response, or refused by this process.",
		[]string{"name", "result"}, nil, metrics.ALPHA, "")})
}

// collector reads the counts when they are scraped.
type collector struct {
	metrics.BaseStableCollector
	counts *counts
	writes *metrics.Desc
}

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) { ch <- c.writes }

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	for name, r := range c.counts.byController {
		for n := range r {
			ch <- metrics.NewLazyConstMetric(c.writes, metrics.CounterValue, float64(r[n].Load()), name, resultNames[n])
		}
	}
}
