package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
)

// RunTests is the body of a TestMain: it starts one control plane and one manager in
// this process for the package, hands them to set, runs the tests, stops both and
// returns the exit code. A request of the manager that the API server refused as
// forbidden, a panic and a controller that failed fail the run. SIGINT and SIGTERM stop
// both too and exit with 128 plus the signal's number. The log of the control plane goes to
// stderr unless its options say otherwise; those of the manager are as for Begin.
func RunTests(m *testing.M, o controlplane.Options, r runtime.Options, edit func(*Config), set func(*controlplane.ControlPlane, *Manager)) int {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	cp, manager, err := launchBoth(ctx, o, r, edit)
	if err != nil {
		return report(err)
	}
	stop := func() error { return errors.Join(manager.Stop(), cp.Err(), cp.Stop()) }
	set(cp, manager)
	code := make(chan int, 1)
	go func() { code <- m.Run() }()
	select {
	case received := <-signals:
		number, _ := received.(syscall.Signal)
		report(stop())
		return 128 + int(number)
	case c := <-code:
		return max(c, report(forbidden(cp)), report(manager.failures(ctx)), report(stop()))
	}
}

// report prints an error and returns the exit code it means.
func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// failures is an error that reports controllers that panicked or ended unasked.
func (i *instance) failures(ctx context.Context) error {
	status, err := i.Status(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range status.Controllers {
		if c.LastError != "" || c.Abandoned > 0 {
			failed = append(failed, fmt.Errorf("%s failed, %d instances were given up: %s", c.Name, c.Abandoned, c.LastError))
		}
		if c.HandOverError != "" {
			failed = append(failed, fmt.Errorf("%s handed nothing over: %s", c.Name, c.HandOverError))
		}
		for _, l := range c.Loops {
			if l.Panicked > 0 {
				failed = append(failed, fmt.Errorf("%s: %d keys of queue %s panicked, last error: %s", c.Name, l.Panicked, l.Queue, l.LastError))
			}
		}
	}
	return errors.Join(failed...)
}

func launchBoth(ctx context.Context, o controlplane.Options, r runtime.Options, edit func(*Config)) (*controlplane.ControlPlane, *Manager, error) {
	cp, err := controlplane.Start(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	m, err := launch(ctx, cp, r, edit)
	if err != nil {
		return nil, nil, errors.Join(err, cp.Stop())
	}
	return cp, m, nil
}

// forbidden is an error that lists what Forbidden finds since the beginning.
func forbidden(cp *controlplane.ControlPlane) error {
	refused, err := Forbidden(cp, 0)
	if err != nil {
		return err
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("the API server refused %d requests of the manager as forbidden:\n%s", len(refused), strings.Join(refused, "\n"))
}

// Forbidden lists the requests after mark that the API server refused to the manager
// or to a service account in kube-system because its rights do not suffice, one line
// each. A write into a namespace that is being deleted, or beyond a quota, is
// answered with the same code for reasons that have nothing to do with rights; those
// are left out.
func Forbidden(cp *controlplane.ControlPlane, mark controlplane.Mark) ([]string, error) {
	events, err := cp.Audit().Since(mark, refusedForRights)
	if err != nil {
		return nil, err
	}
	lines := make([]string, 0, len(events))
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Message))
	}
	return lines, nil
}

// refusedForRights passes events that authorization answered, not admission:
// authorization leaves its decision in an annotation.
func refusedForRights(e *auditv1.Event) bool {
	return e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden &&
		e.Annotations["authorization.k8s.io/decision"] != "allow"
}
