package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
)

// Manager is a manager in this process. Its methods may be called from several
// goroutines.
type Manager struct {
	*instance
	// Runtime is what runs.
	Runtime *runtime.Runtime

	cancel context.CancelFunc
	stop   func() error
}

// Start runs a manager until the end of the test. edit changes the configuration it
// starts with; nil leaves Default.
func Start(t testing.TB, cp *controlplane.ControlPlane, edit func(*Config)) *Manager {
	t.Helper()
	m, err := Launch(t.Context(), cp, edit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Join is Begin until the end of the test.
func Join(t testing.TB, cp *controlplane.ControlPlane, o runtime.Options, edit func(*Config)) *Manager {
	t.Helper()
	m, err := Begin(t.Context(), cp, o, edit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Launch is Start outside of a test. The end of ctx aborts the start and has no
// effect later.
func Launch(ctx context.Context, cp *controlplane.ControlPlane, edit func(*Config)) (*Manager, error) {
	return launch(ctx, cp, runtime.Options{}, edit)
}

func launch(ctx context.Context, cp *controlplane.ControlPlane, o runtime.Options, edit func(*Config)) (*Manager, error) {
	m, err := Begin(ctx, cp, o, edit)
	if err != nil {
		return nil, err
	}
	if err := m.WaitRunning(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the manager: %w", err), m.Stop())
	}
	return m, nil
}

// Begin runs a manager with options of the caller's, and does not wait for anything:
// it may be one that stands by, or whose start fails. Options.ConfigFile is set here,
// Options.Descriptors default to all controllers.
func Begin(ctx context.Context, cp *controlplane.ControlPlane, o runtime.Options, edit func(*Config)) (*Manager, error) {
	i, err := newInstance(cp, edit)
	if err != nil {
		return nil, err
	}
	o.ConfigFile = i.ConfigFile()
	if o.Descriptors == nil {
		o.Descriptors = controllers.All()
	}
	r, err := runtime.New(o)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	log, err := os.OpenFile(i.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the manager's log: %w", err)
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log), textlogger.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logger))
	m := &Manager{instance: i, Runtime: r, cancel: cancel}
	m.stop = sync.OnceValue(m.stopOnce)
	m.status = func(context.Context) (runtime.Status, error) { return r.Status(), nil }

	done := make(chan struct{})
	var outcome error
	m.done, m.failure = done, func() error { return outcome }
	go pprof.Do(ctx, pprof.Labels(label, i.Dir()), func(ctx context.Context) {
		defer close(done)
		defer func() { _ = log.Close() }()
		outcome = r.Run(ctx)
	})
	return m, nil
}

// Done is closed when the manager has ended, by itself or through Stop.
func (m *Manager) Done() <-chan struct{} { return m.done }

// Stop ends the manager as SIGTERM does, waits for its end and returns what its Run
// returned. It is idempotent.
func (m *Manager) Stop() error { return m.stop() }

func (m *Manager) stopOnce() error {
	m.cancel()
	m.client.CloseIdleConnections()
	timer := time.NewTimer(readyTimeout)
	defer timer.Stop()
	select {
	case <-m.done:
	case <-timer.C:
		return fmt.Errorf("the manager did not stop within %s", readyTimeout)
	}
	if err := m.failure(); err != nil {
		return fmt.Errorf("the manager ended with an error: %w", err)
	}
	return nil
}
