package pausing

import (
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
)

func TestPausesFollowTheConfiguration(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	p := New(registry, clock)
	descriptors := []controller.Descriptor{{Name: "deployment-controller"}, {Name: "job-controller"}, {Name: "cronjob-controller"}}
	jobs := p.Of("job-controller")
	apply := func(change func(*v1beta1.KubeControllerManagerConfiguration)) (begun, ended string) {
		cfg := v1beta1.NewDefault()
		change(cfg)
		b, e := p.Apply(cfg, descriptors)
		return List(b), List(e)
	}
	begun, ended := apply(func(c *v1beta1.KubeControllerManagerConfiguration) {
		c.PausedNamespaces = []string{"a"}
		c.Controllers.Job.PausedNamespaces = []string{"b", "a"}
		c.Controllers.Deployment.Paused = ptr.To(true)
		c.Controllers.CronJob.Enabled, c.Controllers.CronJob.Paused = ptr.To(false), ptr.To(true)
	})
	if want := "all controllers in namespace a, deployment-controller, job-controller in namespace b"; begun != want || ended != "" {
		t.Errorf("begun %q, ended %q, want %q and nothing", begun, ended, want)
	}
	if p.Of("job-controller") != jobs || strings.Join(jobs.Namespaces(), " ") != "a b" || !p.Of("deployment-controller").Hold("a") || p.Of("deployment-controller").Hold("b") {
		t.Errorf("jobs are paused in %v, deployments in %v", jobs.Namespaces(), p.Of("deployment-controller").Namespaces())
	}
	clock.SetTime(time.Unix(2000, 0))
	begun, ended = apply(func(c *v1beta1.KubeControllerManagerConfiguration) {
		c.Controllers.Job.PausedNamespaces = []string{"b", "a"}
		c.Controllers.CronJob.Paused = ptr.To(true)
	})
	if want, over := "cronjob-controller, job-controller in namespace a", "all controllers in namespace a, deployment-controller"; begun != want || ended != over {
		t.Errorf("begun %q, ended %q, want %q and %q", begun, ended, want, over)
	}
	const series = `# HELP kcmd_paused_since_timestamp_seconds [ALPHA] Time since which this process has a controller paused, in a namespace or, if that label is empty, as a whole. An empty name means all controllers.
# TYPE kcmd_paused_since_timestamp_seconds gauge
kcmd_paused_since_timestamp_seconds{name="cronjob-controller",namespace=""} 2000
kcmd_paused_since_timestamp_seconds{name="job-controller",namespace="a"} 2000
kcmd_paused_since_timestamp_seconds{name="job-controller",namespace="b"} 1000
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(series)); err != nil {
		t.Error(err)
	}
	if got := p.Status(); List(got) != "cronjob-controller, job-controller in namespace a, job-controller in namespace b" || !got[2].Since.Equal(time.Unix(1000, 0)) {
		t.Errorf("status is %v", got)
	}
	if _, ended = apply(func(*v1beta1.KubeControllerManagerConfiguration) {}); len(p.Status()) != 0 || jobs.Any() {
		t.Errorf("ended %q, %v are left", ended, p.Status())
	}
}
