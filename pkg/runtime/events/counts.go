package events

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// gathered is how long updates of stored events are held back.
	gathered = 2 * time.Second
	// An update without an answer is sent again as often as client-go does with events, and as far apart.
	updateTries = 12
	updateAgain = 10 * time.Second
)

// counts holds back the updates of stored events. Each has the whole count, the last time and the message, so
// that the last one replaces those before it.
type counts struct {
	send func(*corev1.Event, []byte) error

	sending sync.Mutex // held while updates are sent

	mu      sync.Mutex
	held    map[types.NamespacedName]update
	timer   *time.Timer // nil while nothing is held
	due     time.Time   // when the timer fires
	stopped bool
}

// update is a patch of a stored event.
type update struct {
	event *corev1.Event
	patch []byte
	tries int
	again time.Time // not sent before; zero for one that was not tried yet
}

// hold keeps an update of an event until it is sent, or replaced by the next one.
func (c *counts) hold(e *corev1.Event, patch []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdLocked(update{event: e, patch: patch}, time.Now().Add(gathered))
}

func (c *counts) holdLocked(u update, due time.Time) {
	if c.stopped {
		return
	}
	if c.held == nil {
		c.held = map[types.NamespacedName]update{}
	}
	c.held[types.NamespacedName{Namespace: u.event.Namespace, Name: u.event.Name}] = u
	c.scheduleLocked(due)
}

// scheduleLocked has what is due sent at a time, unless that happens before anyway.
func (c *counts) scheduleLocked(due time.Time) {
	if c.timer != nil {
		if !due.Before(c.due) {
			return
		}
		c.timer.Stop()
	}
	c.timer, c.due = time.AfterFunc(time.Until(due), func() { c.sendOnce(c.takeDue) }), due
}

// deliver sends what is held, once. It returns when that, and what was being sent, is done.
func (c *counts) deliver() { c.sendOnce(c.take) }

func (c *counts) sendOnce(take func() map[types.NamespacedName]update) {
	c.sending.Lock()
	defer c.sending.Unlock()
	for name, u := range take() {
		err := c.send(u.event, u.patch)
		switch u.tries++; {
		case err == nil:
		case !mayPass(err) || u.tries == updateTries:
			klog.Background().Error(err, "An event was not updated", "event", name, "reason", u.event.Reason, "tries", u.tries)
		default:
			c.retry(name, u)
		}
	}
}

// take returns what is held.
func (c *counts) take() map[types.NamespacedName]update {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked()
}

func (c *counts) takeLocked() map[types.NamespacedName]update {
	taken := c.held
	c.held = nil
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	return taken
}

// takeDue returns what is held, but for what has failed and is to be sent again later.
func (c *counts) takeDue() map[types.NamespacedName]update {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, due := time.Now(), c.takeLocked()
	for name, u := range due {
		if u.again.After(now) {
			delete(due, name)
			c.holdLocked(u, u.again)
		}
	}
	return due
}

// retry holds an update again, unless there is a newer one.
func (c *counts) retry(name types.NamespacedName, u update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, newer := c.held[name]; !newer {
		u.again = time.Now().Add(updateAgain)
		c.holdLocked(u, u.again)
	}
}

// stop drops what is held.
func (c *counts) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.take()
}

// mayPass reports whether a request that failed may succeed later: it had no answer, or none of an API server.
func mayPass(err error) bool {
	var status *apierrors.StatusError
	var construction *restclient.RequestConstructionError
	return !errors.As(err, &status) && !errors.As(err, &construction)
}
