package daemonset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

const (
	// firstBackoff and maxBackoff bound the time between two replacements of a pod that keeps
	// failing on a node. After twice the latter without a failure the backoff is reset.
	firstBackoff = time.Second
	maxBackoff   = 15 * time.Minute
	// expireInterval is how often expired records are dropped.
	expireInterval = time.Minute
)

// failures is the backoff of failed pods by set, generation and node.
type failures struct{ backoff *flowcontrol.Backoff }

func newFailures(c clock.Clock) failures {
	backoff := flowcontrol.NewBackOff(firstBackoff, maxBackoff)
	backoff.Clock = c
	return failures{backoff}
}

// wait returns the remaining backoff of a failed pod of the set on the node. If it is 0, the
// pod may be replaced now, and the backoff of the next one is increased.
func (f failures) wait(ds *appsv1.DaemonSet, node string) time.Duration {
	key := fmt.Sprintf("%s/%d/%s", ds.UID, ds.Status.ObservedGeneration, node)
	now := f.backoff.Clock.Now()
	if f.backoff.IsInBackOffSinceUpdate(key, now) {
		return f.backoff.Get(key)
	}
	f.backoff.Next(key, now)
	return 0
}

// expire drops old records until ctx ends.
func (f failures) expire(ctx context.Context, c clock.WithTicker) {
	ticker := c.NewTicker(expireInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			f.backoff.GC()
		}
	}
}
