package promises

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
	"kcmd.dev/test/ports"
)

// takeOverWithin is how long a cluster may be without a leader when one leaves.
const takeOverWithin = time.Second

// A process that is told to end finishes, gives the lease back and ends with exit code 0;
// the standby leads at once.
// Pins MGR-164.
func TestSignalEndsTheProcessInGoodOrder(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			name := harness.LeaseOf(t)
			leader := manager.StartProcess(t, plane, ownLease(t, nil))
			standby := begin(t, runtime.Options{}, nil)
			harness.Wait(t, standby, "it stands by", standsBy)
			held := holder(t, name)

			must.Succeed(t, leader.Signal(signal))
			must.Succeed(t, leader.WaitExit(t.Context()))
			ended := time.Now()
			if got := holder(t, name); got == held {
				t.Errorf("the lease is still held by %q", got)
			}
			harness.Wait(t, standby, "it leads", func(s *runtime.Status) error {
				if !s.Leadership.Leading {
					return errors.New("it does not")
				}
				return nil
			})
			if took := time.Since(ended); took > takeOverWithin {
				t.Errorf("the standby leads %v after the leader has ended, want at most %v", took, takeOverWithin)
			}
			waitRunning(t, standby)
			t.Logf("every controller runs %v after the leader has ended", time.Since(ended).Round(time.Millisecond))
		})
	}
}

// Without a standby the lease is left without a holder.
// Pins MGR-164.
func TestLeaseIsReleased(t *testing.T) {
	m := start(t, nil)
	must.Succeed(t, m.Stop())
	if got := holder(t, harness.LeaseOf(t)); got != "" {
		t.Errorf("the lease is held by %q", got)
	}
}

func standsBy(s *runtime.Status) error {
	if s.Leadership.Leading || s.Leadership.Lease == nil || s.Leadership.Lease.Holder == "" || s.Leadership.Lease.Holder == s.Leadership.Lease.Identity {
		return fmt.Errorf("leadership is %+v", s.Leadership)
	}
	return nil
}

// A shutdown that hangs, here because the API server does not answer, can be cut short.
// Pins MGR-164.
func TestSecondSignalKills(t *testing.T) {
	p := manager.StartProcess(t, plane, ownLease(t, nil))
	t.Cleanup(func() { // or the managers of other tests wait until it expires
		if err := plane.AdminClient().CoordinationV1().Leases(metav1.NamespaceSystem).Delete(context.Background(), harness.LeaseOf(t), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, plane.PauseAPIServer())
	t.Cleanup(func() {
		if err := plane.ResumeAPIServer(); err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, p.Signal(syscall.SIGTERM))
	inLog(t, p, "Stopping controllers")
	must.Succeed(t, p.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	err := p.WaitExit(t.Context())
	if !errors.As(err, &exit) {
		t.Fatalf("the process ended with %v, want the signal", err)
	}
	if state, ok := exit.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != syscall.SIGTERM {
		t.Errorf("the process ended with %v, want the signal", err)
	}
}

// A file that cannot be used at the start is an exit code and a message.
func TestUnusableFileAtTheStart(t *testing.T) {
	binary, err := manager.Build(t.Context(), plane.Dir())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	c := manager.Default(plane, int(ports.FreeFor(t)))
	c.ServiceAccounts.PrivateKeyFile = "/nowhere/sa.key"
	noKey, err := config.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	c = manager.Default(plane, int(apiServerPort()))
	portTaken, err := config.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct{ name, path, says string }{
		{"missing", filepath.Join(folder, "missing.yaml"), "no such file or directory"},
		{"directory", folder, "is a directory"},
		{"empty", file("empty.yaml", ""), "an empty file is not a configuration"},
		{"syntax error", file("syntax.yaml", "a: [\n"), "syntax.yaml:"},
		{"missing key", file("key.yaml", string(noKey)), "serviceAccounts.privateKeyFile"},
		{"port taken", file("port.yaml", string(portTaken)), "address already in use"},
	} {
		t.Run(try.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			output, err := exec.CommandContext(ctx, binary, "--config="+try.path).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("the process ended with %v, want exit code 1", err)
			}
			if !strings.Contains(string(output), try.says) {
				t.Errorf("the output is\n%s\nwithout %q", output, try.says)
			}
		})
	}
}

// Without an API server the process starts, waits, alive and not ready, and gets to work when
// the API server is there.
// Pins MGR-165.
func TestStartWithoutAPIServer(t *testing.T) {
	must.Succeed(t, plane.StopAPIServer())
	restart := sync.OnceValue(func() error { return plane.RestartAPIServer(context.WithoutCancel(t.Context())) })
	t.Cleanup(func() {
		if err := restart(); err != nil {
			t.Error(err)
		}
	})

	waiting := beginProcess(t, nil)
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusInternalServerError} {
		await.That(t, fmt.Sprintf("%s answers %d", path, want), func(context.Context) error {
			got, err := code(t, waiting.Client(), waiting.URL()+path, nil)
			if err == nil && got != want {
				err = fmt.Errorf("it answers %d", got)
			}
			return err
		})
	}
	must.Succeed(t, restart())
	there := time.Now()
	await.That(t, "it is ready", func(context.Context) error {
		got, err := code(t, waiting.Client(), waiting.URL()+"/readyz", nil)
		if err == nil && got != http.StatusOK {
			err = fmt.Errorf("it answers %d", got)
		}
		return err
	})
	t.Logf("ready %v after the API server", time.Since(there).Round(time.Millisecond))
	controllersWork(t)
}

// beginProcess runs the real binary and does not wait for its controllers.
func beginProcess(t *testing.T, edit func(*manager.Config)) *manager.Process {
	t.Helper()
	return manager.JoinProcess(t, plane, ownLease(t, edit))
}
