package status

import (
	"os"
	"strings"
	"testing"
	"time"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/status/statuspage"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// stopped is the status of a breaker that has stopped deletions of pods.
func stopped(since time.Time) *breaker.Status {
	return &breaker.Status{Mode: "Stop", Stops: []breaker.Stop{
		{Resource: "pods", Since: since, Controller: "namespace-controller", Next: 40, Deleted: 90, Objects: 600, Limit: 120, Window: "5m"},
	}}
}

// troubled is the status of a process that shows everything there is to show.
func troubled(now time.Time) Status {
	lease := &election.Status{Identity: "node-1_3f", Leading: true, Term: 2, Holder: "node-1_3f", Transitions: 4, Renewed: now.Add(-time.Second)}
	other := &election.Status{Identity: "node-1_3f", Holder: "node-2_9c", Transitions: 1, Renewed: now.Add(-2 * time.Second), LastError: "the server was unable to return a response in time"}
	return Status{
		Started: now.Add(-26 * time.Hour), Version: "v1.36.3-kcmd.1",
		Configuration: Configuration{
			File: "/etc/kubernetes/kcmd/config.yaml", Generation: 7,
			Hash:     "5d41402abc4b2a76b9719d911017c592ae1b2c3d4e5f60718293a4b5c6d7e8f9",
			Rejected: "config.yaml:14:22: controllers.deployment-controller.concurrentSyncs: must be 1 to 1000, not 0\nconfig.yaml:19:3: controllers.<script>alert(1)</script>: unknown controller",
		},
		Connection: connection.Status{Server: "https://10.0.0.1:6443", Generation: 1, Renewed: 2, Unreached: "API discovery failed: connection refused"},
		Pauses:     []pausing.Pause{{Controller: "replicaset-controller", Namespace: "shop", Since: now.Add(-time.Hour)}},
		Deletions:  stopped(now.Add(-time.Hour)),
		Leadership: leadership.Status{Leading: true, Term: 2, Lease: lease, Leases: []leadership.LeaseStatus{
			{Lock: "main", Leading: true, Term: 2, Controllers: []string{"deployment-controller", "job-controller", "replicaset-controller"}, Election: lease},
			{Lock: "group/nodes", Controllers: []string{"node-ipam-controller"}, Blocked: map[string]string{"node-ipam-controller": "node-2_9c still runs it"}, Problem: "leases is forbidden", Election: other},
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
			{Time: now.Add(-2 * time.Hour), Status: telemetry.Success, Generation: 6, Took: 0.031, Plan: &plan.Plan{InPlace: []diff.Change{{Path: "logging.verbosity", Old: 0, New: 2}}}},
			{Time: now.Add(-41 * time.Minute), Status: telemetry.Success, Generation: 7, Took: 0.0123, Plan: &plan.Plan{
				Controllers: []plan.ControllerPlan{
					{Name: "deployment-controller", Action: plan.Restart, Causes: []diff.Change{{Path: "controllers.deployment-controller.concurrentSyncs", Old: 5, New: 20}}},
					{Name: "cronjob-controller", Action: plan.Stop, Causes: []diff.Change{{Path: "controllers.cronjob-controller.enabled", Old: true, New: false}}},
					{Name: "job-controller", Action: plan.Keep}, {Name: "replicaset-controller", Action: plan.Keep},
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
		`data-controller="cronjob-controller" data-state="Disabled"`, "4× panic", "1 instance was abandoned",
		"shop/checkout", `data-lock="group/nodes"`, "node-ipam-controller waits: node-2_9c still runs it", "leases is forbidden",
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

func TestTheTextHasNoControlCharacters(t *testing.T) {
	now := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	s := troubled(now)
	s.Reloads[0].Error, s.Informers[0].LastError = "one\n\x1b[2J", "\u009b2J"
	if text := s.Text(now); strings.ContainsAny(text, "\x1b\u009b") || !strings.Contains(text, "one\n\uFFFD[2J") {
		t.Errorf("the text is\n%q", text)
	}
}

func TestTheTextShowsTheSame(t *testing.T) {
	now := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	text := troubled(now).Text(now)
	for _, part := range []string{
		"API server: https://10.0.0.1:6443, connection 1, credentials renewed 2 times\n  not reached: API discovery failed: connection refused\n", "node-ipam-controller waits: node-2_9c still runs it leases is forbidden",
		"must be 1 to 1000, not 0", "backing off after: panic", "deployments.apps", "2 controllers keep running",
		"Paused: replicaset-controller in namespace shop, for 60m",
		"Deletions of pods are stopped, for 60m: namespace-controller was about to delete 40 more of 600 pods when 90 had been deleted within 5m; the limit is 120\n  If that is intended, set deletionBreaker.allowUntil",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the text does not contain %q:\n%s", part, text)
		}
	}
}

// A configuration that does not come from the file is shown as such in every form, and one that
// does is not.
func TestTheLastGoodConfigurationIsShown(t *testing.T) {
	now := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC)
	s := troubled(now)
	forms := func() map[string]string {
		page, err := statuspage.Render(viewOf(s, "node-1", now, 0))
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"text": s.Text(now), "page": string(page)}
	}
	for form, shown := range forms() {
		if strings.Contains(shown, "last good") {
			t.Errorf("the %s of a process that follows its file mentions it", form)
		}
	}
	s.Configuration.LastGood = &LastGood{File: "/lib/last-good.yaml", At: now.Add(-time.Hour), Program: "v1.36.3-kcmd.0"}
	s.Configuration.NotKept = "no space left on device"
	for form, shown := range forms() {
		for _, part := range []string{"last good configuration", "kept in /lib/last-good.yaml when it came into force, 2026-11-21T15:00:00Z", "no space left on device"} {
			if !strings.Contains(shown, part) {
				t.Errorf("the %s does not contain %q:\n%s", form, part, shown)
			}
		}
	}
}

func TestTheVerdictBeginsWithTheWorst(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	running := supervisor.Status{Name: "a", State: supervisor.Running, Started: now.Add(-time.Hour)}
	failed := supervisor.Status{Name: "b", State: supervisor.BackingOff, LastError: "x", LastErrorTime: now}
	leading := leadership.Status{Leading: true, Leases: []leadership.LeaseStatus{{Lock: "main", Leading: true}}}
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
		{"nothing starts under a lease", Status{Controllers: []supervisor.Status{running}, Leadership: leadership.Status{Leading: true, Leases: []leadership.LeaseStatus{
			{Lock: "main", Leading: true, Problem: "leases is forbidden"}, {Lock: "group/a", Problem: "not held"},
		}}}, verdict(statuspage.Bad, "Nothing more starts under the lock main: leases is forbidden")},
		{"a standby that cannot read the lease", Status{Controllers: []supervisor.Status{running}, Leadership: leadership.Status{Leases: []leadership.LeaseStatus{
			{Lock: "main", Election: &election.Status{Holder: "node-2", Renewed: now.Add(-time.Minute), LastError: "connection refused", LastErrorTime: now}},
		}}}, verdict(statuspage.Warn, "The last request for the lease of the lock main failed: connection refused")},
		{"a standby that could not read the lease once", Status{Controllers: []supervisor.Status{running}, Leadership: leadership.Status{Leases: []leadership.LeaseStatus{
			{Lock: "main", Election: &election.Status{Holder: "node-2", Renewed: now, LastError: "connection refused", LastErrorTime: now.Add(-time.Minute)}},
		}}}, verdict(statuspage.Good, "Standing by, ready to take over")},
		{"a holder that cannot renew the lease", Status{Controllers: []supervisor.Status{running}, Leadership: leadership.Status{Leading: true, Leases: []leadership.LeaseStatus{
			{Lock: "main", Leading: true, Election: &election.Status{Leading: true, Renewed: now.Add(-3 * time.Second), LastError: "connection refused", LastErrorTime: now}},
		}}}, verdict(statuspage.Warn, "The last request for the lease of the lock main failed: connection refused")},
		{"rejected", Status{Leadership: leading, Configuration: Configuration{Rejected: "x", Generation: 3}},
			verdict(statuspage.Bad, "The configuration file was rejected; generation 3 stays in force")},
		{"last good", Status{Leadership: leading, Configuration: Configuration{Rejected: "x", Generation: 1, LastGood: &LastGood{}}},
			verdict(statuspage.Bad, "The configuration file cannot be used; the last good configuration is in force")},
		{"not kept", Status{Leadership: leading, Configuration: Configuration{NotKept: "x"}},
			verdict(statuspage.Warn, "The configuration in force is not kept as the last good one")},
		{"both", Status{Leadership: leading, Configuration: Configuration{Rejected: "x"}, Controllers: []supervisor.Status{running, failed}}, verdict(statuspage.Bad, "1 controller is not healthy: b · The configuration file was rejected; generation 0 stays in force")},
		{"filling", Status{Leadership: leading, Informers: []informers.Status{{Running: true}}}, verdict(statuspage.Warn, "1 cache is not filled yet")},
		{"MGR-258: lagging", Status{Leadership: leading, Informers: []informers.Status{
			{Resource: "pods", Running: true, Synced: true, Refs: 1, LastError: "pods is forbidden"},
			{Resource: "pods", Form: informers.Metadata, Running: true, Synced: true, Refs: 1, LastError: "pods is forbidden"},
			{Group: "apps", Resource: "deployments", Running: true, Synced: true, Refs: 2, LastError: "x"},
			{Resource: "nodes", Running: true, Synced: true, LastError: "nobody reads it"},
		}}, verdict(statuspage.Warn, "2 caches are not up to date: pods, deployments.apps")},
		{"MGR-258: unreached", Status{Leadership: leading, Connection: connection.Status{Unreached: "API discovery failed: connection refused"}},
			verdict(statuspage.Warn, "API discovery failed: connection refused")},
		{"paused", Status{Leadership: leading, Pauses: []pausing.Pause{{Namespace: "shop"}, {Controller: "a"}}}, verdict(statuspage.Warn, "Paused: all controllers in namespace shop, a")},
		{"stopped", Status{Leadership: leading, Deletions: stopped(now)},
			verdict(statuspage.Bad, "Deletions of pods are stopped: namespace-controller was about to delete 40 more of 600 pods when 90 had been deleted within 5m; the limit is 120")},
		{"allowed", Status{Leadership: leading, Deletions: &breaker.Status{Mode: "Stop", AllowedUntil: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}},
			verdict(statuspage.Warn, "All deletions are allowed until 2026-05-04T12:00:00Z")},
		{"limited", Status{Leadership: leading, Deletions: &breaker.Status{Mode: "Stop"}}, verdict(statuspage.Good, "Everything runs as configured")},
		{"credentials", Status{Leadership: leading, Connection: connection.Status{Error: "x"}}, verdict(statuspage.Warn, "New credentials cannot be used; the previous ones stay in use")},
	} {
		if got := judge(test.status, now); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
