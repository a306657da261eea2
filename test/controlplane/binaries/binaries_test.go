package binaries

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const gomod = `module kcmd.dev/test/tools/x

go 1.26.0

tool example.com/x/cmd/x

require (
	example.com/xy v9.9.9 // indirect
	example.com/x v1.2.3 // indirect
)

replace example.com/x => example.com/x v1.2.4
`

func TestRequiredVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		gomod, module, want string
		fails               bool
	}{
		"block":       {gomod: gomod, module: "example.com/x", want: "v1.2.3"},
		"single line": {gomod: "module a\n\nrequire example.com/x v0.8.0\n", module: "example.com/x", want: "v0.8.0"},
		"absent":      {gomod: gomod, module: "example.com/z", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := requiredVersion(tc.gomod, tc.module)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestPinnedVersions(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{Etcd: "v3.6.8", KubeAPIServer: "v1.36.3", KubeScheduler: "v1.36.3", Kubectl: "v1.36.3", Kwok: "v0.8.0", KwokStages: "v0.8.0", UpstreamManager: "v1.36.3", Kubelet: "v1.36.3", EmptyRuntime: "v1.36.3",
		CSIProvisioner: "v6.3.0", CSIAttacher: "v4.12.0", CSIResizer: "v2.2.0", CSIDriver: "v1.13.0", Prometheus: "v0.316.0"}
	for _, tool := range tools() {
		version, _, err := builder{root: root}.stamp(tool)
		if err != nil || version != want[tool.name] {
			t.Errorf("%s: got %q, %v; want %s", tool.name, version, err, want[tool.name])
		}
	}
}

func TestProductDoesNotRequireKubernetes(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/kwok", "github.com/container-storage-interface/spec", "github.com/prometheus/prometheus"} {
		if version, err := requiredVersion(string(data), module); err == nil {
			t.Errorf("go.mod of the product requires %s %s", module, version)
		}
	}
}

func TestBuildOnlyWhenTheStampDiffers(t *testing.T) {
	b, tool := sampleBuilder(t)
	build := func() (progress string) {
		t.Helper()
		var log bytes.Buffer
		b.log = &log
		version, stamp, err := b.stamp(tool)
		if err != nil {
			t.Fatal(err)
		}
		if !b.current(tool, stamp) {
			if err := b.build(t.Context(), pending{tool: tool, version: version, stamp: stamp}); err != nil {
				t.Fatal(err)
			}
		}
		return log.String()
	}
	if progress := build(); !strings.Contains(progress, "building sample v1.0.0 … (a moment the first time)") || !strings.Contains(progress, "done in") {
		t.Errorf("first build: progress %q", progress)
	}
	got, err := os.ReadFile(filepath.Join(b.folder, "sample"))
	if err != nil || string(got) != "printed\n" {
		t.Fatalf("got %q, %v", got, err)
	}
	if progress := build(); progress != "" {
		t.Errorf("built again: %q", progress)
	}
	tool.ldflags = func(version string) []string { return []string{"-X main.v=" + version} }
	if progress := build(); progress == "" {
		t.Error("not built again after other linker flags")
	}
	tool.tags = "other"
	if progress := build(); progress == "" {
		t.Error("not built again with other build tags")
	}
	if err := os.Remove(filepath.Join(b.folder, "sample")); err != nil {
		t.Fatal(err)
	}
	if progress := build(); progress == "" {
		t.Error("not built again after the file vanished")
	}
}

// The version of a program that is written here says nothing about its source.
func TestAnOwnProgramIsBuiltAgainAfterAnEdit(t *testing.T) {
	b, tool := sampleBuilder(t)
	folder := filepath.Join(b.root, "test", "tools", tool.module, "own")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	tool.pkg = "kcmd.dev/test/tools/sample/own"
	stamp := func(source string) string {
		t.Helper()
		write(t, filepath.Join(folder, "main.go"), source)
		_, stamp, err := b.stamp(tool)
		if err != nil {
			t.Fatal(err)
		}
		return stamp
	}
	first := stamp("package main\n")
	if stamp("package main // edited\n") == first {
		t.Error("an edit does not change the stamp")
	}
	if stamp("package main\n") != first {
		t.Error("the stamp of the same source differs")
	}
}

func TestFailedBuildLeavesNoStamp(t *testing.T) {
	b, tool := sampleBuilder(t)
	write(t, filepath.Join(b.root, "test", "tools", "sample", "main.go"), "package main\n\nfunc main() { undefined() }\n")
	version, stamp, err := b.stamp(tool)
	if err != nil {
		t.Fatal(err)
	}
	err = b.build(t.Context(), pending{tool: tool, version: version, stamp: stamp})
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("got %v, want the compiler's message", err)
	}
	if b.current(tool, stamp) {
		t.Error("a failed build counts as current")
	}
}

func TestLockWaitsForItsHolder(t *testing.T) {
	b, _ := sampleBuilder(t)
	unlock, err := b.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held lock was given: %v", err)
	}
	unlock()
	unlock, err = b.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// sampleBuilder returns a builder on a repository of one tools module without
// dependencies, whose only tool is printed.
func sampleBuilder(t *testing.T) (builder, tool) {
	t.Helper()
	root := t.TempDir()
	module := filepath.Join(root, "test", "tools", "sample")
	for _, dir := range []string{module, filepath.Join(root, ".bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(module, "go.mod"), "module kcmd.dev/sample\n\ngo 1.26\n\nrequire example.com/pinned v1.0.0\n\nreplace example.com/pinned => ./pinned\n")
	if err := os.Mkdir(filepath.Join(module, "pinned"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(module, "pinned", "go.mod"), "module example.com/pinned\n")
	write(t, filepath.Join(module, "go.sum"), "")
	write(t, filepath.Join(module, "main.go"), "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"printed\") }\n")
	return builder{root: root, folder: filepath.Join(root, ".bin"), log: &bytes.Buffer{}},
		tool{name: "sample", module: "sample", pkg: ".", pins: "example.com/pinned", printed: true, first: "a moment"}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
