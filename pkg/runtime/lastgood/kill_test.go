package lastgood

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// Variables with which the program of the tests is started to keep a text and to be killed at a
// step.
const (
	dieAt  = "LASTGOOD_DIE_AT"
	dieIn  = "LASTGOOD_DIE_IN"
	before = "kind: before\n"
	after  = "kind: after"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(dieAt); at != "" {
		os.Exit(keepAndDie(os.Getenv(dieIn), at))
	}
	os.Exit(m.Run())
}

// keepAndDie returns only if it was not killed.
func keepAndDie(dir, at string) int {
	s, err := Open(dir, file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s.at = func(now step) {
		if strconv.Itoa(int(now)) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until it arrives
		}
	}
	fmt.Fprintln(os.Stderr, "not killed:", s.Keep(sample(after)))
	return 3
}

// A process that is killed between any two steps leaves what was kept before, or what is kept
// now, and nothing that stands in the way of the next one.
func TestKilledBetweenAnyTwoSteps(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, s *Store){
		"something was kept": func(t *testing.T, s *Store) { keep(t, s, before) },
		"nothing was kept":   func(*testing.T, *Store) {},
		"something of no use was there": func(t *testing.T, s *Store) {
			if err := os.WriteFile(s.Path(), []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for at := range steps {
			t.Run(fmt.Sprintf("%s/%d", name, at), func(t *testing.T) {
				s := open(t, t.TempDir(), file)
				put(t, s)
				want := textOf(s)
				if at >= renamed {
					want = after
				}
				killed(t, s.dir, at)
				if got := textOf(s); got != want {
					t.Errorf("kept: %q, want %q", got, want)
				}
				keep(t, s, "kind: next\n")
				if got := textOf(s); got != "kind: next\n" {
					t.Errorf("kept by the next process: %q", got)
				}
				if got := filesIn(t, s.dir); !slices.Equal(got, []string{"last-good.yaml"}) {
					t.Errorf("the directory has the files %q", got)
				}
			})
		}
	}
}

// killed runs a process that is killed at a step of keeping.
func killed(t *testing.T, dir string, at step) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", dieAt, at), dieIn+"="+dir)
	output, err := c.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("the process ended with %v: %s", err, output)
	}
	if state, ok := exit.Sys().(syscall.WaitStatus); !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Fatalf("the process was not killed, but ended with %v: %s", err, output)
	}
}
