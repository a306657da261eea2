package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/manager"
)

// program is the name by which both programs are started: it becomes part of their user
// agent, and with it of every managed field.
const program = "kube-controller-manager"

// running is a manager that runs.
type running interface {
	PID() int
	// Signal sends a signal.
	Signal(os.Signal) error
	// Get reads a path of its endpoint.
	Get(ctx context.Context, path string) ([]byte, error)
	// Exited is closed when the process has ended.
	Exited() <-chan struct{}
	// Stop ends the process and waits for its end.
	Stop() error
}

// settings are what a scenario may choose for a manager.
type settings struct {
	mode Mode
	// deploymentSyncs is concurrentSyncs of deployment-controller; 0 is the default.
	deploymentSyncs int32
	// alone switches leader election off.
	alone bool
	// controllers are those that run, of ours only; nil are those that run by default.
	controllers []string
}

// limits returns requests per second and burst; ok is false for the product's default.
func (s settings) limits() (qps float32, burst int32, ok bool) {
	switch s.mode {
	case Unlimited:
		return 5000, 10000, true
	case Limited:
		return 20, 30, true
	case Defaults:
	}
	return 0, 0, false
}

// apply writes the settings into a configuration of ours.
func (s settings) apply(c *manager.Config) {
	if qps, burst, ok := s.limits(); ok {
		c.ClientConnection.QPS, c.ClientConnection.Burst = &qps, &burst
	}
	if s.deploymentSyncs != 0 {
		c.Controllers.Deployment.ConcurrentSyncs = &s.deploymentSyncs
	}
	elect := !s.alone
	c.LeaderElection.LeaderElect = &elect
	if s.controllers == nil {
		return
	}
	for _, controller := range c.Controllers.All() {
		controller.Settings.Enabled = ptr.To(slices.Contains(s.controllers, controller.Name))
	}
}

// subject is a program that is measured.
type subject interface {
	// start starts a manager; it need not be ready on return.
	start(ctx context.Context, plane *controlplane.ControlPlane, s settings) (running, error)
	// change makes a running manager work with other settings, in whatever way that is
	// done, and returns when it has been asked to: the manager that will have them.
	change(ctx context.Context, plane *controlplane.ControlPlane, old running, s settings) (running, error)
}

// programs are the built programs.
type programs struct{ ours, upstream string }

// build builds what the subjects need: ours into folder, upstream's into .bin.
func build(ctx context.Context, o *Options, folder string) (programs, error) {
	var p programs
	for _, name := range o.Subjects {
		var err error
		switch name {
		case report.Ours:
			p.ours, err = manager.Build(ctx, folder)
		case report.Upstream:
			var bin string
			bin, err = binaries.Build(ctx, o.Log, binaries.UpstreamManager)
			p.upstream = filepath.Join(bin, binaries.UpstreamManager)
		}
		if err != nil {
			return programs{}, err
		}
	}
	return p, nil
}

func (p programs) subject(name string) subject {
	if name == report.Ours {
		return ours{binary: p.ours}
	}
	return upstream{binary: p.upstream}
}

// link makes the program available in a control plane's folder under the common name.
func link(binary string, plane *controlplane.ControlPlane) (string, error) {
	path := filepath.Join(plane.Dir(), program)
	if err := os.Symlink(binary, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("linking the manager: %w", err)
	}
	return path, nil
}

// controllerNames are the controllers that both run: those that run by default. Those of a cloud, of
// which upstream does not know all, do not.
func controllerNames() []string {
	var names []string
	byDefault := v1beta1.NewDefault()
	for _, d := range controllers.All() {
		if byDefault.ControllerEnabled(d.Name) {
			names = append(names, d.Name)
		}
	}
	return names
}
