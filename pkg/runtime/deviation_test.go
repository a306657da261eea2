package runtime

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// What a Plan does not know explains a difference. What it does know never does.
func TestDeviationsAreExplained(t *testing.T) {
	off := supervisor.Want{State: supervisor.Disabled, Reason: "off"}
	standby := supervisor.Want{State: supervisor.Standby, Reason: "another process holds the lease"}
	waiting := supervisor.Want{State: supervisor.Waiting, Reason: "not served"}
	running := func(value, files string, clients, term uint64) supervisor.Want {
		return supervisor.Want{State: supervisor.Running, Spec: supervisor.Spec{Planned: plan.Spec{Value: value}, Files: files, Clients: clients, Term: term}}
	}
	runs := running("a", "x", 1, 1)
	otherVersion := runs
	otherVersion.Spec.Chosen.Version = "v1"
	paused := supervisor.Want{State: supervisor.Paused, Reason: "paused"}
	const none, unexplained = "-", ""
	for _, c := range []struct {
		name          string
		planned       plan.Action
		before, after supervisor.Want
		because       string
	}{
		{"kept", plan.Keep, runs, runs, none},
		{"restarted", plan.Restart, runs, running("b", "x", 1, 1), none},
		{"started", plan.Start, off, runs, none},
		{"stopped", plan.Stop, runs, off, none},
		{"off", plan.Off, off, off, none},
		{"keeps standing by", plan.Keep, standby, standby, none},
		{"starts to stand by", plan.Start, off, standby, standby.Reason},
		{"starts to wait", plan.Start, off, waiting, waiting.Reason},
		{"stood by", plan.Stop, standby, off, "off"},
		{"stands by with something else", plan.Restart, standby, standby, standby.Reason},
		{"waits for the new lock", plan.Restart, runs, standby, standby.Reason},
		{"waited until now", plan.Keep, waiting, runs, waiting.Reason},
		{"paused", plan.Pause, runs, paused, none},
		{"stood by and is paused", plan.Pause, standby, paused, none},
		{"starts paused", plan.Pause, off, paused, none},
		{"stays paused", plan.Keep, paused, paused, none},
		{"resumed", plan.Resume, paused, runs, none},
		{"stands by when resumed", plan.Resume, paused, standby, standby.Reason},
		{"switched off while paused", plan.Stop, paused, off, none},
		{"paused without a plan", plan.Keep, runs, paused, "paused"},
		{"not resumed", plan.Resume, paused, paused, "paused"},
		{"another file", plan.Keep, runs, running("a", "y", 1, 1), "the contents of its files have changed"},
		{"another term", plan.Keep, runs, running("a", "x", 1, 2), "another leadership term has begun"},
		{"another version", plan.Keep, runs, otherVersion, "the API server serves another version of its resource"},
		{"restarted without a plan", plan.Keep, runs, running("b", "y", 1, 1), unexplained},
		{"another connection without a plan", plan.Keep, runs, running("a", "x", 2, 1), unexplained},
		{"kept in spite of the plan", plan.Restart, runs, runs, unexplained},
		{"started without a plan", plan.Off, off, runs, unexplained},
		{"stopped without a plan", plan.Keep, runs, off, unexplained},
		{"not stopped", plan.Stop, runs, runs, unexplained},
		{"not started", plan.Start, off, off, unexplained},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := none
			if d := deviation(c.planned, supervisor.Done{Name: "a", Before: c.before, After: c.after}); d != nil {
				got = d.Because
			}
			if got != c.because {
				t.Errorf("got %q, want %q", got, c.because)
			}
		})
	}
}

// Leases and the connection have nothing that explains a difference.
func TestDeviationsOfLeasesAndTheConnection(t *testing.T) {
	p := plan.Plan{Leases: []plan.LeasePlan{{Lock: "main", Action: plan.Restart}, {Lock: "group/a", Action: plan.Start}}}
	same := done{leases: map[string]plan.Action{"main": plan.Restart, "group/a": plan.Start}}
	if got := deviations(p, same); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	got := deviations(p, done{leases: map[string]plan.Action{"main": plan.Restart, "group/b": plan.Stop}, reconnected: true})
	want := []status.Deviation{
		{Subject: "lease group/a", Planned: plan.Start, Done: plan.Keep},
		{Subject: "lease group/b", Planned: plan.Keep, Done: plan.Stop},
		{Subject: "connection", Planned: plan.Keep, Done: plan.Restart},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for n := range want {
		if got[n] != want[n] {
			t.Errorf("got %+v, want %+v", got[n], want[n])
		}
	}
}

// An edit that replaces a lock has every controller wait for it: that is said once.
func TestDeviationsAreReportedTogether(t *testing.T) {
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	r := &Runtime{reloads: telemetry.NewReload(telemetry.NewRegistry())}
	waits := status.Deviation{Planned: plan.Restart, Done: plan.Stop, Because: "the lock is being replaced"}
	a, b, c := waits, waits, status.Deviation{Subject: "c", Planned: plan.Start, Done: plan.Off, Because: "not served"}
	a.Subject, b.Subject = "a", "b"
	r.report(klog.NewContext(t.Context(), logger), []status.Deviation{a, c, b, {Subject: "d", Planned: plan.Keep, Done: plan.Stop}})
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for n, want := range []string{
		`"A reload did something else than planned" subject="d" planned="keep" done="stop"`,
		`"A reload was carried out differently" subjects=["a","b"] planned="restart" done="stop" because="the lock is being replaced"`,
		`"A reload was carried out differently" subjects=["c"] planned="start" done="off" because="not served"`,
	} {
		if len(lines) != 3 || !strings.HasSuffix(lines[n], want) {
			t.Errorf("logged is\n%s\nwant in line %d\n%s", &log, n+1, want)
		}
	}
}
