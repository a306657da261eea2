package gitops

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// step is one commit to the repository.
type step struct {
	name string
	// change edits the configuration in force; spoil edits the text of the file after it.
	change func(*manager.Config)
	spoil  func(string) string
	// rejected is part of what is said about a file that does not come into force.
	rejected string
	// restarts, starts and stops are the controllers concerned; all others keep their
	// instance. inPlace are the paths that change without a restart.
	restarts, starts, stops, inPlace []string
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func replace(old, new string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, new, 1) }
}

// walk are the steps, good and bad, in order. Each starts from what is in force.
func walk() []step {
	return []step{
		{name: "more workers", restarts: []string{"deployment-controller"},
			change: func(c *manager.Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To(int32(20)) }},
		{name: "no workers", rejected: "controllers.deployment-controller.concurrentSyncs: must be 1 to 1000, not 0",
			change: func(c *manager.Config) { c.Controllers.Deployment.ConcurrentSyncs = ptr.To(int32(0)) }},
		{name: "a client-side limit", inPlace: []string{"clientConnection.burst", "clientConnection.qps"},
			change: func(c *manager.Config) {
				c.ClientConnection.QPS, c.ClientConnection.Burst = ptr.To(float32(500)), ptr.To(int32(1000))
			}},
		{name: "half a file", rejected: "config.yaml:", spoil: func(s string) string { return s[:strings.Index(s, "concurrentSyncs")+10] }},
		{name: "a controller off", stops: []string{"cronjob-controller"},
			change: func(c *manager.Config) { c.Controllers.CronJob.Enabled = ptr.To(false) }},
		{name: "a misspelt controller", rejected: `did you mean "cronjob-controller"?`, spoil: replace("cronjob-controller:", "cronjobs-controller:")},
		{name: "the controller on again", starts: []string{"cronjob-controller"},
			change: func(c *manager.Config) { c.Controllers.CronJob.Enabled = nil }},
		{name: "longer lease", inPlace: []string{"leaderElection.leaseDuration", "leaderElection.renewDeadline"},
			change: func(c *manager.Config) {
				c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline = duration(30*time.Second), duration(20*time.Second)
			}},
		{name: "impossible lease", rejected: "leaseDuration (5s) must be more than renewDeadline (20s)",
			change: func(c *manager.Config) { c.LeaderElection.LeaseDuration = duration(5 * time.Second) }},
		{name: "more log", inPlace: []string{"logging.verbosity"},
			change: func(c *manager.Config) { c.Logging.Verbosity = 3 }},
		{name: "a duplicate key", rejected: "reload", spoil: func(s string) string { return s + "reload: {}\n" }},
		{name: "two controllers at once", restarts: []string{"job-controller", "namespace-controller"},
			change: func(c *manager.Config) {
				c.Controllers.Job.ConcurrentSyncs, c.Controllers.Namespace.ConcurrentSyncs = ptr.To(int32(7)), ptr.To(int32(11))
			}},
		{name: "a feature gate", restarts: []string{"statefulset-controller"},
			change: func(c *manager.Config) { c.FeatureGates = map[string]bool{"MaxUnavailableStatefulSet": true} }},
		{name: "an unknown gate", rejected: "unknown feature gate",
			change: func(c *manager.Config) { c.FeatureGates = map[string]bool{"MaxUnavailableStatefulSets": true} }},
		{name: "a locked gate", rejected: "locked to true",
			change: func(c *manager.Config) { c.FeatureGates = map[string]bool{"OrderedNamespaceDeletion": false} }},
		{name: "a missing key file", rejected: "serviceAccounts.privateKeyFile",
			change: func(c *manager.Config) { c.ServiceAccounts.PrivateKeyFile = "/nowhere/sa.key" }},
		{name: "profiling off and another resync", inPlace: []string{"resync.minPeriod", "serving.profiling"},
			change: func(c *manager.Config) {
				c.Resync.MinPeriod, c.Serving.Profiling = duration(6*time.Hour), ptr.To(false)
			}},
		{name: "another kind", rejected: "kind", spoil: replace("kind: KubeControllerManagerConfiguration", "kind: KubeSchedulerConfiguration")},
		{name: "an empty file", rejected: "config.yaml", spoil: func(string) string { return "" }},
		{name: "a comment", spoil: func(s string) string { return "# reviewed\n" + s }},
		{name: "other credentials", restarts: []string{everyController}, inPlace: nil,
			change: func(c *manager.Config) { c.ClientConnection.UseServiceAccountCredentials = ptr.To(false) }},
		{name: "the first credentials again", restarts: []string{everyController},
			change: func(c *manager.Config) { c.ClientConnection.UseServiceAccountCredentials = ptr.To(true) }},
	}
}

const everyController = "every controller"

// TestAWalkThroughEdits takes the real program through the steps on a mounted ConfigMap.
// After each, what happened is what the Plan of the two files says, and what the step says.
func TestAWalkThroughEdits(t *testing.T) {
	w := newWalker(t)
	for n, s := range walk() {
		t.Run(fmt.Sprintf("%02d %s", n+1, s.name), func(t *testing.T) { w.take(t, s) })
	}
	before := w.status(t)
	w.volume.write(t, w.encode(t, w.inForce))
	w.wait(t, "the last good file is in force, without a rejection", func(s *runtime.Status) error {
		if s.Configuration.Rejected != "" {
			return fmt.Errorf("it is rejected: %s", s.Configuration.Rejected)
		}
		return nil
	})
	w.unchanged(t, before, nil)
	w.rollOut(t)
}

