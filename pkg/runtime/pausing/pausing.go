// Package pausing holds where the configuration pauses controllers, and since when.
//
//  1. The configuration in force is the only source: Apply takes it over, and all else follows.
//  2. The namespaces in which a controller is paused are one object per controller, which its
//     clients and work loops ask. It outlives instances, so a pause restarts nothing.
//  3. A controller that is paused as a whole has no instance: the supervisor sees to that. Here
//     it is only shown.
//  4. A pause lasts since this process brought it into force.
package pausing

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/telemetry"
)

// Pause is one place where nothing is written.
type Pause struct {
	// Controller is paused; empty means all controllers.
	Controller string `json:"controller,omitempty"`
	// Namespace is where; empty means everywhere.
	Namespace string    `json:"namespace,omitempty"`
	Since     time.Time `json:"since,omitzero"`
}

// String names the controllers, and where they are paused.
func (p Pause) String() string {
	who := cmp.Or(p.Controller, "all controllers")
	if p.Namespace == "" {
		return who
	}
	return who + " in namespace " + p.Namespace
}

// List names pauses in one line.
func List(all []Pause) string {
	names := make([]string, 0, len(all))
	for _, p := range all {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// place is a Pause without its time.
type place struct{ controller, namespace string }

// Pauses are those in force. Use New. They can be used by several goroutines.
type Pauses struct {
	clock  clock.PassiveClock
	metric *metrics.GaugeVec

	mu    sync.Mutex
	of    map[string]*controller.Pauses
	since map[place]time.Time
}

// New returns no pauses. The metric that shows them is registered.
func New(r telemetry.Registerer, clk clock.PassiveClock) *Pauses {
	p := &Pauses{
		clock: clk, of: map[string]*controller.Pauses{}, since: map[place]time.Time{},
		metric: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: "kcmd", Name: "paused_since_timestamp_seconds", StabilityLevel: metrics.ALPHA,
			Help: "Time since which this process has a controller paused, in a namespace or, if that label is empty, as a whole. An empty name means all controllers.",
		}, []string{"name", "namespace"}),
	}
	r.MustRegister(p.metric)
	return p
}

// Of implements instance.Pauses.
func (p *Pauses) Of(name string) *controller.Pauses {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ofLocked(name)
}

func (p *Pauses) ofLocked(name string) *controller.Pauses {
	if p.of[name] == nil {
		p.of[name] = &controller.Pauses{}
	}
	return p.of[name]
}

// Apply takes over the pauses of a configuration, and returns those that begin and end by it.
func (p *Pauses) Apply(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) (begun, ended []Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range descriptors {
		namespaces, of := cfg.PausedNamespacesOf(d.Name), p.ofLocked(d.Name)
		if !slices.Equal(of.Namespaces(), namespaces) {
			of.Set(namespaces)
		}
	}
	next, now := places(cfg, descriptors), p.clock.Now()
	for at, since := range p.since {
		if !next[at] {
			ended = append(ended, Pause{at.controller, at.namespace, since})
			delete(p.since, at)
			p.metric.DeleteLabelValues(at.controller, at.namespace)
		}
	}
	for at := range next {
		if _, known := p.since[at]; !known {
			begun = append(begun, Pause{at.controller, at.namespace, now})
			p.since[at] = now
			p.metric.WithLabelValues(at.controller, at.namespace).Set(float64(now.UnixNano()) / 1e9)
		}
	}
	sort(begun)
	sort(ended)
	return begun, ended
}

// places are where a configuration pauses the controllers that it enables.
func places(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) map[place]bool {
	all := map[place]bool{}
	for _, namespace := range cfg.PausedNamespaces {
		all[place{"", namespace}] = true
	}
	for _, d := range descriptors {
		if enabled, _ := d.Enabled(cfg); !enabled {
			continue
		}
		if cfg.ControllerPaused(d.Name) {
			all[place{d.Name, ""}] = true
		}
		for _, namespace := range cfg.PausedNamespacesOf(d.Name) {
			if !all[place{"", namespace}] {
				all[place{d.Name, namespace}] = true
			}
		}
	}
	return all
}

// Status are the pauses in force, those of all controllers first.
func (p *Pauses) Status() []Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Pause, 0, len(p.since))
	for at, since := range p.since {
		all = append(all, Pause{at.controller, at.namespace, since})
	}
	sort(all)
	return all
}

func sort(all []Pause) {
	slices.SortFunc(all, func(a, b Pause) int {
		return cmp.Or(strings.Compare(a.Controller, b.Controller), strings.Compare(a.Namespace, b.Namespace))
	})
}
