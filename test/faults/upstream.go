package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/v1beta1"
	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/upstream"
)

// silent is a manager of upstream.
type silent struct{ *upstream.Manager }

// errSilent is that a manager does not tell what its caches show.
var errSilent = errors.New("the manager does not tell what it has seen")

// Status is that of our managers only.
func (silent) Status(context.Context) (kcmruntime.Status, error) {
	return kcmruntime.Status{}, errSilent
}

// startUpstream starts the manager of upstream, and returns when it is healthy.
func startUpstream(ctx context.Context, plane *controlplane.ControlPlane, s *Scenario, kubeconfig string) (silent, error) {
	bin, err := binaries.Build(ctx, io.Discard, binaries.UpstreamManager)
	if err != nil {
		return silent{}, err
	}
	m, err := upstream.Start(plane, filepath.Join(bin, binaries.UpstreamManager), s.upstreamFlags(plane, kubeconfig))
	if err != nil {
		return silent{}, err
	}
	if err := await.Nil(ctx, patience, m.Healthy); err != nil {
		return silent{}, errors.Join(err, m.Stop())
	}
	return silent{m}, nil
}

// upstreamFlags are those that kubeadm gives, and those that the scenario needs.
func (s *Scenario) upstreamFlags(plane *controlplane.ControlPlane, kubeconfig string) []string {
	c := v1beta1.NewDefault()
	s.configure(c)
	var names, gates []string
	for _, one := range c.Controllers.All() {
		if c.ControllerEnabled(one.Name) {
			names = append(names, one.Name)
		}
	}
	for gate, on := range c.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", gate, on))
	}
	return slices.Concat(upstream.Flags(plane, kubeconfig, names), []string{
		"--leader-elect=false",
		"--kube-api-qps=5000", "--kube-api-burst=5000",
		"--feature-gates=" + strings.Join(gates, ","),
	}, s.Flags)
}
