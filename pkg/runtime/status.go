package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/component-base/version"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Status is what /statusz shows.
type Status struct {
	Started       time.Time           `json:"startTime"`
	Version       string              `json:"version"`
	Configuration ConfigurationStatus `json:"configuration"`
	Leadership    LeadershipStatus    `json:"leadership"`
	Controllers   []supervisor.Status `json:"controllers"`
	Informers     []informers.Status  `json:"informers"`
	Reloads       []Reload            `json:"reloads,omitempty"`
}

// ConfigurationStatus is what is in force.
type ConfigurationStatus struct {
	File       string `json:"file"`
	Hash       string `json:"hash"`
	Generation uint64 `json:"generation"`
	// Rejected is why the file as it is now is not in force, empty if it is.
	Rejected string `json:"rejected,omitempty"`
}

// LeadershipStatus is whether this process may run controllers.
type LeadershipStatus struct {
	Leading bool `json:"leading"`
	// Term counts the terms of this process.
	Term uint64 `json:"term"`
	// Lease is the state of the lock; missing without leader election.
	Lease *election.Status `json:"lease,omitempty"`
}

// Status returns a snapshot of the process.
func (r *Runtime) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{
		Started:       r.started,
		Version:       version.Get().GitVersion,
		Configuration: ConfigurationStatus{File: r.options.ConfigFile, Hash: r.hash, Generation: r.generation, Rejected: r.rejected},
		Leadership:    LeadershipStatus{Leading: r.term != nil && r.term.Valid(), Term: r.termNumber},
		Reloads:       append([]Reload(nil), r.history...),
	}
	if r.leadership != nil && r.leadership.elector != nil {
		lease := r.leadership.elector.Status()
		s.Leadership.Lease = &lease
	}
	if r.supervisor != nil {
		s.Controllers = r.supervisor.Status()
	}
	if r.connection != nil {
		s.Informers = r.connection.informers.Status()
	}
	return s
}

// Text renders the status for a reader.
func (s Status) Text(now time.Time) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "kube-controller-manager %s, up %v\n\n", s.Version, now.Sub(s.Started).Round(time.Second))
	fmt.Fprintf(&b, "Configuration: generation %d of %s\n  sha256:%s\n", s.Configuration.Generation, s.Configuration.File, s.Configuration.Hash)
	if s.Configuration.Rejected != "" {
		fmt.Fprintf(&b, "  the file as it is now was rejected:\n%s\n", s.Configuration.Rejected)
	}
	fmt.Fprintf(&b, "Leading: %v, term %d\n", s.Leadership.Leading, s.Leadership.Term)
	if l := s.Leadership.Lease; l != nil {
		fmt.Fprintf(&b, "  lease held by %q since %s, %d transitions\n", l.Holder, l.Since.Format(time.RFC3339), l.Transitions)
	}
	b.WriteString("\n")
	s.controllerTable(&b)
	b.WriteString("\n")
	s.informerTable(&b)
	s.reloadList(&b)
	return b.String()
}

