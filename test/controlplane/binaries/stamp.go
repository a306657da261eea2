package binaries

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var moduleLine = regexp.MustCompile(`(?m)^module kcmd\.dev$`)

// stamp describes everything the built file depends on. It is computed without
// running the go command, because every start of a control plane checks it.
func (b builder) stamp(t tool) (version, stamp string, err error) {
	module := filepath.Join(b.root, "test", "tools", t.module)
	gomod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return "", "", fmt.Errorf("reading the version of %s: %w", t.name, err)
	}
	gosum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", "", fmt.Errorf("reading the version of %s: %w", t.name, err)
	}
	version, err = requiredVersion(string(gomod), t.pins)
	if err != nil {
		return "", "", fmt.Errorf("reading the version of %s: %w", t.name, err)
	}
	dependencies := sha256.Sum256(append(gomod, gosum...))
	stamp = fmt.Sprintf("package: %s\nversion: %s\ntags: %s\nldflags: %s\ngo: %s %s/%s\ndependencies: %x\n",
		t.pkg, version, t.tags, linkerFlags(t, version), runtime.Version(), runtime.GOOS, runtime.GOARCH, dependencies)
	if folder, ours := strings.CutPrefix(t.pkg, "kcmd.dev/test/tools/"+t.module+"/"); ours {
		sources, err := hashSources(filepath.Join(module, folder))
		if err != nil {
			return "", "", fmt.Errorf("reading the sources of %s: %w", t.name, err)
		}
		stamp += fmt.Sprintf("sources: %x\n", sources)
	}
	return version, stamp, nil
}

// hashSources covers the Go files of a folder. The version of a program of this repository does not
// change with them.
func hashSources(folder string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(hash, "%s %d\n", filepath.Base(file), len(data))
		hash.Write(data)
	}
	return hash.Sum(nil), nil
}

func (b builder) stampFile(t tool) string {
	return filepath.Join(b.folder, "."+t.name+".stamp")
}

// linkerFlags drop the symbol and debug tables (a third of the size) and set the
// version variables.
func linkerFlags(t tool, version string) string {
	flags := []string{"-s", "-w"}
	if t.ldflags != nil {
		flags = append(flags, t.ldflags(version)...)
	}
	return strings.Join(flags, " ")
}

// requiredVersion finds the version a go.mod requires of a module.
func requiredVersion(gomod, module string) (string, error) {
	line := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (v\S+)`)
	found := line.FindStringSubmatch(gomod)
	if found == nil {
		return "", fmt.Errorf("go.mod does not require %s", module)
	}
	return found[1], nil
}

// Lock creates a folder if it is missing, and waits until nobody else, in this process or in another, has locked it.
func Lock(ctx context.Context, folder string) (unlock func(), err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder for binaries: %w", err)
	}
	return builder{folder: folder, log: io.Discard}.lock(ctx)
}

// lock waits for the exclusive right to write to the folder. The kernel gives
// the lock up when its holder dies.
func (b builder) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.folder, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the folder for binaries: %w", err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("locking the folder for binaries: %w", err), f.Close())
		}
		if !told {
			b.printf("waiting for another build of the sandbox's binaries …\n")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("locking the folder for binaries: %w", ctx.Err()), f.Close())
		case <-tick.C:
		}
	}
}
