package connection

import (
	"errors"
	"testing"
	"time"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/telemetry"
)

// What is worth reporting of changes of credentials: each failure once, and the end of it.
func TestWhatIsReportedOfChangedCredentials(t *testing.T) {
	r := NewRotation(telemetry.NewOutcomes(telemetry.NewRegistry(), "credentials", "changes", "change"))
	now := time.Unix(1000, 0)
	broken, other := errors.New("a certificate without its key"), errors.New("no such file")
	for n, step := range []struct {
		difference clients.Difference
		err        error
		want       News
		files      int
		renewed    uint64
	}{
		{clients.Same, nil, Nothing, 0, 0},
		{clients.Renewed, nil, Renewed, 0, 1},
		{clients.Renewed, broken, Failed, 1, 1},
		{clients.Renewed, broken, Nothing, 1, 1},
		{clients.Renewed, other, Failed, 1, 1},
		{clients.Same, nil, Reverted, 0, 1},
		{clients.Same, nil, Nothing, 0, 1},
		{clients.Renewed, broken, Failed, 1, 1},
		{clients.Elsewhere, nil, Renewed, 0, 2},
	} {
		if got := r.Note(now, []string{"kubeconfig"}, step.difference, step.err); got != step.want {
			t.Errorf("step %d: got %v, want %v", n, got, step.want)
		}
		if len(r.Found()) != step.files || r.renewed != step.renewed {
			t.Errorf("step %d: found %v, renewed %d times", n, r.Found(), r.renewed)
		}
	}
}

// What is wrong with the credentials of one connection says nothing about the next.
func TestAConnectionThatIsReplacedIsForgotten(t *testing.T) {
	r := NewRotation(telemetry.NewOutcomes(telemetry.NewRegistry(), "credentials", "changes", "change"))
	r.Note(time.Unix(1, 0), []string{"kubeconfig"}, clients.Renewed, errors.New("no certificate"))
	r.Forget()
	if len(r.Found()) > 0 || r.failure != "" {
		t.Errorf("%q of %q is known", r.failure, r.Found())
	}
	if got := r.Note(time.Unix(2, 0), nil, clients.Same, nil); got != Nothing {
		t.Errorf("the next attempt is news %d", got)
	}
}
