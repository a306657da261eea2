package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

const kubernetes = "k8s.io/kubernetes"

// builder compiles suites.
type builder struct {
	// root is that of the repository.
	root string
}

// folder holds what is built, and the module that test/tools/suites compiles.
func (b builder) folder() string { return filepath.Join(b.root, ".bin", "suites") }

func (b builder) standins() string { return filepath.Join(b.root, "test", "suites", "testdata") }

func (b builder) module() string { return filepath.Join(b.folder(), "kubernetes") }

// prepare copies Kubernetes' module, unless that was done for the same version and stand-ins, and puts the stand-ins in. It
// returns the folder in which modules are downloaded.
func (b builder) prepare(ctx context.Context) (modules string, err error) {
	unlock, err := binaries.Lock(ctx, b.folder())
	if err != nil {
		return "", err
	}
	defer unlock()
	var downloaded struct{ Version, Dir string }
	printed, err := b.golang(ctx, "kubernetes", "mod", "download", "-json", kubernetes)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(printed, &downloaded); err != nil {
		return "", fmt.Errorf("finding the module of Kubernetes: %w", err)
	}
	modules = strings.TrimSuffix(downloaded.Dir, "/"+kubernetes+"@"+downloaded.Version)
	return modules, b.lay(downloaded.Dir, downloaded.Version)
}

// lay makes the copy that is compiled.
func (b builder) lay(from, version string) error {
	replaced, err := packages(b.standins())
	if err != nil {
		return err
	}
	stamp, stampFile := version+"\n"+strings.Join(replaced, "\n"), filepath.Join(b.folder(), "stamp")
	if have, err := os.ReadFile(stampFile); err != nil || string(have) != stamp {
		if err := b.copyModule(from); err != nil {
			return err
		}
		if err := os.WriteFile(stampFile, []byte(stamp), 0o600); err != nil {
			return err
		}
	}
	for _, p := range replaced {
		if err := replacePackage(filepath.Join(b.module(), p), filepath.Join(b.standins(), p)); err != nil {
			return err
		}
	}
	return nil
}

func (b builder) copyModule(from string) error {
	if err := os.RemoveAll(b.module()); err != nil {
		return fmt.Errorf("removing the copy of Kubernetes' module: %w", err)
	}
	if err := os.CopyFS(b.module(), os.DirFS(from)); err != nil {
		return fmt.Errorf("copying Kubernetes' module: %w", err)
	}
	return nil
}

// packages returns the folders below root that hold Go files, relative to it and in order.
func packages(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil && !slices.Contains(found, folder) {
			found = append(found, folder)
		}
		return err
	})
	slices.Sort(found)
	return found, err
}

// replacePackage makes the Go files of a folder those of another; what is in folders below stays.
func replacePackage(to, from string) error {
	old, err := filepath.Glob(filepath.Join(to, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("putting a stand-in into place: %w", err)
		}
	}
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("putting a stand-in into place: %w", err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), content, 0o600); err != nil {
			return fmt.Errorf("putting a stand-in into place: %w", err)
		}
	}
	return nil
}

// compile builds the test program of a suite and returns its path.
func (b builder) compile(ctx context.Context, suite string) (string, error) {
	program := filepath.Join(b.folder(), strings.ReplaceAll(suite, "/", "-")+".test")
	_, err := b.golang(ctx, "suites", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program, kubernetes+"/test/integration/"+suite)
	return program, err
}

// golang runs the go command in a folder of test/tools, and returns what it printed.
func (b builder) golang(ctx context.Context, module string, args ...string) ([]byte, error) {
	var printed, messages bytes.Buffer
	err := process.Run(ctx, process.Spec{
		Name:   "go " + args[0],
		Path:   "go",
		Args:   args,
		Env:    []string{"GOWORK=off"},
		Dir:    filepath.Join(b.root, "test", "tools", module),
		Output: &printed,
		Stderr: &messages,
	})
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, messages.String())
	}
	return printed.Bytes(), nil
}
