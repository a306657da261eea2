package runtime

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/runtime/breaker"
)

// Reasons of the events about deletions.
const (
	reasonDeletionsStopped  = "DeletionsStopped"
	reasonDeletionsExceeded = "DeletionsExceeded"
	reasonDeletionsResumed  = "DeletionsResumed"
)

// cachesOfBreaker are those of the connection in force.
func (r *Runtime) cachesOfBreaker() breaker.Caches {
	if conn := r.connectionInForce(); conn != nil {
		return conn.Informers()
	}
	return nil
}

// announceStop reports in the log, and as an event on the lease, that controllers were about to
// delete too much. It is called by the goroutine that deletes.
func (r *Runtime) announceStop(ctx context.Context, s breaker.Stop, stopped bool) {
	target, logger := eventTarget(r.configuration().LeaderElection), klog.FromContext(ctx)
	if !stopped {
		logger.Error(nil, "Controllers delete more than deletionBreaker allows; they go on, since its mode is Warn", "resource", s.Resource, "why", s.Reason())
		r.events.Event(target, corev1.EventTypeWarning, reasonDeletionsExceeded,
			short(fmt.Sprintf("Deletions of %s go on, since the mode of deletionBreaker is Warn: %s.", s.Resource, s.Reason())))
		return
	}
	remedy := breaker.Remedy(s.Since)
	logger.Error(nil, "Deletions are stopped", "resource", s.Resource, "why", s.Reason(), "remedy", remedy)
	r.events.Event(target, corev1.EventTypeWarning, reasonDeletionsStopped,
		short(fmt.Sprintf("Deletions of %s are stopped: %s. %s", s.Resource, s.Reason(), remedy)))
}

// announceResumed reports in the log, and as an event on the lease, which deletions go on.
func (r *Runtime) announceResumed(ctx context.Context, resumed []breaker.Stop) {
	if len(resumed) == 0 {
		return
	}
	names := make([]string, 0, len(resumed))
	for _, s := range resumed {
		names = append(names, s.Resource)
	}
	what := strings.Join(names, ", ")
	klog.FromContext(ctx).Info("Deletions go on", "resources", what)
	r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeNormal, reasonDeletionsResumed, short("Deletions of "+what+" go on."))
}
