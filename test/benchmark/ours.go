package benchmark

import (
	"context"
	"errors"
	"fmt"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

// ours is the program of this repository.
type ours struct{ binary string }

// ourProcess adapts a manager of package manager.
type ourProcess struct{ *manager.Process }

func (p ourProcess) Exited() <-chan struct{} { return p.Done() }

func (o ours) start(ctx context.Context, plane *controlplane.ControlPlane, s settings) (running, error) {
	// The program is built already, so package manager need not do it for each plane.
	if _, err := link(o.binary, plane); err != nil {
		return nil, err
	}
	p, err := manager.BeginProcess(ctx, plane, s.apply)
	if err != nil {
		return nil, err
	}
	return ourProcess{p}, nil
}

// change edits the file and waits until the process says that the edit is in force and
// every controller runs with it.
func (o ours) change(ctx context.Context, _ *controlplane.ControlPlane, old running, s settings) (running, error) {
	p, ok := old.(ourProcess)
	if !ok {
		return nil, errors.New("changing the settings: not our manager")
	}
	if err := p.Edit(ctx, s.apply); err != nil {
		return nil, fmt.Errorf("changing the settings: %w", err)
	}
	return p, p.WaitRunning(ctx)
}
