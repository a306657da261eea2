package status

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/cli/endpoint"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sample is the status of a process to which all happened that is shown.
func sample() *status.Status {
	return &status.Status{
		Started: now.Add(-26 * time.Hour), Version: "v1.36.3-kcmd.1",
		Configuration: status.Configuration{File: "config.yaml", Hash: "abc", Generation: 4, Rejected: "config.yaml:3:1: x: unknown field\nconfig.yaml:4:1: y: unknown field"},
		Connection:    connection.Status{Error: "the certificate has expired", Unreached: "API discovery failed: connection refused"},
		Informers: []informers.Status{
			{Resource: "pods", Running: true, Synced: true, Refs: 1, LastError: "connection refused"},
			{Group: "apps", Resource: "deployments", Running: true, Synced: true, Refs: 1, LastError: "connection refused"},
			{Resource: "nodes", Running: true, Synced: true, Refs: 1},
		},
		Pauses: []pausing.Pause{{Namespace: "shop", Since: now.Add(-2 * time.Hour)}, {Controller: "e", Since: now.Add(-5 * time.Minute)}},
		Deletions: &breaker.Status{Mode: "Stop", Stops: []breaker.Stop{
			{Resource: "pods", Since: now.Add(-3 * time.Minute), Controller: "namespace-controller", Next: 40, Deleted: 90, Objects: 600, Limit: 120, Window: "5m"},
		}},
		Leadership: leadership.Status{Leases: []leadership.LeaseStatus{
			{Lock: "main", Leading: true, Term: 2, Controllers: []string{"a", "b"},
				Election: &election.Status{Holder: "host-1", Since: now.Add(-90 * time.Second)}},
			{Lock: "group/nodes", Controllers: []string{"c"}, Blocked: map[string]string{"c": "host-2 still runs it under main"}, Problem: "leases cannot be listed",
				Election: &election.Status{Holder: "host-2", LastError: "connection\nrefused"}},
		}},
		Reloads: []status.Reload{
			{Time: now.Add(-time.Hour), Status: "success", Took: 0.0123,
				Plan: &plan.Plan{Controllers: []plan.ControllerPlan{{Name: "a", Action: plan.Restart, Causes: []diff.Change{{Path: "p", Old: 1.0, New: 2.0}}}}}},
		},
		Controllers: []supervisor.Status{
			{Name: "a", State: supervisor.Running, Generation: 3, Restarts: map[string]uint64{"config": 1, "crash": 1}, LastError: "old", LastErrorTime: now.Add(-time.Hour),
				Loops: []controller.LoopStatus{
					{Workers: 5, Depth: 7, InFlight: make([]controller.InFlight, 2), Failed: 1, LastError: "newer", LastErrorTime: now.Add(-time.Minute)},
					{Workers: 1, Depth: 1},
				}},
			{Name: "b", State: supervisor.Disabled, Reason: "disabled in the configuration"},
			{Name: "c", State: supervisor.BackingOff, Reason: "r", LastError: "panic: x", Generation: 1},
			{Name: "d", State: supervisor.Running, Stuck: "default/x"},
			{Name: "e", State: supervisor.Paused, Reason: "paused in the configuration", Generation: 1},
		},
	}
}

func show(t *testing.T, s *status.Status, when terminal.When) string {
	t.Helper()
	var out strings.Builder
	if err := Show(&out, "https://h:1", s, now, terminal.ColorsFor(when, nil, "")); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestShow(t *testing.T) {
	want, err := os.ReadFile("testdata/status.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), show(t, sample(), terminal.Never)); diff != "" {
		t.Fatalf("the status differs (-want +got):\n%s", diff)
	}
	colored := show(t, sample(), terminal.Always)
	strip := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "")
	for i, line := range strings.Split(strip.Replace(colored), "\n") {
		if got := strings.TrimRight(line, " "); got != strings.Split(string(want), "\n")[i] {
			t.Errorf("in colours a line is %q", got)
		}
	}
	if colored == string(want) {
		t.Error("there are no colours")
	}
}

func TestShowTheLastGoodConfiguration(t *testing.T) {
	s := &status.Status{Started: now, Version: "v1", Configuration: status.Configuration{
		File: "config.yaml", Hash: "abc", Generation: 1, Rejected: "config.yaml:3:1: x: unknown field",
		LastGood: &status.LastGood{File: "/lib/last-good.yaml", At: now.Add(-time.Hour), Program: "v1"}, NotKept: "no space left on device",
	}}
	want := `Configuration:  generation 1, sha256:abc, from config.yaml
Last good:      in force instead of the file; kept in /lib/last-good.yaml when it came into force, 2026-11-21T11:00:00Z
Not kept:       as the last good configuration: no space left on device
Last reload:    none since startup
Rejected:       the current content of the file is not in force:
  config.yaml:3:1: x: unknown field
`
	if got := show(t, s, terminal.Never); !strings.Contains(got, want) {
		t.Errorf("the status is\n%s\nwithout\n%s", got, want)
	}
}

