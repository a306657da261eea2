// Package controllers tests every controller as a user sees it: on a real API
// server, with a real scheduler and simulated nodes that make pods Ready.
//
//  1. All tests share one control plane and one manager with the controllers that are
//     tested here (onlyTested), each with its own service account: a right that the API
//     server's bootstrap roles do not give fails the run (manager.RunTests).
//  2. A test has a namespace of its own and runs in parallel with the others, unless
//     it changes the manager's configuration; those run first, alone.
//  3. Tests wait for conditions, with a deadline. That something does not happen is
//     shown by something that happens later, or by the order of a watch.
//  4. The garbage collector is off: what a deleted object owned stays until its
//     namespace is deleted. Some tests rely on that.
package controllers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

const (
	// nodes is one for each zone that the control plane spreads nodes over.
	nodes = 3
	// parallelTests is more than there are processors: tests mostly wait.
	parallelTests = 12
	// deadline bounds every wait; a healthy run comes nowhere near it.
	deadline     = 30 * time.Second
	pollInterval = 25 * time.Millisecond
)

var (
	plane *controlplane.ControlPlane
	kcm   *manager.Manager
	admin kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(parallelTests)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	options := controlplane.Options{
		Nodes:         nodes,
		Scheduler:     true,
		APIServerArgs: []string{"--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112"},
	}
	os.Exit(manager.RunTests(m, options, onlyTested, func(cp *controlplane.ControlPlane, started *manager.Manager) {
		plane, kcm, admin = cp, started, cp.AdminClient()
	}))
}

// onlyTested turns on what the tests of this package are about, and nothing else.
func onlyTested(c *manager.Config) {
	c.ControllerDefaults.Enabled = ptr.To(false)
	for _, enabled := range []**bool{
		&c.Controllers.ServiceAccountToken.Enabled,
		&c.Controllers.ServiceAccount.Enabled,
		&c.Controllers.RootCACertificatePublisher.Enabled,
		&c.Controllers.Namespace.Enabled,
		&c.Controllers.ReplicationController.Enabled,
		&c.Controllers.ReplicaSet.Enabled,
		&c.Controllers.DaemonSet.Enabled,
		&c.Controllers.Deployment.Enabled,
		&c.Controllers.HorizontalPodAutoscaler.Enabled,
		&c.Controllers.Disruption.Enabled,
		&c.Controllers.Endpoints.Enabled,
		&c.Controllers.EndpointSlice.Enabled,
		&c.Controllers.EndpointSliceMirroring.Enabled,
		&c.Controllers.Job.Enabled,
		&c.Controllers.StatefulSet.Enabled,
	} {
		*enabled = ptr.To(true)
	}
	// As often as the configuration permits: every test of autoscaling waits for it.
	c.Controllers.HorizontalPodAutoscaler.SyncPeriod = &metav1.Duration{Duration: time.Second}
}

func isSet(name string) bool {
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// newNamespace creates a namespace for the test and waits until pods can be created
// in it.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := plane.Namespace(t)
	eventually(t, "the namespace has its default service account", func(ctx context.Context) error {
		_, err := admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace
}

// eventually waits until check returns nil. An errFinal ends the wait at once.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error // that is not just the deadline in the middle of a request
	for {
		err := check(ctx)
		switch {
		case err == nil:
			return
		case errors.As(err, new(errFinal)):
			t.Fatalf("waiting until %s: %v", what, err)
		case ctx.Err() == nil || last == nil:
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v: %v", what, context.Cause(ctx), last)
		}
	}
}

// errFinal is an error that waiting cannot cure.
type errFinal struct{ error }

// final makes the error of a GET final if the object does not exist any more.
func final(err error) error {
	if apierrors.IsNotFound(err) {
		return errFinal{err}
	}
	return err
}

// gone turns the answer of a GET into an error unless the object does not exist.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it still exists")
	}
	return err
}

// must returns the value of a call that has to work.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// eventText is what a user sees of an event.
func eventText(e *corev1.Event) string {
	return fmt.Sprintf("%s %s %s: %s", e.Source.Component, e.Type, e.Reason, e.Message)
}

// eventsOf lists the events of an object, the oldest first.
func eventsOf(ctx context.Context, namespace string, uid types.UID) ([]string, error) {
	list, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(uid)})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	var texts []string
	for i := range list.Items {
		texts = append(texts, eventText(&list.Items[i]))
	}
	return texts, nil
}

// waitForEvents waits until the object has just these events, in any order.
func waitForEvents(t *testing.T, namespace string, uid types.UID, want ...string) {
	t.Helper()
	slices.Sort(want)
	eventually(t, "the events are there", func(ctx context.Context) error {
		got, err := eventsOf(ctx, namespace, uid)
		if err != nil {
			return err
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

// waitForEvent waits until the object has the event, among others.
func waitForEvent(t *testing.T, namespace string, uid types.UID, want string) {
	t.Helper()
	eventually(t, "the event is there", func(ctx context.Context) error {
		got, err := eventsOf(ctx, namespace, uid)
		if err == nil && !slices.Contains(got, want) {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}
