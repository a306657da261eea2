package telemetry

import (
	"sync"

	"github.com/blang/semver/v4"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"
)

// Hub gathers the metrics of the process: those of the global registry, which live as
// long as the process, and those of the registries that are attached at the moment.
type Hub struct {
	mu       sync.Mutex
	attached map[*Registry]struct{}
}

// NewHub makes a hub with nothing attached.
func NewHub() *Hub { return &Hub{attached: map[*Registry]struct{}{}} }

// Attach exposes the metrics of a registry until it is detached. Registries that are
// attached at the same time must not hold the same series.
func (h *Hub) Attach(r *Registry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attached[r] = struct{}{}
}

// Detach stops exposing the metrics of a registry. It does nothing if it is not attached.
func (h *Hub) Detach(r *Registry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.attached, r)
}

// Attached is the number of registries attached.
func (h *Hub) Attached() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.attached)
}

// Gather implements prometheus.Gatherer.
func (h *Hub) Gather() ([]*dto.MetricFamily, error) {
	all := prometheus.Gatherers{legacyregistry.DefaultGatherer}
	h.mu.Lock()
	for r := range h.attached {
		all = append(all, r)
	}
	h.mu.Unlock()
	return all.Gather()
}

// Registry holds the metrics of one controller instance. Unlike a component-base
// KubeRegistry it is garbage once nobody refers to it.
type Registry struct {
	version    semver.Version
	prometheus *prometheus.Registry
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry {
	// A build without a version shows every metric, as component-base does.
	v, err := semver.ParseTolerant(version.Get().GitVersion)
	if err != nil {
		v = semver.Version{}
	}
	v.Pre = nil
	return &Registry{version: v, prometheus: prometheus.NewRegistry()}
}

// MustRegister adds metrics. It panics if one of them is registered already, which is a
// programming error.
func (r *Registry) MustRegister(all ...metrics.Registerable) {
	for _, m := range all {
		if m.Create(&r.version) {
			r.prometheus.MustRegister(m)
		}
	}
}

// Register adds a metric.
func (r *Registry) Register(m metrics.Registerable) error {
	if !m.Create(&r.version) {
		return nil
	}
	return r.prometheus.Register(m)
}

// CustomMustRegister adds collectors, under the same rule.
func (r *Registry) CustomMustRegister(all ...metrics.StableCollector) {
	for _, c := range all {
		if c.Create(&r.version, c) {
			r.prometheus.MustRegister(c)
		}
	}
}

// Gather implements metrics.Gatherer.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) { return r.prometheus.Gather() }
