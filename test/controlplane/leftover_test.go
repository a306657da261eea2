package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane/process"
)

// subprocessMode makes the test binary run only TestSubprocess, on a control
// plane of its own, and end in the way the variable's value says.
const subprocessMode = "KCMD_CONTROLPLANE_TEST_SUBPROCESS"

const (
	modeBlock = "block"
	modePanic = "panic"
	modeFail  = "fail"
)

// announcement is what the subprocess says about its control plane.
type announcement struct {
	Dir       string
	Processes []process.Identity
}

// TestSubprocess is the body of the subprocess; it does nothing otherwise.
func TestSubprocess(t *testing.T) {
	mode := os.Getenv(subprocessMode)
	if mode == "" {
		t.Skip("only in a subprocess of TestNothingIsLeftBehind")
	}
	said := announcement{Dir: plane.Dir()}
	for _, p := range plane.running {
		identity, err := process.Identify(p.PID())
		if err != nil {
			t.Fatal(err)
		}
		said.Processes = append(said.Processes, identity)
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		t.Fatal(err)
	}
	switch mode {
	case modePanic:
		panic("a test panics")
	case modeFail:
		t.Fatal("a test fails")
	default:
		<-t.Context().Done()
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   string
		signal syscall.Signal // sent when the control plane runs; 0: none
		code   int            // -1: ended by a signal
		swept  bool           // the folder is only removed by the next start
	}{
		"killed":      {mode: modeBlock, signal: syscall.SIGKILL, code: -1, swept: true},
		"interrupted": {mode: modeBlock, signal: syscall.SIGINT, code: 130},
		"terminated":  {mode: modeBlock, signal: syscall.SIGTERM, code: 143},
		"panicking":   {mode: modePanic, code: 2, swept: true},
		"failing":     {mode: modeFail, code: 1},
	} {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			said, command := startSubprocess(t, tc.mode, temporary)
			if len(said.Processes) != 2 {
				t.Fatalf("got %+v, want etcd and kube-apiserver", said)
			}
			if tc.signal != 0 {
				if err := command.Process.Signal(tc.signal); err != nil {
					t.Fatal(err)
				}
			}
			var exit *exec.ExitError
			if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != tc.code {
				t.Errorf("the subprocess ended with %v, want code %d", err, tc.code)
			}
			await.That(t, "all processes are gone", func(context.Context) error {
				for _, p := range said.Processes {
					if p.Alive() {
						return errors.New("a process is left")
					}
				}
				return nil
			})
			if tc.swept {
				if err := sweep(temporary, time.Now().Add(2*newFolderAge)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Stat(said.Dir); !os.IsNotExist(err) {
				t.Errorf("the folder is left: %v", err)
			}
		})
	}
}

// startSubprocess returns when the subprocess's control plane runs.
func startSubprocess(t *testing.T, mode, temporary string) (announcement, *exec.Cmd) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestSubprocess$", "-test.timeout=5m")
	command.Env = append(os.Environ(), subprocessMode+"="+mode, "TMPDIR="+temporary)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	command.Stdout, command.Stderr = writer, &messages
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill() // a no-op unless the test failed half-way
		_ = reader.Close()
	})
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	var said announcement
	if err := json.NewDecoder(reader).Decode(&said); err != nil {
		t.Fatalf("the subprocess did not start: %v\n%s", err, &messages)
	}
	return said, command
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	later := time.Now().Add(2 * newFolderAge)
	folder := func(name string, withOwner bool) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if withOwner {
			if err := os.WriteFile(filepath.Join(path, ownerFile), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	dead := folder("kcmd-sandbox-dead", true)
	kept := folder("kcmd-sandbox-kept", false)
	foreign := folder("another-folder", true)
	used := folder("kcmd-sandbox-used", true)
	owner, err := lockFile(filepath.Join(used, ownerFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = owner.Close() }()

	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	if err := sweep(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !exists(dead) {
		t.Error("a folder that may be about to be locked was removed")
	}
	if err := sweep(dir, later); err != nil {
		t.Fatal(err)
	}
	if exists(dead) || !exists(kept) || !exists(foreign) || !exists(used) {
		t.Errorf("dead %v, kept %v, foreign %v, used %v", exists(dead), exists(kept), exists(foreign), exists(used))
	}
}

func TestFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	own := filepath.Join(t.TempDir(), "own")
	f, err := openFolder(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("a folder of the caller's was removed: %v", err)
	}
	if err := os.WriteFile(filepath.Join(own, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(own); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder in use was taken: %v", err)
	}

	t.Setenv(keepVariable, "1")
	f, err = openFolder("")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if err := sweep(os.TempDir(), time.Now().Add(2*newFolderAge)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.path); err != nil {
		t.Errorf("a folder to keep was removed: %v", err)
	}
}

func TestNamespaceName(t *testing.T) {
	for test, want := range map[string]string{
		"TestScaleUp":                     "testscaleup-x",
		"TestA/b_c,d":                     "testa-b-c-d-x",
		"///":                             "test-x",
		strings.Repeat("Long", 20) + "/x": strings.Repeat("long", 12) + "lo-x",
	} {
		if got := namespaceName(test, "x"); got != want {
			t.Errorf("%s: got %s, want %s", test, got, want)
		}
	}
}
