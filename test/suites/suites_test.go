package suites

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager/program"
	"kcmd.dev/test/must"
	"kcmd.dev/test/suites/launch"
)

// patience is what one test gets, its API server included.
const patience = 10 * time.Minute

// wanted reports whether the suites are run.
//
//	KCMD_SUITES  yes: make suites
func wanted() bool { return os.Getenv("KCMD_SUITES") != "" }

// TestUpstreamsSuites runs each test of the suites in a process of its own.
func TestUpstreamsSuites(t *testing.T) {
	if !wanted() {
		t.Skip("make suites runs them")
	}
	root := must.Get(binaries.Root())(t)
	bin := must.Get(binaries.Build(t.Context(), os.Stderr, binaries.Etcd))(t)
	manager := filepath.Join(t.TempDir(), program.Name)
	must.Succeed(t, program.Provide(t.Context(), root, manager))
	b := builder{root}
	modules := must.Get(b.prepare(t.Context()))(t)
	for _, s := range Suites() {
		t.Run(s.Name, func(t *testing.T) {
			compiled := must.Get(b.compile(t.Context(), s.Name))(t)
			t.Cleanup(func() { must.Succeed(t, os.Remove(compiled)) }) // of a hundred megabytes
			r := runner{
				suite: s.Name, program: compiled, modules: modules, bin: bin, manager: manager,
				logs: filepath.Join(b.folder(), "logs", s.Name),
			}
			names := must.Get(r.list(t.Context()))(t)
			for name := range s.Left {
				if test, _, _ := strings.Cut(name, "/"); !slices.Contains(names, test) {
					t.Errorf("%s is left out, and there is no such test", name)
				}
			}
			for _, name := range names {
				t.Run(name, func(t *testing.T) {
					if reason := s.Left[name]; reason != "" {
						t.Skip(reason)
					}
					must.Succeed(t, r.run(t.Context(), name, s.skip()))
				})
			}
		})
	}
}

// runner runs the test program of a suite.
type runner struct {
	// suite is the name; program, bin and manager are the test program, the folder with etcd, and ours.
	suite, program, bin, manager string
	// modules is where the tests look for files of Kubernetes: compiled with -trimpath, they know their module alone.
	modules string
	// logs gets a folder for each test, with its log and the files of each of its managers.
	logs string
}

// list returns the names of the tests.
func (r runner) list(ctx context.Context) ([]string, error) {
	var printed bytes.Buffer
	if err := process.Run(ctx, r.spec(os.TempDir(), process.Spec{Args: []string{"-test.list=^Test"}, Output: &printed})); err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(printed.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Test") {
			names = append(names, line)
		}
	}
	return names, nil
}

// run runs a test without the parts that skip matches. The error says where its log is.
func (r runner) run(ctx context.Context, name, skip string) error {
	folder := filepath.Join(r.logs, name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience+time.Minute)
	defer cancel()
	output := filepath.Join(folder, "test.log")
	err := process.Run(ctx, r.spec(folder, process.Spec{
		Args:    []string{fmt.Sprintf("-test.run=^%s$", name), "-test.skip=" + skip, "-test.v", "-test.timeout=" + patience.String()},
		LogFile: output,
	}))
	if err != nil {
		return fmt.Errorf("%w: its log is %s", err, output)
	}
	return nil
}

func (r runner) spec(folder string, spec process.Spec) process.Spec {
	spec.Name, spec.Path = r.suite, r.program
	spec.Dir = filepath.Dir(r.program)
	spec.Env = []string{
		"PATH=" + r.bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		launch.ManagerVariable + "=" + r.manager,
		launch.FolderVariable + "=" + folder,
		"TEST_SRCDIR=" + r.modules, "TEST_WORKSPACE=.",
	}
	return spec
}
