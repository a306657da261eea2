package runtime

import (
	"os"
	"strings"
	"testing"
	"time"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/statuspage"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// troubled is the status of a process that shows everything there is to show.
func troubled(now time.Time) Status {
	lease := &election.Status{Identity: "node-1_3f", Leading: true, Term: 2, Holder: "node-1_3f", Transitions: 4, Renewed: now.Add(-time.Second)}
	other := &election.Status{Identity: "node-1_3f", Holder: "node-2_9c", Transitions: 1, Renewed: now.Add(-2 * time.Second), LastError: "the server was unable to return a response in time"}
	return Status{
		Started: now.Add(-26 * time.Hour), Version: "v1.36.3-kcmd.1",
		Configuration: ConfigurationStatus{
			File: "/etc/kubernetes/kcmd/config.yaml", Generation: 7,
			Hash:     "5d41402abc4b2a76b9719d911017c592ae1b2c3d4e5f60718293a4b5c6d7e8f9",
			Rejected: "config.yaml:14:22: controllers.deployment-controller.concurrentSyncs: must be 1 to 1000, not 0\nconfig.yaml:19:3: controllers.<script>alert(1)</script>: unknown controller",
		},
		Connection: ConnectionStatus{Server: "https://10.0.0.1:6443", Generation: 1, Renewed: 2},
		Leadership: LeadershipStatus{Leading: true, Term: 2, Lease: lease, Leases: []LeaseStatus{
			{Lock: "main", Leading: true, Term: 2, Controllers: []string{"deployment-controller", "job-controller", "replicaset-controller"}, Election: lease},
			{Lock: "group/nodes", Controllers: []string{"node-ipam-controller"}, Blocked: map[string]string{"node-ipam-controller": "node-2_9c still runs it"}, Election: other},
		}},
		Controllers: []supervisor.Status{
			{Name: "cronjob-controller", State: supervisor.Disabled, Reason: "the configuration turns it off"},
			{Name: "deployment-controller", State: supervisor.Running, Generation: 3, Started: now.Add(-41 * time.Minute),
				Restarts: map[string]uint64{"config": 2},
				Loops: []controller.LoopStatus{{Queue: "deployment", Workers: 20, Depth: 31, Backlog: 4, Reconciled: 120_441, Failed: 17,
					InFlight:  []controller.InFlight{{Key: "shop/checkout", Since: now.Add(-2 * time.Second)}, {Key: "shop/cart", Since: now.Add(-40 * time.Millisecond)}},
					LastError: `Operation cannot be fulfilled on deployments.apps "cart": the object has been modified`, LastErrorTime: now.Add(-3 * time.Minute)}}},
			{Name: "job-controller", State: supervisor.BackingOff, Generation: 5, LastError: `panic: <img src=x onerror=alert(1)> in "a/b"`, LastErrorTime: now.Add(-8 * time.Second),
				Restarts: map[string]uint64{"panic": 4}, Abandoned: 1},
			{Name: "node-ipam-controller", State: supervisor.Standby, Reason: "another process holds the lease"},
			{Name: "resourceclaim-controller", State: supervisor.Waiting, Reason: "the API server does not serve resourceclaims.resource.k8s.io"},
			{Name: "replicaset-controller", State: supervisor.Running, Generation: 1, Started: now.Add(-26 * time.Hour),
				Loops: []controller.LoopStatus{{Queue: "replicaset", Workers: 20, Reconciled: 88}}},
		},
		Informers: []informers.Status{
			{Group: "apps", Version: "v1", Resource: "deployments", Form: "Typed", Running: true, Synced: true, Objects: 4120, Handlers: 2, Scopes: []string{"deployment-controller", "disruption-controller"}},
			{Version: "v1", Resource: "pods", Form: "Typed", Running: true, Objects: 0, Handlers: 9, LastError: "pods is forbidden", Scopes: []string{"job-controller"}},
			{Version: "v1", Resource: "configmaps", Form: "Metadata", FieldSelector: "metadata.name=kube-root-ca.crt", Running: true, Synced: true, Objects: 112, IdleSince: now.Add(-time.Minute)},
		},
		Reloads: []Reload{
			{Time: now.Add(-2 * time.Hour), Status: telemetry.Success, Generation: 6, Took: 0.031, Plan: &config.Plan{InPlace: []config.Change{{Path: "logging.verbosity", Old: 0, New: 2}}}},
			{Time: now.Add(-41 * time.Minute), Status: telemetry.Success, Generation: 7, Took: 0.0123, Plan: &config.Plan{
				Controllers: []config.ControllerPlan{
					{Name: "deployment-controller", Action: config.Restart, Causes: []config.Change{{Path: "controllers.deployment-controller.concurrentSyncs", Old: 5, New: 20}}},
					{Name: "cronjob-controller", Action: config.Stop, Causes: []config.Change{{Path: "controllers.cronjob-controller.enabled", Old: true, New: false}}},
					{Name: "job-controller", Action: config.Keep}, {Name: "replicaset-controller", Action: config.Keep},
				},
			}},
			{Time: now.Add(-time.Minute), Status: telemetry.Failure, Generation: 7, Error: "config.yaml:14:22: controllers.deployment-controller.concurrentSyncs: must be 1 to 1000, not 0"},
		},
	}
}

func TestThePageShowsEverythingEscaped(t *testing.T) {
	now := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	page, err := statuspage.Render(viewOf(troubled(now), "node-1", now, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if to := os.Getenv("KCMD_PAGE"); to != "" {
		if err := os.WriteFile(to, page, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	html := string(page)
	for _, part := range []string{
		`<meta http-equiv="refresh" content="5">`,
		"1 controller is not healthy: job-controller · The configuration file was rejected; generation 7 stays in force", "panic: &lt;img src=x onerror=alert(1)&gt;", "controllers.&lt;script&gt;alert(1)&lt;/script&gt;",
		`data-controller="cronjob-controller" data-state="Disabled"`, "4× panic", "1 instance was left behind",
		"shop/checkout", `data-lock="group/nodes"`, "node-ipam-controller waits: node-2_9c still runs it",
		"configmaps", "fields metadata.name=kube-root-ca.crt", "controllers.deployment-controller.concurrentSyncs: 5 → 20", "2 controllers keep running.",
		"last error, 3m ago", "sha256:5d41402abc4b",
	} {
		if !strings.Contains(html, part) {
			t.Errorf("the page does not contain %q", part)
		}
	}
	for _, part := range []string{"<script", "<img", " style=", "ZgotmplZ", "http://", "https://cdn"} {
		if strings.Contains(html, part) {
			t.Errorf("the page contains %q", part)
		}
	}
	first := strings.Index(html, `data-controller="`)
	if !strings.HasPrefix(html[first:], `data-controller="job-controller"`) {
		t.Error("what needs attention does not come first")
	}
}

func TestTheTextShowsTheSame(t *testing.T) {
	now := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	text := troubled(now).Text(now)
	for _, part := range []string{
		"API server: https://10.0.0.1:6443, connection 1, credentials renewed 2 times", "node-ipam-controller waits: node-2_9c still runs it",
		"must be 1 to 1000, not 0", "backing off after: panic", "deployments.apps", "2 controllers keep running",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the text does not contain %q:\n%s", part, text)
		}
	}
}

func TestTheVerdictBeginsWithTheWorst(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	running := supervisor.Status{Name: "a", State: supervisor.Running, Started: now.Add(-time.Hour)}
	failed := supervisor.Status{Name: "b", State: supervisor.BackingOff, LastError: "x", LastErrorTime: now}
	leading := LeadershipStatus{Leading: true, Leases: []LeaseStatus{{Lock: "main", Leading: true}}}
	verdict := func(tone statuspage.Tone, text string) statuspage.Verdict {
		return statuspage.Verdict{Tone: tone, Text: text}
	}
	for _, test := range []struct {
		name   string
		status Status
		want   statuspage.Verdict
	}{
		{"good", Status{Leadership: leading, Controllers: []supervisor.Status{running}}, verdict(statuspage.Good, "Everything runs as configured")},
		{"standby", Status{Controllers: []supervisor.Status{running}}, verdict(statuspage.Good, "Standing by, ready to take over")},
		{"rejected", Status{Leadership: leading, Configuration: ConfigurationStatus{Rejected: "x", Generation: 3}},
			verdict(statuspage.Bad, "The configuration file was rejected; generation 3 stays in force")},
		{"both", Status{Leadership: leading, Configuration: ConfigurationStatus{Rejected: "x"}, Controllers: []supervisor.Status{running, failed}}, verdict(statuspage.Bad, "1 controller is not healthy: b · The configuration file was rejected; generation 0 stays in force")},
		{"filling", Status{Leadership: leading, Informers: []informers.Status{{Running: true}}}, verdict(statuspage.Warn, "1 cache is not filled yet")},
		{"credentials", Status{Leadership: leading, Connection: ConnectionStatus{Error: "x"}}, verdict(statuspage.Warn, "New credentials cannot be used; the ones before stay in use")},
	} {
		if got := judge(test.status, now); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
