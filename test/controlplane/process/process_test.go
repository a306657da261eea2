package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kcmd.dev/test/await"
)

// parentMode makes the test binary act as a parent that starts a child, prints
// the child's process id and then blocks until it is killed.
const parentMode = "KCMD_PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentMode) == "" {
		os.Exit(m.Run())
	}
	p, err := Start(Spec{Name: "sleep", Path: "sleep", Args: []string{"600"}})
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n"); err != nil {
		panic(err)
	}
	<-p.Exited()
}

func TestChildDiesWithAKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentMode+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 32)
	n, err := out.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	if err != nil {
		t.Fatal(err)
	}
	child, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // always "signal: killed"
	await.True(t, "the child is gone", func() bool { return !child.Alive() })
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	p, err := Start(Spec{Name: "stubborn", Path: "sh", Args: []string{"-c", `trap "" TERM; : >"$0"; while :; do sleep 0.1; done`, ready}})
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the child is ready", func() bool { _, err := os.Stat(ready); return err == nil })
	if err := p.Stop(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("a stopped process reports an error: %v", err)
	}
	if err := p.Stop(time.Second); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestStopEndsASuspendedProcess(t *testing.T) {
	p, err := Start(Spec{Name: "sleep", Path: "sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Suspend(); err != nil {
		t.Fatal(err)
	}
	if stopped, err := allStopped(p.PID()); err != nil || !stopped {
		t.Errorf("all threads are stopped: %t, %v", stopped, err)
	}
	begin := time.Now()
	if err := p.Stop(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("SIGTERM did not reach the suspended process: stop took %v", took)
	}
}

func TestUnexpectedEndShowsTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Spec{Name: "broken", Path: "sh", Args: []string{"-c", "echo the reason >&2; exit 3"}, LogFile: log})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	var exit *ExitError
	if err := p.Err(); !errors.As(err, &exit) || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want an ExitError with status and log", err)
	}
}

func TestRunStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Run(ctx, Spec{Name: "sleep", Path: "sleep", Args: []string{"600"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestStopReachesGrandchildren(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	p, err := Start(Spec{Name: "compiler driver", Path: "sh", Args: []string{"-c", `sleep 600 & echo $! >"$0.new"; mv "$0.new" "$0"; wait`, pidFile}})
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the grandchild is there", func() bool { _, err := os.Stat(pidFile); return err == nil })
	written, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(written)))
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the grandchild is gone", func() bool { return !grandchild.Alive() })
}

func TestIdentity(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	other := self
	other.StartTime++
	if other.Alive() {
		t.Error("another start time counts as the same process")
	}
}

func TestParseStat(t *testing.T) {
	tail := " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9"
	for name, tc := range map[string]struct {
		stat  string
		start uint64
		fails bool
	}{
		"plain":                 {stat: "7 (etcd)" + tail, start: 4711},
		"parentheses and space": {stat: "7 (a) b (c)" + tail, start: 4711},
		"short":                 {stat: "7 (etcd) S 1", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			state, start, err := parseStat(tc.stat)
			if (err != nil) != tc.fails {
				t.Fatalf("error %v", err)
			}
			if !tc.fails && (start != tc.start || state != "S") {
				t.Errorf("got %s %d", state, start)
			}
		})
	}
}
