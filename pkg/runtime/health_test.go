package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/runtime/supervisor"
)

func TestAilments(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ran := func(since, after time.Duration) supervisor.Status {
		started := now.Add(-since)
		return supervisor.Status{Name: "c", State: supervisor.Running, Started: started, LastError: "x", LastErrorTime: started.Add(-after)}
	}
	for _, test := range []struct {
		name   string
		status supervisor.Status
		want   string
	}{
		{"runs", supervisor.Status{State: supervisor.Running, Started: now}, ""},
		{"stands by", supervisor.Status{State: supervisor.Standby}, ""},
		{"waits for an API", supervisor.Status{State: supervisor.Waiting}, ""},
		{"backs off", supervisor.Status{State: supervisor.BackingOff, LastError: "x"}, "backing off after: x"},
		{"is stuck", supervisor.Status{State: supervisor.Running, Stuck: "a/b"}, "stuck on a/b"},
		// Between two crashes it runs for a moment, and is not healthy then.
		{"has just been restarted", ran(time.Second/2, time.Millisecond), "restarted after: x"},
		{"has been restarted after a pause", ran(3*time.Second, 4*time.Second), "restarted after: x"},
		{"has run longer than the pause", ran(5*time.Second, 4*time.Second), ""},
		{"has been restarted after the longest pause", ran(29*time.Second, 5*time.Minute), "restarted after: x"},
		{"has recovered after the longest pause", ran(30*time.Second, 5*time.Minute), ""},
		// A restart for another reason, long after a crash.
		{"was restarted by an edit", ran(time.Second, time.Hour), ""},
	} {
		if got := ailment(test.status, now); got != test.want {
			t.Errorf("a controller that %s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestThePulseStopsWhenOneThingNeverEnds(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	p := &pulse{clock: clk}
	later := func(d time.Duration) { clk.SetTime(clk.Now().Add(d)) }
	wants := func(want string) {
		t.Helper()
		got := ""
		if err := p.check(time.Minute); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	later(time.Hour)
	wants("")
	end := p.begin("a reload")
	later(time.Minute)
	wants("")
	later(time.Second)
	wants("a reload has not come to an end for 1m1s")
	inner := p.begin("a change of what runs")
	wants("")
	later(2 * time.Minute)
	wants("a change of what runs has not come to an end for 2m0s")
	inner()
	wants("a reload has not come to an end for 3m1s")
	end()
	wants("")
}

func TestFilesThatAreOpenToEverybody(t *testing.T) {
	const key = "-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----\n"
	const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
	for _, test := range []struct {
		name, content, want string
		mode                os.FileMode
	}{
		{"key", key, "", 0o600}, {"key", key, "", 0o640}, {"key", key, "may read it", 0o644}, {"key", key, "may change it", 0o622},
		{"certificate", certificate, "", 0o644}, {"certificate", certificate, "may change it", 0o666},
		{"kubeconfig with token", "users: [{user: {token: abc}}]", "may read it", 0o604},
		{"kubeconfig with key", "users:\n- user:\n    client-key-data: abc", "may read it", 0o644},
		{"kubeconfig that names files", "users:\n- user:\n    client-key: /k", "", 0o644},
		{"configuration", "kind: KubeControllerManagerConfiguration", "", 0o644},
		{"configuration", "kind: KubeControllerManagerConfiguration", "may change it", 0o646},
	} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, test.mode); err != nil {
			t.Fatal(err)
		}
		got := permissionProblem(name)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s with mode %o: %q, want %q", test.name, test.mode, got, test.want)
		}
	}
	if got := permissionProblem(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("a file that is not there: %q", got)
	}
}

func TestFlatten(t *testing.T) {
	got := map[string]string{}
	flatten("", map[string]any{"a": map[string]any{"b": "x", "c": true, "d": []any{"y", "z"}}, "e": nil, "f": 1.5}, got)
	want := map[string]string{"a.b": "x", "a.c": "true", "a.d": `["y","z"]`, "e": "null", "f": "1.5"}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for path, value := range want {
		if got[path] != value {
			t.Errorf("%s is %q, want %q", path, got[path], value)
		}
	}
}
