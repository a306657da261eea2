package runtime

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
)

// value is what the controller under test reads.
type value struct {
	workers int32
	file    string
}

func (v value) Files() []string { return []string{v.file} }

func describe(d controller.Descriptor) controller.Descriptor {
	d.Name = "deployment-controller"
	return controller.Describe(d,
		func(c *controller.Config) value {
			return value{workers: *c.Controllers.Deployment.ConcurrentSyncs, file: c.ServiceAccounts.RootCAFile}
		},
		func(controller.Env, value) (controller.Controller, error) { return nil, nil })
}

func standby(reason string, cold bool) func(*supervisor.Want) {
	return func(w *supervisor.Want) {
		w.State, w.Reason, w.Spec.Term, w.Spec.Cold = supervisor.Standby, reason, 0, cold
		w.Spec.Planned.Lock = locks.Key{}
	}
}

func isPaused(w *supervisor.Want) {
	w.State, w.Reason, w.Spec.Term = supervisor.Paused, "paused in the configuration", 0
	w.Spec.Planned.Lock, w.Spec.Planned.Paused = locks.Key{}, true
}

func permits(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

func migrate(c *v1beta1.KubeControllerManagerConfiguration, component string) {
	c.LeaderMigration.Enabled = ptr.To(true)
	c.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{{Name: "deployment-controller", Component: component}}
}

func TestDesired(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	replicaSets := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	elected := locks.Election{Elect: true, Main: locks.Lease{Namespace: "kube-system", Name: "kube-controller-manager"}}
	planned := plan.Spec{
		Value: value{workers: 5, file: "ca.crt"}, Source: plan.SourceOf(v1beta1.NewDefault()),
		Lock: locks.Key{Name: locks.Main, Election: elected, Lease: elected.Main},
	}
	running := supervisor.Want{
		State:  supervisor.Running,
		Spec:   supervisor.Spec{Planned: planned, Files: "ca.crt=1234\n", Clients: 3, Term: 7},
		Resync: time.Hour,
	}
	with := func(change func(*supervisor.Want)) supervisor.Want {
		w := running
		change(&w)
		return w
	}
	for name, c := range map[string]struct {
		descriptor controller.Descriptor
		change     func(*inputs)
		want       supervisor.Want
	}{
		"enabled, served and leading": {want: running},
		"disabled": {
			change: func(in *inputs) { in.config.Controllers.Deployment.Enabled = new(bool) },
			want:   supervisor.Want{State: supervisor.Disabled, Reason: "disabled in the configuration"},
		},
		"off for all": {
			change: func(in *inputs) { in.config.ControllerDefaults.Enabled = new(bool) },
			want:   supervisor.Want{State: supervisor.Disabled, Reason: "disabled in the configuration"},
		},
		"an API is missing": {
			descriptor: controller.Descriptor{Requires: []schema.GroupVersionResource{deployments}},
			change:     func(in *inputs) { in.missing = func([]schema.GroupVersionResource) string { return "not served" } },
			want:       supervisor.Want{State: supervisor.Waiting, Reason: "not served"},
		},
		"the best of the alternatives is chosen": {
			descriptor: controller.Descriptor{Alternatives: []schema.GroupVersionResource{deployments, replicaSets}},
			want:       with(func(w *supervisor.Want) { w.Spec.Chosen = deployments }),
		},
		"the best of the alternatives is missing": {
			descriptor: controller.Descriptor{Alternatives: []schema.GroupVersionResource{deployments, replicaSets}},
			change: func(in *inputs) {
				in.missing = func(all []schema.GroupVersionResource) string {
					if slices.Contains(all, deployments) {
						return "not served"
					}
					return ""
				}
			},
			want: with(func(w *supervisor.Want) { w.Spec.Chosen = replicaSets }),
		},
		"all alternatives are missing": {
			descriptor: controller.Descriptor{Alternatives: []schema.GroupVersionResource{deployments, replicaSets}},
			change: func(in *inputs) {
				in.missing = func(all []schema.GroupVersionResource) string {
					if len(all) == 0 {
						return ""
					}
					return all[0].Resource + " are not served"
				}
			},
			want: supervisor.Want{State: supervisor.Waiting, Reason: "deployments are not served"},
		},
		"another process leads": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Reason: "another process holds the lease"}
			},
			want: with(standby("another process holds the lease", false)),
		},
		"nobody knows who leads yet, so no cache is filled": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Reason: "the lease is being read", Undecided: true}
			},
			want: with(standby("the lease is being read", true)),
		},
		"another process leads, cold": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Reason: "another process holds the lease"}
				in.config.LeaderElection.Standby = v1beta1.StandbyCold
			},
			want: with(standby("another process holds the lease", true)),
		},
		"another process leads, and the caches depend on what is served": {
			descriptor: controller.Descriptor{ReadsServed: true},
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Reason: "another process holds the lease"}
			},
			want: with(func(w *supervisor.Want) {
				standby("another process holds the lease", false)(w)
				w.Spec.Served = 2
			}),
		},
		"another process leads, and the caches would depend on what is served, cold": {
			descriptor: controller.Descriptor{ReadsServed: true},
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Reason: "another process holds the lease"}
				in.config.LeaderElection.Standby = v1beta1.StandbyCold
			},
			want: with(standby("another process holds the lease", true)),
		},
		"paused": {
			change: func(in *inputs) { in.config.Controllers.Deployment.Paused = ptr.To(true) },
			want:   with(isPaused),
		},
		"paused, and the lease is held, so the caches stay on a cold standby": {
			change: func(in *inputs) {
				in.config.Controllers.Deployment.Paused = ptr.To(true)
				in.config.LeaderElection.Standby = v1beta1.StandbyCold
			},
			want: with(isPaused),
		},
		"paused, while another process leads, cold": {
			change: func(in *inputs) {
				in.config.Controllers.Deployment.Paused = ptr.To(true)
				in.config.LeaderElection.Standby = v1beta1.StandbyCold
				in.locks[locks.Main] = leadership.Right{Reason: "another process holds the lease"}
			},
			want: with(func(w *supervisor.Want) {
				isPaused(w)
				w.Spec.Cold = true
			}),
		},
		"paused without a lease": {
			descriptor: controller.Descriptor{RunsWithoutLease: true},
			change:     func(in *inputs) { in.config.Controllers.Deployment.Paused = ptr.To(true) },
			want:       with(isPaused),
		},
		"leading, what is served makes no difference": {
			descriptor: controller.Descriptor{ReadsServed: true},
			want:       running,
		},
		"a lock that is not there yet": {
			change: func(in *inputs) { in.locks = nil },
			want:   with(standby("the lock is not held", false)),
		},
		"permitted": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Term: 7, Granted: permits("deployment-controller")}
			},
			want: running,
		},
		"not asked for yet": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Term: 7, Granted: permits("job-controller")}
			},
			want: with(standby("checking whether another process still runs it", false)),
		},
		"nobody can be asked": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Term: 7, Granted: permits(), Reason: "no answer"}
			},
			want: with(standby("no answer", false)),
		},
		"run by another process, cold": {
			change: func(in *inputs) {
				in.locks[locks.Main] = leadership.Right{Term: 7, Granted: permits(), Blocked: map[string]string{"deployment-controller": "b runs it"}}
				in.config.LeaderElection.Standby = v1beta1.StandbyCold
			},
			want: with(standby("b runs it", false)), // it holds the lock: it is about to run it
		},
		"in a group that is held": {
			change: func(in *inputs) {
				in.config.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "apps", Controllers: []string{"deployment-controller"}}}
				in.locks = map[string]leadership.Right{locks.Main: {Reason: "elsewhere"}, locks.Group("apps"): {Term: 9}}
			},
			want: with(func(w *supervisor.Want) {
				w.Spec.Term = 9
				w.Spec.Planned.Lock.Name, w.Spec.Planned.Lock.Lease.Name = "group/apps", "kube-controller-manager-apps"
			}),
		},
		"in a group that is not held": {
			change: func(in *inputs) {
				in.config.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "apps", Controllers: []string{"deployment-controller"}}}
				in.locks[locks.Group("apps")] = leadership.Right{Reason: "another process holds the lease"}
			},
			want: with(standby("another process holds the lease", false)),
		},
		"migrated to this component": {
			change: func(in *inputs) {
				migrate(in.config, "kube-controller-manager")
				in.locks[locks.Migration] = leadership.Right{Term: 4}
			},
			want: with(func(w *supervisor.Want) {
				w.Spec.Term = 4
				w.Spec.Planned.Lock.Name, w.Spec.Planned.Lock.Lease.Name = "migration", "cloud-provider-extraction-migration"
			}),
		},
		"migrated to another component": {
			change: func(in *inputs) { migrate(in.config, "cloud-controller-manager") },
			want:   supervisor.Want{State: supervisor.Disabled, Reason: "leader migration assigns it to another component"},
		},
		"needs no lease": {
			descriptor: controller.Descriptor{RunsWithoutLease: true},
			change: func(in *inputs) {
				in.locks = nil
				migrate(in.config, "cloud-controller-manager")
			},
			want: with(func(w *supervisor.Want) { w.Spec.Term, w.Spec.Planned.Lock = 0, locks.Key{} }),
		},
		"the value changed": {
			change: func(in *inputs) { *in.config.Controllers.Deployment.ConcurrentSyncs = 20 },
			want:   with(func(w *supervisor.Want) { w.Spec.Planned.Value = value{workers: 20, file: "ca.crt"} }),
		},
		"the content of a file changed": {
			change: func(in *inputs) { in.files["ca.crt"] = "5678" },
			want:   with(func(w *supervisor.Want) { w.Spec.Files = "ca.crt=5678\n" }),
		},
		"a setting of another controller changed": {
			change: func(in *inputs) { *in.config.Controllers.ReplicaSet.ConcurrentSyncs = 50 },
			want:   running,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := v1beta1.NewDefault()
			cfg.ServiceAccounts.RootCAFile = "ca.crt"
			cfg.Controllers.Deployment.ResyncPeriod = &metav1.Duration{Duration: time.Hour}
			in := inputs{
				config: cfg, locks: map[string]leadership.Right{locks.Main: {Term: 7}}, clients: 3,
				missing: func([]schema.GroupVersionResource) string { return "" },
				served:  2,
				files:   map[string]string{"ca.crt": "1234"},
			}
			if c.change != nil {
				c.change(&in)
			}
			d := describe(c.descriptor)
			if got := desiredState(in, []controller.Descriptor{d})[d.Name]; got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// Pins MGR-57 and WL-2.
func TestInheritedResyncPeriodsAreSpread(t *testing.T) {
	in := inputs{config: v1beta1.NewDefault(), spread: 0.5}
	seen := map[time.Duration]bool{}
	for _, name := range []string{"deployment-controller", "replicaset-controller", "endpointslice-controller"} {
		period := in.resyncPeriod(name)
		if period < 12*time.Hour || period >= 24*time.Hour {
			t.Errorf("%s resyncs every %v", name, period)
		}
		if period != in.resyncPeriod(name) {
			t.Errorf("the period of %s is not stable", name)
		}
		seen[period] = true
	}
	if len(seen) != 3 {
		t.Error("controllers resync in step")
	}
	if period := in.resyncPeriod("namespace-controller"); period != 5*time.Minute {
		t.Errorf("a period of its own is not spread: %v", period)
	}
}

func TestWholeIsWhatEnabledControllersCacheWhole(t *testing.T) {
	gvr := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	with := func(name string, requires, partial []schema.GroupVersionResource) controller.Descriptor {
		d := describe(controller.Descriptor{Requires: requires, Partial: partial})
		d.Name = name
		return d
	}
	cfg := v1beta1.NewDefault()
	cfg.Controllers.ReplicaSet.Enabled = new(bool)
	got := cachedWhole(cfg, []controller.Descriptor{
		with("deployment-controller", []schema.GroupVersionResource{gvr("pods"), gvr("secrets")}, []schema.GroupVersionResource{gvr("secrets")}),
		with("replicaset-controller", []schema.GroupVersionResource{gvr("nodes")}, nil),
	})
	if len(got) != 1 || !got[gvr("pods")] {
		t.Errorf("got %v, want pods", got)
	}
}

func TestWhatIsCachedWholeFollowsTheConfiguration(t *testing.T) {
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	d := describe(controller.Descriptor{Requires: []schema.GroupVersionResource{nodes}})
	d.Name = "replicaset-controller"
	r := &Runtime{options: Options{Descriptors: []controller.Descriptor{d}}}
	for _, on := range []bool{true, false, true} {
		cfg := v1beta1.NewDefault()
		cfg.Controllers.ReplicaSet.Enabled = &on
		r.document = &config.Document{Config: cfg}
		for range 2 {
			if got := r.cachesWhole(nodes); got != on {
				t.Errorf("enabled: %t, cached whole: %t", on, got)
			}
		}
	}
}
