package runtime

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// reasonEtcdRestored is the reason of the event about a restore of etcd.
const reasonEtcdRestored = "EtcdRestored"

// restores is what the process knows about restores of etcd. The rules:
//
//  1. A lease whose resource version has gone back, or that was taken at a version which had been replaced before, shows
//     that etcd was restored. All terms have ended by the time the loop learns of it, and no other begins on this
//     connection (packages election and leadership).
//  2. What was read before is of another history, for each kind until its informer notices by itself, which it may
//     never do. So is what is remembered of writes: what was left on a lease or handed over, versions, UIDs. All of
//     this belongs to the connection or to instances that were built on it, so another connection, to the same API
//     server with the same credentials, replaces it. The process takes part in the elections again on that one.
//  3. A standby does the same: it may lead next.
//  4. API servers that contradict each other must not have caches filled all the time. Between two replacements pass
//     restorePause, during which the process stands by.
type restores struct {
	counter *metrics.Counter
	counted uint64    // the newest connection that is known to be outdated
	last    time.Time // when a connection was last replaced, or that was tried
	waiting bool      // it is tried again after a while
}

// restorePause is the shortest time between two replacements of the connection.
const restorePause = time.Minute

// wait returns how long the next replacement has to wait.
func (s *restores) wait(now time.Time) time.Duration {
	if s.last.IsZero() {
		return 0
	}
	return max(s.last.Add(restorePause).Sub(now), 0)
}

func newRestoreCounter(r telemetry.Registerer) *metrics.Counter {
	c := metrics.NewCounter(&metrics.CounterOpts{
		Namespace: "kcmd", Name: "etcd_restores_total", StabilityLevel: metrics.ALPHA,
		Help: "Total number of times that resource versions went back, as after a restore of etcd, " +
			"so that all caches were replaced.",
	})
	r.MustRegister(c)
	return c
}

// startOver replaces a connection that is outdated because etcd was restored.
func (r *Runtime) startOver(ctx context.Context) {
	defer r.watchdog.Begin("a restore of etcd")()
	outdated := r.connection.Generation()
	if r.stopping || !r.leadership.Outdated(outdated) {
		return // it was replaced meanwhile
	}
	if r.restores.counted != outdated {
		r.restores.counted = outdated
		r.restores.counter.Inc()
	}
	now := r.options.Clock.Now()
	if wait := r.restores.wait(now); wait > 0 {
		klog.FromContext(ctx).Error(nil, "Resource versions have gone back again, standing by before caches are filled anew",
			"for", wait)
		r.startOverAfter(ctx, wait)
		return
	}
	r.restores.last = now
	tx := r.begin(supervisor.CauseClients)
	tx.restored = true
	if err := tx.run(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Caches cannot be filled anew after a restore of etcd; this is retried")
		r.startOverAfter(ctx, restorePause)
		return
	}
	klog.FromContext(ctx).Info("Filling all caches anew after a restore of etcd",
		"connection", r.connection.Generation())
	r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeWarning, reasonEtcdRestored,
		"Resource versions have gone back, as after a restore of etcd. "+
			"All controllers were stopped, and all caches are filled anew.")
}

// startOverAfter has the loop try again after a while.
func (r *Runtime) startOverAfter(ctx context.Context, wait time.Duration) {
	if r.restores.waiting {
		return
	}
	r.restores.waiting = true
	r.tasks.Do(func(background context.Context) func() {
		timer := r.options.Clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-background.Done():
		}
		return func() {
			r.restores.waiting = false
			r.startOver(ctx)
		}
	})
}
