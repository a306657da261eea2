package runtime

import (
	"hash/fnv"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
)

// inputs is everything that determines what runs.
type inputs struct {
	config *v1beta1.KubeControllerManagerConfiguration
	// locks is what may run under each lock, by its name.
	locks map[string]leadership.Right
	// clients is the generation of the clients and caches.
	clients uint64
	// missing returns which of some resources the API server does not serve.
	missing func([]schema.GroupVersionResource) string
	// served is the generation of what it serves.
	served uint64
	// files are the hashes of the contents of the files that controllers read.
	files map[string]string
	// clusterCA is the fingerprint of the CA of the client configuration.
	clusterCA string
	// spread is a number in [0,1) that keeps processes from resyncing at the same time.
	spread float64
}

// desired computes what every controller should be doing.
func desired(in inputs, descriptors []controller.Descriptor) map[string]supervisor.Want {
	wants := make(map[string]supervisor.Want, len(descriptors))
	for _, d := range descriptors {
		wants[d.Name] = want(in, d)
	}
	return wants
}

// want combines what the configuration specifies for a controller with what does not come from
// it: the resources that are served, the contents of files, the connection, and the term.
func want(in inputs, d controller.Descriptor) supervisor.Want {
	spec := specOf(in.config, d)
	if !spec.Runs() {
		return supervisor.Want{State: supervisor.Disabled, Reason: spec.Off}
	}
	if missing := in.missing(d.Resources(spec.Value)); missing != "" {
		return supervisor.Want{State: supervisor.Waiting, Reason: missing}
	}
	chosen, missing := in.choose(d.Alternatives)
	if missing != "" {
		return supervisor.Want{State: supervisor.Waiting, Reason: missing}
	}
	w := supervisor.Want{
		State:  supervisor.Running,
		Spec:   supervisor.Spec{Planned: spec, Files: in.fingerprint(d, spec.Value), Chosen: chosen, Clients: in.clients},
		Resync: resyncPeriod(in, d.Name),
	}
	if d.RunsWithoutLease {
		return paused(w)
	}
	right := in.locks[spec.Lock.Name]
	if reason := right.Refuses(d.Name); reason != "" || spec.Paused {
		w.State, w.Reason = supervisor.Standby, reason
		w.Spec.Planned.Lock = locks.Key{} // it has none, and keeps its caches when the lock changes
		w.Spec.Cold = right.Undecided || right.Term == 0 && in.config.LeaderElection.Standby == v1beta1.StandbyCold
		if d.ReadsServed && !w.Spec.Cold {
			w.Spec.Served = in.served
		}
		return paused(w)
	}
	w.Spec.Term = right.Term
	return w
}

// paused is a want that is not to be carried out while its controller is paused.
func paused(w supervisor.Want) supervisor.Want {
	if w.Spec.Planned.Paused {
		w.State, w.Reason = supervisor.Paused, "paused in the configuration"
	}
	return w
}

// choose returns the first of some resources that is served, or why there is none.
func (in inputs) choose(alternatives []schema.GroupVersionResource) (chosen schema.GroupVersionResource, missing string) {
	for _, r := range alternatives {
		reason := in.missing([]schema.GroupVersionResource{r})
		if reason == "" {
			return r, ""
		}
		if missing == "" {
			missing = reason
		}
	}
	return schema.GroupVersionResource{}, missing
}

// specOf returns everything in a configuration that a controller depends on.
func specOf(cfg *v1beta1.KubeControllerManagerConfiguration, d controller.Descriptor) plan.Spec {
	return plan.SpecOf(cfg, subject(d))
}

// subject is a controller as a Plan sees it.
func subject(d controller.Descriptor) plan.Subject {
	return plan.Subject{Name: d.Name, Enabled: d.Enabled, Value: d.Value, WithoutLease: d.RunsWithoutLease}
}

// Subjects returns the controllers as a Plan sees them.
func Subjects(descriptors []controller.Descriptor) []plan.Subject {
	subjects := make([]plan.Subject, 0, len(descriptors))
	for _, d := range descriptors {
		subjects = append(subjects, subject(d))
	}
	return subjects
}

// wanted returns the enabled controllers of a lock.
func wanted(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor, lock string) []string {
	var all []string
	for _, d := range descriptors {
		if spec := specOf(cfg, d); spec.Runs() && spec.Lock.Name == lock {
			all = append(all, d.Name)
		}
	}
	return all
}

// fingerprint identifies the contents of the files that a controller reads.
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

// resyncPeriod returns the period of a controller's handlers. An inherited period is spread
// over [1,2) times its value, differently for each controller.
func resyncPeriod(in inputs, name string) time.Duration {
	resync := plan.ResyncOf(in.config, name)
	if !resync.Inherited {
		return resync.Period
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	_, fraction := math.Modf(in.spread + float64(h.Sum32())/(1<<32))
	return resync.Period + time.Duration(fraction*float64(resync.Period))
}

// whole returns the resources that enabled controllers cache whole, including while they wait
// or stand by.
func whole(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) map[schema.GroupVersionResource]bool {
	all := map[schema.GroupVersionResource]bool{}
	for _, d := range descriptors {
		spec := specOf(cfg, d)
		if !spec.Runs() {
			continue
		}
		for _, r := range d.Whole(spec.Value) {
			all[r] = true
		}
	}
	return all
}

// files lists the files whose content enabled controllers depend on.
func files(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var all []string
	for _, d := range descriptors {
		if spec := specOf(cfg, d); spec.Runs() {
			all = append(all, d.Files(spec.Value)...)
		}
	}
	return all
}

// followed lists the files that enabled controllers read again while they run.
func followed(cfg *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var all []string
	for _, d := range descriptors {
		if spec := specOf(cfg, d); spec.Runs() {
			all = append(all, d.FollowedFiles(spec.Value)...)
		}
	}
	return all
}
