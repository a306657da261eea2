package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/manager"
)

// Subject is a manager in this process or in one of its own.
type Subject interface {
	Status(context.Context) (kcmruntime.Status, error)
	Edit(context.Context, func(*manager.Config)) error
	Wait(context.Context, string, func(*kcmruntime.Status) error) error
}

// Status returns a snapshot of a manager.
func Status(t testing.TB, m Subject) kcmruntime.Status {
	t.Helper()
	s, err := m.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Edit changes the configuration of a manager and returns when the change is in force.
func Edit(t testing.TB, m Subject, change func(*manager.Config)) {
	t.Helper()
	if err := m.Edit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// CarryOut is Edit that returns when every controller has stopped, started or been replaced as the
// change demands. After an Edit, instances that are to stop may still be at work.
func CarryOut(t testing.TB, m Subject, change func(*manager.Config)) {
	t.Helper()
	Edit(t, m, change)
	Wait(t, m, "the edit is carried out", CarriedOut)
}

// CarriedOut is nil if no controller has yet to do what was decided about it.
func CarriedOut(s *kcmruntime.Status) error {
	for _, c := range s.Controllers {
		if c.Pending {
			return fmt.Errorf("%s is %s, and a decision is not carried out yet", c.Name, c.State)
		}
	}
	return nil
}

// Wait waits until check returns nil for the status of a manager, and returns that status.
func Wait(t testing.TB, m Subject, what string, check func(*kcmruntime.Status) error) kcmruntime.Status {
	t.Helper()
	var last kcmruntime.Status
	err := m.Wait(t.Context(), what, func(s *kcmruntime.Status) error {
		last = *s
		return check(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// LeaseOf names the lease of a test.
func LeaseOf(t testing.TB) string {
	return strings.Trim(strings.ToLower(strings.NewReplacer("/", "-", "_", "-", " ", "-", "#", "-").Replace(t.Name())), "-")
}

// OwnLease keeps the managers of different tests apart.
func OwnLease(t testing.TB) func(*manager.Config) {
	return func(c *manager.Config) { c.LeaderElection.ResourceName = LeaseOf(t) }
}

// Lease sets how long a lease lasts, until when it has to be renewed, and how often that is
// tried.
func Lease(duration, renewDeadline, retryPeriod time.Duration) func(*manager.Config) {
	return func(c *manager.Config) {
		c.LeaderElection.LeaseDuration = &metav1.Duration{Duration: duration}
		c.LeaderElection.RenewDeadline = &metav1.Duration{Duration: renewDeadline}
		c.LeaderElection.RetryPeriod = &metav1.Duration{Duration: retryPeriod}
	}
}

// Settle makes a manager read its file as soon as that has been quiet for d.
func Settle(d time.Duration) func(*manager.Config) {
	return func(c *manager.Config) { c.Reload.SettleTime = &metav1.Duration{Duration: d} }
}

// ControllerOf returns the status of one controller.
func ControllerOf(s *kcmruntime.Status, name string) supervisor.Status {
	for _, c := range s.Controllers {
		if c.Name == name {
			return c
		}
	}
	return supervisor.Status{Name: name}
}

// CachesFilled is nil if every cache is complete.
func CachesFilled(s *kcmruntime.Status) error {
	for _, i := range s.Informers {
		if !i.Synced {
			return fmt.Errorf("%s is not synced", i.Resource)
		}
	}
	return nil
}

// LoopsBegan returns an error while a running controller waits for its caches. What a manager
// reads once when its term begins, to compare caches with, has been read then.
func LoopsBegan(s *kcmruntime.Status) error {
	for _, c := range s.Controllers {
		if c.State != supervisor.Running {
			continue
		}
		if slices.ContainsFunc(c.Loops, func(l controller.LoopStatus) bool { return l.Waiting != "" || l.Began.IsZero() }) {
			return fmt.Errorf("%s has not begun, it waits: %q", c.Name, waitedFor(c.Loops))
		}
	}
	return nil
}

// waitedFor is what keeps loops from beginning. Caches have an entry of their own.
func waitedFor(loops []controller.LoopStatus) string {
	var all []string
	for _, l := range loops {
		if l.Waiting != "" {
			all = append(all, l.Waiting)
		}
	}
	return strings.Join(all, "; ")
}

// StandsBy is nil if a manager does not lead, runs nothing, and has caches that are filled.
func StandsBy(s *kcmruntime.Status) error {
	if s.Leadership.Leading {
		return errors.New("it leads")
	}
	for _, c := range s.Controllers {
		if c.State == supervisor.Running || c.State == supervisor.Stopping {
			return fmt.Errorf("%s is %s", c.Name, c.State)
		}
	}
	if len(s.Informers) == 0 {
		return errors.New("it has no caches")
	}
	return CachesFilled(s)
}

// QueuesAreEmpty returns an error while a work queue holds a key.
func QueuesAreEmpty(s *kcmruntime.Status) error {
	for _, c := range s.Controllers {
		for _, l := range c.Loops {
			if l.Depth > 0 || len(l.InFlight) > 0 {
				return fmt.Errorf("%s has %d keys waiting and %d in flight", c.Name, l.Depth, len(l.InFlight))
			}
		}
	}
	return nil
}
