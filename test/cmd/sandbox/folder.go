package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// state is what state.json tells other invocations about the running sandbox.
type state struct {
	// Process is the one that runs the control plane; its end is the sandbox's.
	Process process.Identity `json:"process"`
	// Ready is false while the control plane starts.
	Ready  bool   `json:"ready"`
	Server string `json:"server,omitempty"`
	Nodes  int    `json:"nodes"`
}

// folder is the folder of one sandbox.
type folder struct {
	root string // of the repository
	path string
}

var errRunning = errors.New("a sandbox is running here already; `sandbox down` stops it")

// openFolder resolves the --dir flag.
func openFolder(dir string) (folder, error) {
	root, err := binaries.Root()
	if err != nil {
		return folder{}, err
	}
	if dir == "" {
		dir = filepath.Join(root, ".sandbox")
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return folder{}, fmt.Errorf("resolving the sandbox's folder: %w", err)
	}
	return folder{root: root, path: path}, nil
}

func (f folder) file(name string) string { return filepath.Join(f.path, name) }
func (f folder) clusterDir() string      { return f.file("cluster") }
func (f folder) logFile() string         { return f.file("sandbox.log") }
func (f folder) adminKubeconfig() string { return f.file("admin.conf") }

// published are the files at fixed names, each a copy of the control plane's.
func published(c *controlplane.ControlPlane) map[string]string {
	return map[string]string{
		"admin.conf":              c.AdminKubeconfig(),
		"controller-manager.conf": c.ManagerKubeconfig(),
		"ca.crt":                  c.RootCAFile(),
		"ca.key":                  c.RootCAKeyFile(),
		"sa.key":                  c.ServiceAccountKeyFile(),
		"sa.pub":                  c.ServiceAccountPublicKeyFile(),
		"front-proxy-ca.crt":      c.RequestHeaderCAFile(),
	}
}

// lock takes the folder for this process; it fails with errRunning when another
// one has it. The kernel gives it back when the process ends.
func (f folder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return nil, fmt.Errorf("creating the sandbox's folder: %w", err)
	}
	file, err := os.OpenFile(f.file("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the sandbox's folder: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(errRunning, file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the sandbox's folder: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// clear removes what this or a killed sandbox left; the caller holds the lock.
func (f folder) clear() error {
	errs := []error{os.RemoveAll(f.clusterDir())}
	for _, name := range append([]string{"state.json"}, publishedNames()...) {
		if err := os.Remove(f.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clearing the sandbox's folder: %w", err)
	}
	return nil
}

func publishedNames() []string {
	var names []string
	for name := range published(&controlplane.ControlPlane{}) {
		names = append(names, name)
	}
	return names
}

// publish copies the control plane's files to their fixed names.
func (f folder) publish(c *controlplane.ControlPlane) error {
	for name, source := range published(c) {
		data, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("publishing %s: %w", name, err)
		}
		if err := f.replace(name, data); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file at once: a reader sees the old or the new content.
func (f folder) replace(name string, data []byte) error {
	temporary := f.file("." + name + ".new")
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := os.Rename(temporary, f.file(name)); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func (f folder) writeState(s state) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the sandbox's state: %w", err)
	}
	return f.replace("state.json", append(data, '\n'))
}

// readState returns the state of the running sandbox. It is false when none runs:
// no file, or the file of a process that has ended.
func (f folder) readState() (state, bool, error) {
	data, err := os.ReadFile(f.file("state.json"))
	if errors.Is(err, os.ErrNotExist) {
		return state{}, false, nil
	}
	if err != nil {
		return state{}, false, fmt.Errorf("reading the sandbox's state: %w", err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, false, fmt.Errorf("reading the sandbox's state: %w", err)
	}
	return s, s.Process.Alive(), nil
}
