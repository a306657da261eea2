package runtime

import (
	"hash/fnv"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/supervisor"
)

// inputs are everything that decides what runs.
type inputs struct {
	config *v1beta1.KubeControllerManagerConfiguration
	// term is the number of the leadership term; 0 while another process leads.
	term uint64
	// clients is the generation of the clients and caches.
	clients uint64
	// missing says which of some resources the API server does not serve.
	missing func([]schema.GroupVersionResource) string
	// files are the hashes of the contents of the files that controllers read.
	files map[string]string
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
	if enabled, reason := d.Enabled(in.config); !enabled {
		return supervisor.Want{State: supervisor.Disabled, Reason: reason}
	}
	value := d.Value(in.config)
	if missing := in.missing(d.Resources(value)); missing != "" {
		return supervisor.Want{State: supervisor.Waiting, Reason: missing}
	}
	w := supervisor.Want{
		State:  supervisor.Running,
		Spec:   supervisor.Spec{Value: value, Files: in.fingerprint(d.Files(value)), Clients: in.clients},
		Resync: resyncPeriod(in, d.Name),
	}
	switch {
	case d.RunsWithoutLease:
	case in.term == 0:
		w.State, w.Reason = supervisor.Standby, "another process holds the lease"
	default:
		w.Spec.Term = in.term
	}
	return w
}

// fingerprint stands for the contents of files.
func (in inputs) fingerprint(files []string) string {
	if len(files) == 0 {
		return ""
	}
	var b strings.Builder
	for _, f := range files {
		b.WriteString(f + "=" + in.files[f] + "\n")
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
func whole(config *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) map[schema.GroupVersionResource]bool {
	all := map[schema.GroupVersionResource]bool{}
	for _, d := range descriptors {
		if enabled, _ := d.Enabled(config); !enabled {
			continue
		}
		for _, r := range d.Whole(d.Value(config)) {
			all[r] = true
		}
	}
	return all
}

// files lists the files that enabled controllers read.
func files(config *v1beta1.KubeControllerManagerConfiguration, descriptors []controller.Descriptor) []string {
	var all []string
	for _, d := range descriptors {
		if enabled, _ := d.Enabled(config); enabled {
			all = append(all, d.Files(d.Value(config))...)
		}
	}
	return all
}
