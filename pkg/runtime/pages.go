package runtime

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/health"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/why"
)

// pages is what the endpoint serves.
func (r *Runtime) pages() serving.Content {
	checks := r.checks()
	return serving.Content{
		Health:  checks.Health(),
		Live:    checks.Live(),
		Ready:   checks.Ready(),
		Metrics: prometheus.GathererFunc(r.gather),
		Config:  func() map[string]any { return status.Configz(r.configuration()) },
		Flags: func() map[string]string {
			return status.Flags(r.options.ConfigFile, r.options.LastGood, r.configuration())
		},
		Why:          r.why().Handler(),
		Debug:        r.debug,
		SetVerbosity: r.logging.SetVerbosity,
		Status: serving.Status{
			Version: func() basecompatibility.EffectiveVersion { return versionOf(r.configuration()) },
			JSON:    func() any { return r.Status() },
			Text:    func() string { return r.Status().Text(r.options.Clock.Now()) },
			Page: func(refresh time.Duration) ([]byte, string, error) {
				return r.Status().Page(r.options.Clock.Now(), refresh)
			},
		},
	}
}

// gather gathers the metrics. Who scrapes them gives the page of the status a past.
func (r *Runtime) gather() ([]*dto.MetricFamily, error) {
	if now := r.options.Clock.Now(); r.past.Due(now) {
		r.past.Observe(now, r.Controllers())
	}
	return r.hub.Gather()
}

// why is what questions about objects are answered from.
func (r *Runtime) why() why.Sources {
	return why.Sources{
		Journal:     r.journal,
		Controllers: r.Controllers,
		Keys:        r.keys,
		Leadership:  r.leadership.Status,
		Reads:       r.reads,
		Served: func() []*metav1.APIResourceList {
			if conn := r.connectionInForce(); conn != nil {
				return conn.Catalog().Preferred()
			}
			return nil
		},
		Caches: func() why.Caches {
			if conn := r.connectionInForce(); conn != nil {
				return conn.Informers()
			}
			return nil
		},
		Stops: func() []breaker.Stop {
			if s := r.breaker.Status(); s != nil {
				return s.Stops
			}
			return nil
		},
		Rejected: func() string {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.rejected
		},
		Unreached: func() string {
			if conn := r.connectionInForce(); conn != nil {
				return conn.Catalog().Unreached()
			}
			return ""
		},
		Clock: r.options.Clock,
	}
}

// keys returns what controllers hold of the keys that are wanted, by controller.
func (r *Runtime) keys(wanted func(key string) bool) map[string][]controller.LoopKey {
	s := r.currentSupervisor()
	if s == nil {
		return nil
	}
	return s.Keys(wanted)
}

// reads returns the resources that a controller reads with the configuration in force.
func (r *Runtime) reads(name string) (resources []schema.GroupResource, everything bool) {
	i := slices.IndexFunc(r.options.Descriptors, func(d controller.Descriptor) bool { return d.Name == name })
	if i < 0 {
		return nil, false
	}
	d := r.options.Descriptors[i]
	for _, read := range slices.Concat(d.Resources(d.Value(r.configuration())), d.Alternatives) {
		resources = append(resources, read.GroupResource())
	}
	return resources, d.ReadsServed
}

func (r *Runtime) debug(name string) http.Handler {
	s := r.currentSupervisor()
	if s == nil {
		return nil
	}
	return s.DebuggingHandler(name)
}

// checks returns the checks of the health pages.
func (r *Runtime) checks() *health.Checks {
	names := make([]string, 0, len(r.options.Descriptors))
	for _, d := range r.options.Descriptors {
		names = append(names, d.Name)
	}
	return health.New(health.Options{
		Names:       names,
		Controllers: r.Controllers,
		Leadership:  r.leadership,
		Connection: func() health.Connection {
			if conn := r.connectionInForce(); conn != nil {
				return conn
			}
			return nil
		},
		Progress: r.progress,
		Watched:  func() bool { return !r.unwatched.Load() },
		Clock:    r.options.Clock,
	})
}

// stuckAfter is how long, besides draining, one change may take before the loop counts as
// stuck. A change of the lease may drain twice.
const stuckAfter = 2 * time.Minute

// progress fails if a reload or a change of the leadership never ends.
func (r *Runtime) progress() error {
	limit := stuckAfter
	r.mu.Lock()
	if r.document != nil {
		limit += 2 * r.document.Config.Reload.DrainTimeout.Duration
	}
	r.mu.Unlock()
	return r.watchdog.Check(limit)
}

// Status returns a snapshot of the process. The state of the runtime is that of one moment;
// electors, controllers and caches are read after that, one by one: it may take time, and
// nobody waits for it.
func (r *Runtime) Status() status.Status {
	r.mu.Lock()
	s := status.Status{
		Started: r.started,
		Version: version.Get().GitVersion,
		Configuration: status.Configuration{
			File: r.options.ConfigFile, Hash: r.hash, Generation: r.generation, Rejected: r.rejected,
			LastGood: r.lastGood, NotKept: r.notKept,
		},
		Connection: r.credentials.Status(r.connection),
		Reloads:    slices.Clone(r.history),
	}
	conn := r.connection
	r.mu.Unlock()

	s.Leadership = r.leadership.Status()
	s.Pauses = r.pauses.Status()
	s.Deletions = r.breaker.Status()
	s.Controllers = r.Controllers()
	s.Past = r.past.Observe(r.options.Clock.Now(), s.Controllers)
	if conn != nil {
		s.Informers = conn.Informers().Status()
	}
	return s
}

// Registries is the number of registries whose metrics are exposed: that of the process, and one of each instance of
// a controller. It is 0 once Run has returned.
func (r *Runtime) Registries() int { return r.hub.Attached() }

// Controllers returns a snapshot of every controller, sorted by name.
func (r *Runtime) Controllers() []supervisor.Status {
	s := r.currentSupervisor()
	if s == nil {
		return nil
	}
	return s.Status()
}

func (r *Runtime) currentSupervisor() *supervisor.Supervisor {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.supervisor
}

func (r *Runtime) configuration() *v1beta1.KubeControllerManagerConfiguration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.document.Config
}

// The types of a Status, for programs that embed the daemon.
type (
	// Status is a snapshot of the process.
	Status = status.Status
	// Reload is the outcome of one change of the configuration file.
	Reload = status.Reload
	// LeadershipStatus is whether this process may run controllers.
	LeadershipStatus = leadership.Status
	// LeaseStatus is one lock, and the controllers that run under it.
	LeaseStatus = leadership.LeaseStatus
)
