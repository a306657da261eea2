package runtime

import (
	"cmp"
	"hash/fnv"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/supervisor"
)

// inputs are everything that decides what runs.
type inputs struct {
	config *v1beta1.KubeControllerManagerConfiguration
	// locks is what may run under each lock, by its name.
	locks map[string]right
	// clients is the generation of the clients and caches.
	clients uint64
	// missing says which of some resources the API server does not serve.
	missing func([]schema.GroupVersionResource) string
	// served is the generation of what it serves.
	served uint64
	// files are the hashes of the contents of the files that controllers read.
	files map[string]string
	// clusterCA is the fingerprint of the CA data of the kubeconfig.
	clusterCA string
	// spread is a number in [0,1) that keeps processes from resyncing in step.
	spread float64
}

// desired decides what every controller should be doing.
func desired(in inputs, descriptors []controller.Descriptor) map[string]supervisor.Want {
	wants := make(map[string]supervisor.Want, len(descriptors))
	for _, d := range descriptors {
		wants[d.Name] = want(in, d)
	}
	return wants
}

func want(in inputs, d controller.Descriptor) supervisor.Want {
	if ok, reason := enabled(in.config, d); !ok {
		return supervisor.Want{State: supervisor.Disabled, Reason: reason}
	}
	value := d.Value(in.config)
	if missing := in.missing(d.Resources(value)); missing != "" {
		return supervisor.Want{State: supervisor.Waiting, Reason: missing}
	}
	w := supervisor.Want{
		State:  supervisor.Running,
		Spec:   supervisor.Spec{Value: value, Files: in.fingerprint(d, value), Clients: in.clients},
		Resync: resyncPeriod(in, d.Name),
	}
	if d.RunsWithoutLease {
		return w
	}
	lock, _ := config.LockOf(in.config, d.Name)
	right := in.locks[lock]
	if reason := right.refuses(d.Name); reason != "" {
		w.State, w.Reason = supervisor.Standby, reason
		w.Spec.Cold = right.term == 0 && in.config.LeaderElection.Standby == v1beta1.StandbyCold
		if d.ReadsServed && !w.Spec.Cold {
			w.Spec.Served = in.served
		}
		return w
	}
	w.Spec.Term = right.term
	return w
}

// refuses says why a controller may not run under a lock, empty if it may.
func (r right) refuses(name string) string {
	switch {
	case r.term == 0:
		return cmp.Or(r.reason, "the lock is not held")
	case r.granted == nil || r.granted(name):
		return ""
	case r.blocked[name] != "":
		return r.blocked[name]
	case r.reason != "":
		return r.reason
	}
	return "it is being asked whether another process still runs it"
}

// enabled reports whether this process is to run a controller while it holds the lock of
// it, and if not, why.
func enabled(cfg *v1beta1.KubeControllerManagerConfiguration, d controller.Descriptor) (ok bool, reason string) {
	if ok, reason := d.Enabled(cfg); !ok || d.RunsWithoutLease {
		return ok, reason
	}
	if _, ok := config.LockOf(cfg, d.Name); !ok {
		return false, "leader migration gives it to another component"
	}
	return true, ""
}

// wanted are the enabled controllers of a lock.
func wanted(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor, lock string) []string {
	var all []string
	for _, d := range descriptors {
		if ok, _ := enabled(cfg, d); !ok || d.RunsWithoutLease {
			continue
		}
		if of, _ := config.LockOf(cfg, d.Name); of == lock {
			all = append(all, d.Name)
		}
	}
	return all
}

// fingerprint stands for the contents of the files that a controller reads.
func (in inputs) fingerprint(d controller.Descriptor, value any) string {
	var b strings.Builder
	for _, f := range d.Files(value) {
		b.WriteString(f + "=" + in.files[f] + "\n")
	}
	if d.ReadsClusterCA(value) {
		b.WriteString("the kubeconfig=" + in.clusterCA + "\n")
	}
	return b.String()
}

// resyncPeriod is the period of a controller's handlers. An inherited period is spread
// over [1,2) times its value, differently for each controller.
func resyncPeriod(in inputs, name string) time.Duration {
	var own *metav1.Duration
	for _, c := range in.config.Controllers.All() {
		if c.Name == name {
			own = c.ResyncPeriod
		}
	}
	period, inherited := in.config.ResyncPeriod(own)
	if !inherited {
		return period
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	_, fraction := math.Modf(in.spread + float64(h.Sum32())/(1<<32))
	return period + time.Duration(fraction*float64(period))
}

// whole says which resources enabled controllers cache whole, also while they wait or stand by.
func whole(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) map[schema.GroupVersionResource]bool {
	all := map[schema.GroupVersionResource]bool{}
	for _, d := range descriptors {
		if ok, _ := enabled(cfg, d); !ok {
			continue
		}
		for _, r := range d.Whole(d.Value(cfg)) {
			all[r] = true
		}
	}
	return all
}

// files lists the files that enabled controllers read.
func files(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var all []string
	for _, d := range descriptors {
		if ok, _ := enabled(cfg, d); ok {
			all = append(all, d.Files(d.Value(cfg))...)
		}
	}
	return all
}