// walker holds the running program and what it should be doing.
type walker struct {
	process *manager.Process
	volume  *volume
	inForce *manager.Config
}

func newWalker(t *testing.T) *walker {
	t.Helper()
	w := &walker{volume: newVolume(t)}
	w.process = manager.JoinProcess(t, plane, func(c *manager.Config) {
		c.LeaderElection.ResourceName = "walk"
		c.Reload.SettleTime = duration(10 * time.Millisecond)
		w.inForce = c.DeepCopy()
		w.volume.write(t, w.encode(t, c))
	}, "--config="+w.volume.file())
	must.Succeed(t, w.process.WaitRunning(t.Context()))
	return w
}

func (w *walker) encode(t testing.TB, c *manager.Config) []byte {
	t.Helper()
	data, err := config.Marshal(c)
	must.Succeed(t, err)
	return data
}

func (w *walker) status(t testing.TB) runtime.Status {
	t.Helper()
	s, err := w.process.Status(t.Context())
	must.Succeed(t, err)
	return s
}

func (w *walker) wait(t testing.TB, what string, check func(*runtime.Status) error) {
	t.Helper()
	must.Succeed(t, w.process.Wait(t.Context(), what, check))
}

// take makes one edit and checks everything that follows from it.
func (w *walker) take(t *testing.T, s step) {
	before := w.status(t)
	next := w.inForce.DeepCopy()
	if s.change != nil {
		s.change(next)
	}
	data := w.encode(t, next)
	if s.spoil != nil {
		data = []byte(s.spoil(string(data)))
	}
	if bytes.Equal(data, w.encode(t, w.inForce)) {
		t.Fatal("the step changes nothing")
	}
	w.volume.write(t, data)
	w.wait(t, "the edit is noticed", func(now *runtime.Status) error {
		if newest(now).Time.Equal(newest(&before).Time) {
			return fmt.Errorf("there is no new reload")
		}
		return nil
	})
	after := w.status(t)
	if s.rejected != "" {
		w.checkRejected(t, s, before, after)
		return
	}
	if r := newest(&after); r.Status != telemetry.Success {
		t.Fatalf("rejected: %s", r.Error)
	}
	must.Succeed(t, w.process.WaitRunning(t.Context()))
	w.checkPlan(t, s, next, newest(&after))
	w.unchanged(t, before, s.restarts, s.starts, s.stops)
	w.inForce = next
}

func newest(s *runtime.Status) runtime.Reload {
	if len(s.Reloads) == 0 {
		return runtime.Reload{}
	}
	return s.Reloads[len(s.Reloads)-1]
}

func (w *walker) checkRejected(t *testing.T, s step, before, after runtime.Status) {
	t.Helper()
	r := newest(&after)
	if r.Status != telemetry.Failure || !strings.Contains(r.Error, s.rejected) {
		t.Errorf("%s %q, want a failure with %q", r.Status, r.Error, s.rejected)
	}
	if after.Configuration.Hash != before.Configuration.Hash || after.Configuration.Generation != before.Configuration.Generation {
		t.Error("another configuration came into force")
	}
	if after.Configuration.Rejected != r.Error {
		t.Errorf("the status says %q about the file, want %q", after.Configuration.Rejected, r.Error)
	}
	w.unchanged(t, before, nil)
}

// checkPlan compares what was carried out with what check-config would have printed, and
// with what the step says.
func (w *walker) checkPlan(t *testing.T, s step, next *manager.Config, r runtime.Reload) {
	t.Helper()
	want := plan.New(w.inForce, next, runtime.Subjects(controllers.All()))
	if got := r.Plan.String(); got != want.String() {
		t.Errorf("carried out:\n%swant:\n%s", got, want.String())
	}
	var inPlace []string
	for _, c := range want.InPlace {
		inPlace = append(inPlace, c.Path)
	}
	if !slices.Equal(inPlace, s.inPlace) {
		t.Errorf("in place %q, want %q", inPlace, s.inPlace)
	}
}

// unchanged checks that exactly the controllers named have another instance than before.
func (w *walker) unchanged(t *testing.T, before runtime.Status, concerned ...[]string) {
	t.Helper()
	want := slices.Concat(concerned...)
	was := map[string]supervisor.Status{}
	for _, c := range before.Controllers {
		was[c.Name] = c
	}
	for _, c := range w.status(t).Controllers {
		runs := c.State == supervisor.Running || was[c.Name].State == supervisor.Running
		changed := c.Generation != was[c.Name].Generation || c.State != was[c.Name].State
		should := slices.Contains(want, c.Name) || runs && slices.Contains(want, everyController)
		if changed != should {
			t.Errorf("%s: generation %d, %s; was generation %d, %s; concerned: %v",
				c.Name, c.Generation, c.State, was[c.Name].Generation, was[c.Name].State, should)
		}
	}
}

// rollOut checks that the controllers still do their work.
func (w *walker) rollOut(t *testing.T) {
	t.Helper()
	namespace := plane.Namespace(t)
	kubectl(t.Context(), t, nil, "-n", namespace, "create", "deployment", "web", "--image=x", "--replicas=3")
	kubectl(t.Context(), t, nil, "-n", namespace, "wait", "--for=condition=Available", "--timeout="+patience.String(), "deployment/web")
}
