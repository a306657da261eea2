package runtime

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
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

func TestDesired(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	running := supervisor.Want{
		State:  supervisor.Running,
		Spec:   supervisor.Spec{Value: value{workers: 5, file: "ca.crt"}, Files: "ca.crt=1234\n", Clients: 3, Term: 7},
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
		"another process leads": {
			change: func(in *inputs) { in.term = 0 },
			want: with(func(w *supervisor.Want) {
				w.State, w.Reason, w.Spec.Term = supervisor.Standby, "another process holds the lease", 0
			}),
		},
		"needs no lease": {
			descriptor: controller.Descriptor{RunsWithoutLease: true},
			change:     func(in *inputs) { in.term = 0 },
			want:       with(func(w *supervisor.Want) { w.Spec.Term = 0 }),
		},
		"the value changed": {
			change: func(in *inputs) { *in.config.Controllers.Deployment.ConcurrentSyncs = 20 },
			want:   with(func(w *supervisor.Want) { w.Spec.Value = value{workers: 20, file: "ca.crt"} }),
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
			config := v1beta1.NewDefault()
			config.ServiceAccounts.RootCAFile = "ca.crt"
			config.Controllers.Deployment.ResyncPeriod = &metav1.Duration{Duration: time.Hour}
			in := inputs{
				config: config, term: 7, clients: 3,
				missing: func([]schema.GroupVersionResource) string { return "" },
				files:   map[string]string{"ca.crt": "1234"},
			}
			if c.change != nil {
				c.change(&in)
			}
			d := describe(c.descriptor)
			if got := desired(in, []controller.Descriptor{d})[d.Name]; got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestInheritedResyncPeriodsAreSpread(t *testing.T) {
	in := inputs{config: v1beta1.NewDefault(), spread: 0.5}
	seen := map[time.Duration]bool{}
	for _, name := range []string{"deployment-controller", "replicaset-controller", "endpointslice-controller"} {
		period := resyncPeriod(in, name)
		if period < 12*time.Hour || period >= 24*time.Hour {
			t.Errorf("%s resyncs every %v", name, period)
		}
		if period != resyncPeriod(in, name) {
			t.Errorf("the period of %s is not stable", name)
		}
		seen[period] = true
	}
	if len(seen) != 3 {
		t.Error("controllers resync in step")
	}
	if period := resyncPeriod(in, "namespace-controller"); period != 5*time.Minute {
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
	config := v1beta1.NewDefault()
	config.Controllers.ReplicaSet.Enabled = new(bool)
	got := whole(config, []controller.Descriptor{
		with("deployment-controller", []schema.GroupVersionResource{gvr("pods"), gvr("secrets")}, []schema.GroupVersionResource{gvr("secrets")}),
		with("replicaset-controller", []schema.GroupVersionResource{gvr("nodes")}, nil),
	})
	if len(got) != 1 || !got[gvr("pods")] {
		t.Errorf("got %v, want pods", got)
	}
}
