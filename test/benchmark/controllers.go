package benchmark

import (
	"context"
	"errors"
	"fmt"

	"kcmd.dev/test/benchmark/report"
)

// runControllers watches our manager with nothing to do: with no controller, with the first half of those
// that run by default, none of which needs one of the others, and with all of them.
func runControllers(ctx context.Context, s *stage) error {
	all := controllerNames()
	for i, names := range [][]string{{}, all[:len(all)/2], all} {
		if err := s.startOnly(ctx, names); err != nil {
			return err
		}
		err := s.measure(ctx, phase{
			name: report.ControllersPhases[i], size: fmt.Sprintf("%d controllers in an empty cluster for %s", len(names), s.options.Idle), units: float64(len(names)), unit: "controller",
			work: func(ctx context.Context, figures map[string]float64) error {
				err := idle(ctx, s.options.Idle, figures)
				figures[report.Wall] = s.options.Idle.Seconds()
				return err
			},
			after: s.addHeap,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startOnly starts our manager with some controllers. They need not include those whose work shows that a
// manager is ready, so it is asked.
func (s *stage) startOnly(ctx context.Context, names []string) error {
	if err := s.retire(); err != nil {
		return err
	}
	m, err := s.subject.start(ctx, s.plane, settings{mode: s.mode, alone: true, controllers: names})
	if err != nil {
		return err
	}
	s.manager = m
	p, ok := m.(ourProcess)
	if !ok {
		return errors.New("only our manager runs any choice of controllers")
	}
	if err := p.WaitRunning(ctx); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	return idle(ctx, memoryHold, map[string]float64{})
}
