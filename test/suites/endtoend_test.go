package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	endToEnd = "endtoend"
	nodes    = 5
)

// wantedSpecs is the pattern of the specs that are run, empty for none.
//
//	KCMD_ENDTOEND  a regular expression: make endtoend
func wantedSpecs() string { return os.Getenv("KCMD_ENDTOEND") }

// TestUpstreamsEndToEndSuite runs each spec in a process of its own.
func TestUpstreamsEndToEndSuite(t *testing.T) {
	if wantedSpecs() == "" {
		t.Skip("make endtoend runs it")
	}
	pattern := must.Get(regexp.Compile(wantedSpecs()))(t)
	root := must.Get(binaries.Root())(t)
	bin := must.Get(binaries.Build(t.Context(), os.Stderr, binaries.Kubectl, binaries.KwokStages))(t)
	b := builder{root}
	r := specRunner{program: filepath.Join(b.folder(), "e2e.test"), bin: bin, logs: filepath.Join(b.folder(), "logs", endToEnd)}
	must.Get(b.golang(t.Context(), endToEnd, "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", r.program, kubernetes+"/test/e2e"))(t)
	t.Cleanup(func() { must.Succeed(t, os.Remove(r.program)) }) // of a hundred megabytes
	known := must.Get(r.known(t.Context()))(t)

	standard := must.Get(os.ReadFile(filepath.Join(bin, binaries.KwokStages)))(t)
	file := filepath.Join(t.TempDir(), "stages.yaml")
	must.Succeed(t, os.WriteFile(file, []byte(must.Get(stages(string(standard)))(t)), 0o600))
	plane := must.Get(controlplane.Start(t.Context(), controlplane.Options{
		Nodes: nodes, Scheduler: true, CSI: true, NoAudit: true, Stages: file,
	}))(t)
	t.Cleanup(func() { must.Succeed(t, plane.Stop()) })
	manager.StartProcess(t, plane, nil)
	r.kubeconfig = plane.AdminKubeconfig()

	run := func(t *testing.T, serial bool) {
		for i, name := range specs() {
			if isSerial(name) != serial || !pattern.MatchString(name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				if !serial {
					t.Parallel()
				}
				if !slices.Contains(known, name) {
					t.Fatal("there is no such spec")
				}
				must.Succeed(t, r.run(t.Context(), name, fmt.Sprintf("%03d.log", i)))
			})
		}
	}
	t.Run("together", func(t *testing.T) { run(t, false) })
	t.Run("alone", func(t *testing.T) { run(t, true) })
}

// specRunner runs specs.
type specRunner struct {
	// program is the suite, bin the folder of kubectl, which it calls, kubeconfig that of the cluster.
	program, bin, kubeconfig string
	// logs gets a file for each spec.
	logs string
}

// known returns the names of all specs.
func (r specRunner) known(ctx context.Context) ([]string, error) {
	var printed bytes.Buffer
	if err := process.Run(ctx, r.spec(process.Spec{Args: []string{"--list-tests"}, Output: &printed})); err != nil {
		return nil, err
	}
	line := regexp.MustCompile(`(?m)^ +\S+\.go:\d+: (.*)$`)
	var names []string
	for _, match := range line.FindAllStringSubmatch(printed.String(), -1) {
		names = append(names, strings.TrimSpace(match[1]))
	}
	return names, nil
}

// run runs a spec, whose output goes to a file. The error says where it is.
func (r specRunner) run(ctx context.Context, name, log string) error {
	path := filepath.Join(r.logs, log)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	patience := patienceWith(name)
	ctx, cancel := context.WithTimeout(ctx, patience+time.Minute)
	defer cancel()
	failed := process.Run(ctx, r.spec(process.Spec{
		Args: []string{
			"--kubeconfig=" + r.kubeconfig, "--provider=skeleton", fmt.Sprint("--num-nodes=", nodes), "--disable-log-dump=true",
			"--ginkgo.no-color", "--ginkgo.v", "--ginkgo.timeout=" + patience.String(), "--ginkgo.focus=" + regexp.QuoteMeta(name) + "$",
		},
		LogFile: path,
	}))
	output, err := os.ReadFile(path)
	if err == nil && failed == nil && !bytes.Contains(output, []byte(" 1 Passed")) {
		failed = errors.New("the spec did not run")
	}
	if failed != nil {
		return fmt.Errorf("%w: its log is %s", failed, path)
	}
	return err
}

func (r specRunner) spec(spec process.Spec) process.Spec {
	spec.Name, spec.Path, spec.Dir = "e2e.test", r.program, filepath.Dir(r.program)
	spec.Env = []string{"PATH=" + r.bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	return spec
}
