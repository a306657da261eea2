package leadership

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
)

// flushing is a connection that notes who holds a lease when its events are flushed.
type flushing struct {
	remembering
	holder func() string
	noted  *[]string
}

func (f flushing) FlushEvents() { *f.noted = append(*f.noted, f.holder()) }

// runner counts how often it is told that something has changed.
type runner struct{ told int }

func (r *runner) Synchronize(context.Context) { r.told++ }
func (r *runner) Pending() map[string]bool    { return nil }

// Events of controllers may only be written under the lease, so they are delivered before it goes to another process.
func TestEventsAreDeliveredBeforeAHandOver(t *testing.T) {
	client := fakeclient.New()
	holder := holderIn(t, client)
	elector, err := election.New(election.Options{
		Leases: client.CoordinationV1(), Namespace: groupLease.Namespace, Name: groupLease.Name, Identity: "me",
		Timings: election.Timings{LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go elector.Run(ctx)
	await.That(t, "it leads", func(context.Context) error {
		if elector.State().Term == nil {
			return errors.New("it does not")
		}
		return nil
	})
	tasks, told := tasks(t), &runner{}
	l := New(Options{Tasks: tasks, Runner: told})
	l.election = v1beta1.LeaderElection{LeaseDuration: &metav1.Duration{Duration: time.Hour}}
	k := lockOf(groupLease)
	var noted []string
	k.elector, k.term = elector, elector.State().Term
	k.connection = flushing{remembering: k.connection.(remembering), holder: holder, noted: &noted}

	l.handOver(ctx, k)
	(<-tasks.Done())()
	if !slices.Equal(noted, []string{"me"}) || holder() != "" || told.told != 1 {
		t.Errorf("events were flushed while the holder was %q; it is %q, the runner was told %d times", noted, holder(), told.told)
	}
}

// holderIn returns a function that returns the holder of the lease of a group.
func holderIn(t *testing.T, client kubernetes.Interface) func() string {
	return func() string {
		t.Helper()
		lease, err := client.CoordinationV1().Leases(groupLease.Namespace).Get(t.Context(), groupLease.Name, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return ""
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
}
