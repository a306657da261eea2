package cronjob

import (
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins CRON-2.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if got := d.Value(cfg); got != (config{concurrentSyncs: 5}) {
		t.Errorf("by default: %+v", got)
	}
	*cfg.Controllers.CronJob.ConcurrentSyncs = 9
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*cronJobController).owners.Loop.Inspect(); s.Workers != 9 || s.Queue != "cronjob" {
		t.Errorf("loop: %+v", s)
	}
}
