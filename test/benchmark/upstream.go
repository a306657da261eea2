package benchmark

import (
	"context"
	"fmt"
	"syscall"

	"kcmd.dev/test/controlplane"
	managers "kcmd.dev/test/upstream"
)

// upstream is kube-controller-manager of the release.
type upstream struct{ binary string }

func (u upstream) start(_ context.Context, plane *controlplane.ControlPlane, s settings) (running, error) {
	path, err := link(u.binary, plane)
	if err != nil {
		return nil, err
	}
	return managers.Start(plane, path, upstreamFlags(plane, s))
}

// change ends the process and starts another one with other flags, as an edit of its
// static pod manifest does.
func (u upstream) change(ctx context.Context, plane *controlplane.ControlPlane, old running, s settings) (running, error) {
	if err := old.Signal(syscall.SIGTERM); err != nil {
		return nil, err
	}
	select {
	case <-old.Exited():
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the end of the manager: %w", context.Cause(ctx))
	}
	return u.start(ctx, plane, s)
}

// upstreamFlags are the flags kubeadm gives it, with the controllers that both run and the
// chosen limits.
func upstreamFlags(plane *controlplane.ControlPlane, s settings) []string {
	flags := append(managers.Flags(plane, plane.ManagerKubeconfig(), controllerNames()), fmt.Sprintf("--leader-elect=%t", !s.alone))
	if qps, burst, ok := s.limits(); ok {
		flags = append(flags, fmt.Sprintf("--kube-api-qps=%g", qps), fmt.Sprintf("--kube-api-burst=%d", burst))
	}
	if s.deploymentSyncs != 0 {
		flags = append(flags, fmt.Sprintf("--concurrent-deployment-syncs=%d", s.deploymentSyncs))
	}
	return flags
}
