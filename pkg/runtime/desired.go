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

// desiredState computes what every controller should be doing, by name.
func desiredState(in inputs, descriptors []controller.Descriptor) map[string]supervisor.Want {
	wants := make(map[string]supervisor.Want, len(descriptors))
	for _, d := range descriptors {
		wants[d.Name] = in.wantOf(d)
	}
	return wants
}

// wantOf combines what the configuration specifies for a controller with what does not come from
// it: the resources that are served, the contents of files, the connection, and the term.
func (in inputs) wantOf(d controller.Descriptor) supervisor.Want {
	planned := plannedSpec(in.config, d)
	if !planned.Runs() {
		return supervisor.Want{State: supervisor.Disabled, Reason: planned.Off}
	}
	if missing := in.missing(d.Resources(planned.Value)); missing != "" {
		return supervisor.Want{State: supervisor.Waiting, Reason: missing}
	}
	chosen, missing := in.firstServed(d.Alternatives)
	if missing != "" {
		return supervisor.Want{State: supervisor.Waiting, Reason: missing}
	}
	w := supervisor.Want{
		State: supervisor.Running,
		Spec: supervisor.Spec{
			Planned: planned, Files: in.fingerprintOfFiles(d, planned.Value), Chosen: chosen, Clients: in.clients,
		},
		Resync: in.resyncPeriod(d.Name),
	}
	if !d.RunsWithoutLease {
		w = in.heldBackByLock(w, d)
	}
	return heldBackByPause(w)
}

// heldBackByLock has a controller stand by unless this process may run it under its lock. One that is paused keeps its
// caches in the same way.
func (in inputs) heldBackByLock(w supervisor.Want, d controller.Descriptor) supervisor.Want {
	right := in.locks[w.Spec.Planned.Lock.Name]
	reason := right.Refuses(d.Name)
	if reason == "" && !w.Spec.Planned.Paused {
		w.Spec.Term = right.Term
		return w
	}
	w.State, w.Reason = supervisor.Standby, reason
	w.Spec.Planned.Lock = locks.Key{} // it has none, and keeps its caches when the lock changes
	w.Spec.Cold = right.Undecided || right.Term == 0 && in.config.LeaderElection.Standby == v1beta1.StandbyCold
	if d.ReadsServed && !w.Spec.Cold {
		w.Spec.Served = in.served
	}
	return w
}

// heldBackByPause has a controller not run while the configuration pauses it.
func heldBackByPause(w supervisor.Want) supervisor.Want {
	if w.Spec.Planned.Paused {
		w.State, w.Reason = supervisor.Paused, "paused in the configuration"
	}
	return w
}

// firstServed returns the first of some resources that is served, or why there is none.
func (in inputs) firstServed(alternatives []schema.GroupVersionResource) (served schema.GroupVersionResource, missing string) {
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

// fingerprintOfFiles identifies the contents of the files that a controller reads.
func (in inputs) fingerprintOfFiles(d controller.Descriptor, value any) string {
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
func (in inputs) resyncPeriod(name string) time.Duration {
	resync := plan.ResyncOf(in.config, name)
	if !resync.Inherited {
		return resync.Period
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	_, fraction := math.Modf(in.spread + float64(h.Sum32())/(1<<32))
	return resync.Period + time.Duration(fraction*float64(resync.Period))
}