func (s Status) controllerTable(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROLLER\tSTATE\tGENERATION\tQUEUED\tIN FLIGHT\tFAILED\tREASON")
	for _, c := range s.Controllers {
		queued, inFlight, failed := 0, 0, uint64(0)
		for _, l := range c.Loops {
			queued += l.Depth
			inFlight += len(l.InFlight)
			failed += l.Failed
		}
		reason := c.Reason
		if ok, why := c.Healthy(); !ok {
			reason = why
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", c.Name, c.State, c.Generation, queued, inFlight, failed, reason)
	}
	_ = w.Flush()
}

func (s Status) informerTable(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "INFORMER\tFORM\tFILTER\tOBJECTS\tSYNCED\tHANDLERS\tERROR")
	for _, i := range s.Informers {
		name := i.Resource
		if i.Group != "" {
			name += "." + i.Group
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%v\t%d\t%s\n", name, i.Form, i.Namespace+i.FieldSelector+i.LabelSelector, i.Objects, i.Synced, i.Handlers, i.LastError)
	}
	_ = w.Flush()
}

func (s Status) reloadList(b *bytes.Buffer) {
	for n := len(s.Reloads) - 1; n >= 0; n-- {
		o := s.Reloads[n]
		fmt.Fprintf(b, "\nReload at %s: %s, generation %d in force\n", o.Time.Format(time.RFC3339), o.Status, o.Generation)
		if o.Error != "" {
			fmt.Fprintln(b, o.Error)
		}
		if o.Plan != nil {
			fmt.Fprint(b, o.Plan.String())
		}
	}
}

// pages is what the endpoint serves.
func (r *Runtime) pages() serving.Content {
	return serving.Content{
		Health:     append([]healthz.HealthChecker{r.leaderCheck()}, r.controllerChecks()...),
		Live:       []healthz.HealthChecker{healthz.PingHealthz, r.leaderCheck()},
		Ready:      []healthz.HealthChecker{r.catalogCheck(), r.cacheCheck(), r.controllersCheck()},
		Metrics:    r.hub,
		Config:     r.configz,
		Status:     func() any { return r.Status() },
		Debug:      r.debug,
		StatusText: func() string { return r.Status().Text(r.options.Clock.Now()) },
	}
}

func (r *Runtime) debug(name string) http.Handler {
	r.mu.Lock()
	s := r.supervisor
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.DebuggingHandler(name)
}

func (r *Runtime) configz() map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return map[string]any{v1beta1.GroupName: r.document.Config}
}

// leaderCheck fails if this process should renew the lease and does not get to it.
func (r *Runtime) leaderCheck() healthz.HealthChecker {
	return healthz.NamedCheck(election.HealthCheckName, func(req *http.Request) error {
		r.mu.Lock()
		l := r.leadership
		r.mu.Unlock()
		if l == nil || l.elector == nil {
			return nil
		}
		return l.elector.Check(req)
	})
}

// controllerChecks has one check per controller, which fails while it is stuck or backs off.
func (r *Runtime) controllerChecks() []healthz.HealthChecker {
	var checks []healthz.HealthChecker
	for _, d := range r.options.Descriptors {
		checks = append(checks, healthz.NamedCheck(d.Name, func(*http.Request) error {
			for _, s := range r.Controllers() {
				if ok, why := s.Healthy(); s.Name == d.Name && !ok {
					return errors.New(why)
				}
			}
			return nil
		}))
	}
	return checks
}

// Controllers returns a snapshot of every controller, sorted by name.
func (r *Runtime) Controllers() []supervisor.Status {
	r.mu.Lock()
	s := r.supervisor
	r.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Status()
}

// controllersCheck fails while any controller is not healthy.
func (r *Runtime) controllersCheck() healthz.HealthChecker {
	return healthz.NamedCheck("controllers", func(*http.Request) error {
		for _, s := range r.Controllers() {
			if ok, why := s.Healthy(); !ok {
				return fmt.Errorf("%s: %s", s.Name, why)
			}
		}
		return nil
	})
}

// catalogCheck fails until the API server has been reached.
func (r *Runtime) catalogCheck() healthz.HealthChecker {
	return healthz.NamedCheck("api-discovery", func(*http.Request) error {
		r.mu.Lock()
		c := r.connection
		r.mu.Unlock()
		if c == nil || !c.catalog.Complete() {
			return errors.New("the API server has not been reached yet")
		}
		return nil
	})
}

// cacheCheck fails while a cache that a controller reads is not filled.
func (r *Runtime) cacheCheck() healthz.HealthChecker {
	return healthz.NamedCheck("informer-sync", func(*http.Request) error {
		r.mu.Lock()
		c := r.connection
		r.mu.Unlock()
		if c == nil {
			return errors.New("there are no caches yet")
		}
		if unsynced := c.informers.Unsynced(); len(unsynced) > 0 {
			return fmt.Errorf("%d informers not synced yet: %v", len(unsynced), unsynced)
		}
		return nil
	})
}

// connectEvents opens the pipeline of the events of the process itself.
func (r *Runtime) connectEvents(conn *connection) error {
	recorder, err := conn.events.open(component, component, func() (corev1client.EventsGetter, error) {
		set, err := conn.clients.For(clients.Identity{Name: component, ClientName: component}, nil)
		if err != nil {
			return nil, err
		}
		return set.Kubernetes.CoreV1(), nil
	})
	if err != nil {
		return err
	}
	r.events.connect(recorder)
	return nil
}
