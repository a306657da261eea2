// Package telemetry holds the metrics of the process itself, and the registries that
// the metrics of controllers come and go with.
//
//  1. The metrics of the process, and those of each controller instance, live in a Registry of
//     their own, which is attached to the Hub while the process, or the instance, runs. When it
//     is detached, all of its series are gone.
//  2. What libraries register for the program, in component-base's global registry, is gathered too.
//  3. What is exposed can be changed at any time: the options of component-base apply when
//     metrics are read, not when they are recorded.
//  4. Names follow those of kube-apiserver's reloaded configuration files.
package telemetry

import (
	"maps"
	"slices"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"
)

// Registerer is the part of a registry that metrics of the process need.
type Registerer interface {
	MustRegister(...metrics.Registerable)
}

// Hub gathers the metrics of the global registry, and of the registries that are attached at
// the moment. What is exposed of them can be changed.
type Hub struct {
	version semver.Version

	mu         sync.Mutex
	attached   map[*Registry]struct{}
	exposition Exposition
}

// NewHub makes a hub with nothing attached, which exposes everything that is not hidden.
func NewHub() *Hub {
	return &Hub{version: currentVersion(), attached: map[*Registry]struct{}{}}
}

// Expose changes what is exposed.
func (h *Hub) Expose(e Exposition) {
	if e.showHidden {
		// Hidden metrics are not counted before they are exposed for the first time; from
		// then on they are, even while they are not shown.
		metrics.SetShowHidden()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.exposition = e
	if e.showHidden {
		for r := range h.attached {
			r.reveal()
		}
	}
}

// Attach exposes the metrics of a registry until it is detached. Series that several attached
// registries hold are added up: the work queues of some controllers share a name.
func (h *Hub) Attach(r *Registry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exposition.showHidden {
		r.reveal() // it may have been made before hidden metrics were asked for
	}
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
	h.mu.Lock()
	attached := slices.Collect(maps.Keys(h.attached))
	exposition := h.exposition
	h.mu.Unlock()
	all := append(prometheus.Gatherers{legacyregistry.DefaultGatherer}, distinct(attached)...)
	families, err := all.Gather()
	return exposition.apply(families, h.version), err
}

// Registry holds the metrics of the process or of one controller instance. Unlike a component-base
// KubeRegistry it is garbage-collected once it is unused.
type Registry struct {
	version    semver.Version
	prometheus *prometheus.Registry

	mu     sync.Mutex
	hidden []metrics.Registerable // registered, and not counted while hidden
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry {
	return &Registry{version: currentVersion(), prometheus: prometheus.NewRegistry()}
}

// currentVersion decides which metrics are hidden. A build without a version shows every
// metric, as component-base does.
func currentVersion() semver.Version {
	v, err := semver.ParseTolerant(version.Get().GitVersion)
	if err != nil {
		v = semver.Version{}
	}
	v.Pre = nil
	return v
}

// reveal starts counting metrics that were hidden.
func (r *Registry) reveal() {
	r.mu.Lock()
	were := r.hidden
	r.hidden = nil
	r.mu.Unlock()
	for _, m := range were {
		m.ClearState()
	}
	r.MustRegister(were...)
}

// create makes a metric, unless it is hidden.
func (r *Registry) create(m metrics.Registerable) bool {
	if m.Create(&r.version) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = append(r.hidden, m)
	return false
}

// MustRegister adds metrics. It panics if one of them is registered already, which is a
// programming error.
func (r *Registry) MustRegister(all ...metrics.Registerable) {
	for _, m := range all {
		if r.create(m) {
			r.prometheus.MustRegister(m)
		}
	}
}

// CustomMustRegister adds collectors, under the same rule. One that panics while it
// collects does not end the process.
func (r *Registry) CustomMustRegister(all ...metrics.StableCollector) {
	for _, c := range all {
		g := &guarded{StableCollector: c}
		if g.Create(&r.version, g) {
			r.prometheus.MustRegister(g)
		}
	}
}

// Gather implements metrics.Gatherer.
func (r *Registry) Gather() ([]*dto.MetricFamily, error) { return r.prometheus.Gather() }