// Whoever can make a request fail does not decide what the terminal of an operator does.
func TestShowWhatOthersWroteWithoutControlCharacters(t *testing.T) {
	const evil = "denied \x1b[2J\u009b2K\rend"
	s := &status.Status{Started: now, Version: "v1", Configuration: status.Configuration{File: "f", Hash: "h", NotKept: evil},
		Connection: connection.Status{Error: evil, Unreached: evil}}
	s.Controllers = []supervisor.Status{{Name: "a", State: supervisor.BackingOff, LastError: evil}, {Name: "b", Stuck: evil}}
	s.Reloads = []status.Reload{{Status: "failure", Time: now, Error: "one\n" + evil}}
	s.Leadership.Leases = []leadership.LeaseStatus{{Lock: "main", Blocked: map[string]string{"b": evil}, Problem: evil, Election: &election.Status{Holder: evil, LastError: evil}}}
	got := show(t, s, terminal.Never)
	if i := strings.IndexFunc(strings.ReplaceAll(got, "\n", ""), unicode.IsControl); i >= 0 {
		t.Errorf("the status contains a control character:\n%q", got)
	}
	if n := strings.Count(got, "denied \uFFFD[2J\uFFFD2K\uFFFDend"); n != 10 {
		t.Errorf("it shows the text %d times:\n%q", n, got)
	}
	if !strings.Contains(got, "\n  one\n  denied ") {
		t.Errorf("lines of an error are lost:\n%q", got)
	}
}

func TestShowThatDeletionsAreAllowed(t *testing.T) {
	s := &status.Status{Started: now, Deletions: &breaker.Status{Mode: "Stop", AllowedUntil: now.Add(time.Hour)}}
	if got := show(t, s, terminal.Never); !strings.Contains(got, "\nAllowed:        all deletions, until 2026-11-21T13:00:00Z\n") {
		t.Errorf("the status is\n%s", got)
	}
}

// A process that reports its main lock only, and one that has just started.
func TestShowLittle(t *testing.T) {
	s := &status.Status{Started: now.Add(-5 * time.Second), Version: "v1", Configuration: status.Configuration{File: "f", Hash: "h", Generation: 1},
		Leadership: leadership.Status{Leading: true, Term: 1}}
	got := show(t, s, terminal.Never)
	for _, part := range []string{"up 5s\n", "Last reload:    none since startup\n", "main   yes      1     (no leader election)  -      all\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	s.Leadership.Lease = &election.Status{Holder: "me", Since: now.Add(-3 * time.Minute)}
	s.Reloads = []status.Reload{{Status: "failure", Time: now, Error: "config.yaml: broken"}}
	got = show(t, s, terminal.Never)
	for _, part := range []string{"main   yes      1     me      3m0s   all\n", "Last reload:    failure, 0s ago, took 0s\n  config.yaml: broken\n  Since then, the file contains the configuration in force again.\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
}

// answers are what a process says, one after the other; the last one again and again.
type answers struct {
	mu    sync.Mutex
	list  []error
	asked chan struct{}
}

func (a *answers) Status(context.Context) (*status.Status, []byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.list[0]
	if len(a.list) > 1 {
		a.list = a.list[1:]
	}
	defer func() { a.asked <- struct{}{} }()
	if err != nil {
		return nil, nil, err
	}
	return sample(), []byte("{}\n"), nil
}

// output can be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// watch watches for a number of looks, and returns what was shown and how it ended.
func watch(t *testing.T, v Viewer, looks int, results ...error) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := clocktesting.NewFakeClock(now)
	source := &answers{list: results, asked: make(chan struct{})}
	out := &output{}
	v.Source, v.Out, v.Clock, v.Server = source, out, clock, "https://h:1"
	ended := make(chan error, 1)
	go func() { ended <- v.Watch(ctx, time.Second) }()
	for look := range looks {
		select {
		case <-source.asked:
		case err := <-ended:
			return out.String(), err
		case <-time.After(30 * time.Second):
			t.Fatalf("look %d did not happen", look)
		}
		if look < looks-1 {
			clock.Step(time.Second)
		}
	}
	cancel()
	return out.String(), <-ended
}

func TestWatch(t *testing.T) {
	down := errors.New("connection refused")
	refused := &endpoint.Error{What: "forbidden", Refused: true}
	text, err := watch(t, Viewer{}, 4, nil, down, nil)
	if err != nil || strings.Count(text, "up 1d2h") < 2 || !strings.Contains(text, " connection refused\n") {
		t.Errorf("%v, shown:\n%s", err, text)
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("it was drawn as on a terminal: %q", text)
	}
	text, err = watch(t, Viewer{Redraw: true}, 3, nil)
	if err != nil || !strings.HasPrefix(text, terminal.Clear+"kube-controller-manager") {
		t.Errorf("%v, shown: %q", err, text)
	}
	text, err = watch(t, Viewer{JSON: true}, 3, nil)
	if err != nil || !strings.HasPrefix(text, "{}\n{}\n") {
		t.Errorf("%v, shown: %q", err, text)
	}
	if text, err := watch(t, Viewer{}, 2, down); !errors.Is(err, down) || text != "" {
		t.Errorf("a process that never answered: %v, shown %q", err, text)
	}
	if _, err := watch(t, Viewer{}, 3, nil, refused); !errors.Is(err, refused) {
		t.Errorf("a process that refuses: %v", err)
	}
}

func TestOnce(t *testing.T) {
	source := &answers{list: []error{nil}, asked: make(chan struct{}, 1)}
	var out strings.Builder
	v := Viewer{Source: source, Server: "https://h:1", Out: &out, Clock: clocktesting.NewFakeClock(now)}
	if err := v.Once(t.Context()); err != nil || out.String() != show(t, sample(), terminal.Never) {
		t.Errorf("%v, shown\n%s", err, out.String())
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 90 * time.Minute: "1h30m", 49 * time.Hour: "2d1h",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%s ago is %q, want %q", d, got, want)
		}
	}
}
