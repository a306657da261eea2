// Package program builds the manager as `make build` does, with nothing but Go.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
)

// Name is the name of the program.
const Name = "kube-controller-manager"

const versionVariable = "k8s.io/component-base/version.gitVersion"

// Provide makes the manager, as Build compiles it, available as a file, unless that exists. It is compiled in a folder
// that stays: the go command links it only if something has changed, and packages of tests share it.
func Provide(ctx context.Context, root, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	folder := filepath.Join(root, ".bin", "tests")
	unlock, err := binaries.Lock(ctx, folder)
	if err != nil {
		return err
	}
	defer unlock()
	kept := filepath.Join(folder, Name)
	if err := Build(ctx, root, kept); err != nil {
		return err
	}
	// The go command replaces a file and does not write into it: what was made available before stays as it is.
	if err := os.Link(kept, to); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err := os.Symlink(kept, to); err != nil { // on another file system
		return fmt.Errorf("linking %s: %w", Name, err)
	}
	return nil
}

// Build compiles the manager of the repository at root into a file, as it is released. The folder of
// the command says in app/VERSION and TAGS how.
func Build(ctx context.Context, root, to string) error {
	source := path.Join("cmd", Name)
	read := func(name string) (string, error) {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(source), filepath.FromSlash(name)))
		return strings.TrimSpace(string(data)), err
	}
	version, err := read("app/VERSION")
	if err != nil {
		return fmt.Errorf("building %s: %w", Name, err)
	}
	tags, err := read("TAGS")
	if err != nil {
		return fmt.Errorf("building %s: %w", Name, err)
	}
	var messages bytes.Buffer
	err = process.Run(ctx, process.Spec{
		Name:   "go build",
		Path:   "go",
		Args:   []string{"build", "-trimpath", "-tags", tags, "-ldflags", "-s -w -X " + versionVariable + "=" + version, "-o", to, "./" + source},
		Env:    []string{"CGO_ENABLED=0"},
		Dir:    root,
		Output: &messages,
	})
	if err != nil {
		return fmt.Errorf("building %s: %w\n%s", Name, err, &messages)
	}
	return nil
}
