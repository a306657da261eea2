package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kcmd.dev/test/controlplane/process"
)

// heartbeat is how often a running build shows a sign of life.
const heartbeat = 15 * time.Second

// Build makes sure that the named tools (see the constants) are present and
// current in the .bin folder of the repository that holds the working directory,
// and returns that folder. Progress goes to log; nil discards it. It returns at
// once when nothing is to be built.
func Build(ctx context.Context, log io.Writer, names ...string) (folder string, err error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	b := builder{root: root, folder: filepath.Join(root, ".bin"), log: log}
	if log == nil {
		b.log = io.Discard
	}
	missing, err := b.missing(names)
	if err != nil {
		return "", err
	}
	if len(missing) == 0 {
		return b.folder, nil
	}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return "", fmt.Errorf("creating the folder for binaries: %w", err)
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	// Whoever held the lock before may have built what is missing here.
	missing, err = b.missing(names)
	if err != nil {
		return "", err
	}
	for _, m := range missing {
		if err := b.build(ctx, m); err != nil {
			return "", err
		}
	}
	return b.folder, nil
}

// Root returns the root of the repository: the nearest folder at or above the
// working directory that holds this module's go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && moduleLine.Match(data) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: no go.mod of kcmd.dev at or above %s", start)
		}
	}
}

// Version returns the version of a tool, as its tools module pins it.
func Version(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	t, err := find(name)
	if err != nil {
		return "", err
	}
	version, _, err := builder{root: root}.stamp(t)
	return version, err
}

type builder struct {
	root   string
	folder string
	log    io.Writer
}

// pending is a tool that has to be built, and the stamp it will get.
type pending struct {
	tool
	version string
	stamp   string
}

func (b builder) missing(names []string) ([]pending, error) {
	var missing []pending
	for _, name := range names {
		t, err := find(name)
		if err != nil {
			return nil, err
		}
		version, stamp, err := b.stamp(t)
		if err != nil {
			return nil, err
		}
		if !b.current(t, stamp) {
			missing = append(missing, pending{tool: t, version: version, stamp: stamp})
		}
	}
	return missing, nil
}

func (b builder) current(t tool, stamp string) bool {
	have, err := os.ReadFile(b.stampFile(t))
	if err != nil || string(have) != stamp {
		return false
	}
	info, err := os.Stat(filepath.Join(b.folder, t.name))
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

func (b builder) build(ctx context.Context, m pending) error {
	begin := time.Now()
	b.printf("building %s %s … (%s the first time)\n", m.name, m.version, m.first)
	stopSigns := b.showLife(m.name, begin)
	err := b.replace(ctx, m)
	stopSigns()
	if err != nil {
		return fmt.Errorf("building %s %s: %w", m.name, m.version, err)
	}
	b.printf("building %s %s: done in %s\n", m.name, m.version, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// replace builds next to the old file and moves the new one into its place. The
// stamp is gone while file and stamp may disagree.
func (b builder) replace(ctx context.Context, m pending) error {
	if err := os.Remove(b.stampFile(m.tool)); err != nil && !os.IsNotExist(err) {
		return err
	}
	temporary := filepath.Join(b.folder, "."+m.name+".new")
	produce := b.compile
	if m.printed {
		produce = b.print
	}
	if err := produce(ctx, m, temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(b.folder, m.name)); err != nil {
		return err
	}
	return os.WriteFile(b.stampFile(m.tool), []byte(m.stamp), 0o644)
}

func (b builder) compile(ctx context.Context, m pending, to string) error {
	ldflags := linkerFlags(m.tool, m.version)
	if strings.Contains(ldflags, moduleTime) {
		var tagged bytes.Buffer
		format := `{{.Time.UTC.Format "2006-01-02T15:04:05Z"}}`
		if err := b.golang(ctx, m.tool, &tagged, "list", "-m", "-f", format, m.pins); err != nil {
			return err
		}
		ldflags = strings.ReplaceAll(ldflags, moduleTime, strings.TrimSpace(tagged.String()))
	}
	return b.golang(ctx, m.tool, nil, "build", "-tags", m.tags, "-ldflags", ldflags, "-o", to, m.pkg)
}

func (b builder) print(ctx context.Context, m pending, to string) error {
	var out bytes.Buffer
	if err := b.golang(ctx, m.tool, &out, "run", m.pkg); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}

// golang runs the go command in the tool's module. What it writes to stderr is
// part of the error when it fails.
func (b builder) golang(ctx context.Context, t tool, stdout io.Writer, args ...string) error {
	var messages bytes.Buffer
	err := process.Run(ctx, process.Spec{
		Name:   "go " + args[0],
		Path:   "go",
		Args:   args,
		Env:    []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false"},
		Dir:    filepath.Join(b.root, "test", "tools", t.module),
		Output: stdout,
		Stderr: &messages,
	})
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, messages.String())
	}
	return nil
}

// showLife writes a line now and then until the returned function was called.
func (b builder) showLife(name string, begin time.Time) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				b.printf("building %s … %s so far\n", name, now.Sub(begin).Round(time.Second))
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// printf writes progress; that it cannot be shown is no reason to stop a build.
func (b builder) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, format, args...)
}
