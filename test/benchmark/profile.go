package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"kcmd.dev/test/manager"
)

// profileTime is how much of a phase the profile of the processor covers.
const profileTime = 20 * time.Second

// profile takes profiles of our manager during a phase, when that was asked for: of the
// processor from the beginning, of the memory at the end. The returned function writes
// the latter and waits for the former.
func (s *stage) profile(ctx context.Context, phase string) (stop func() error) {
	if s.options.Profiles == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		done <- s.takeProfile(ctx, phase, "cpu", fmt.Sprintf("profile?seconds=%d", int(profileTime.Seconds())))
	}()
	return func() error {
		heap := s.takeProfile(ctx, phase, "heap", "heap?gc=1")
		return errors.Join(<-done, heap, s.takeProfile(ctx, phase, "allocs", "allocs"))
	}
}

// takeProfile does nothing while no manager of ours runs.
func (s *stage) takeProfile(ctx context.Context, phase, kind, path string) error {
	p, ok := s.manager.(ourProcess)
	if !ok {
		return nil
	}
	// The client of package manager gives up after 10 seconds.
	client := *p.Client()
	client.Timeout = 2 * profileTime
	data, err := manager.Get(ctx, &client, p.URL()+"/debug/pprof/"+path)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	if err := os.MkdirAll(s.options.Profiles, 0o755); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%s-%d.%s.pprof", s.scenario, phase, s.mode, s.round, kind)
	return os.WriteFile(filepath.Join(s.options.Profiles, name), data, 0o644)
}
