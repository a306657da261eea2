package promises

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// noticeWithin is the promise; it includes the default settleTime.
const noticeWithin = time.Second

// editing makes good edits of one manager's file in many ways. Each edit is another number
// of workers of the deployment controller.
type editing struct {
	m      *manager.Manager
	config *manager.Config
	n      int32
}

func newEditing(t *testing.T) *editing {
	m := start(t, nil)
	data, err := os.ReadFile(m.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	document, err := config.Load(m.ConfigFile(), data)
	if err != nil {
		t.Fatal(err)
	}
	return &editing{m: m, config: document.Config.DeepCopy(), n: *document.Config.Controllers.Deployment.ConcurrentSyncs}
}

// next is the content of the next edit.
func (e *editing) next(t *testing.T) []byte {
	t.Helper()
	e.n++
	e.config.Controllers.Deployment.ConcurrentSyncs = ptr.To(e.n)
	return e.current(t)
}

func (e *editing) current(t *testing.T) []byte {
	t.Helper()
	data, err := config.Marshal(e.config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// check makes an edit and fails unless it is in force within a second, as one reload,
// which restarts the deployment controller only.
func (e *editing) check(t *testing.T, write func(data []byte)) {
	t.Helper()
	before := harness.Status(t, e.m)
	data := e.next(t)
	write(data)
	written := time.Now()
	harness.Wait(t, e.m, "the edit is in force and the controller back", func(s *runtime.Status) error {
		switch r := newest(s); {
		case s.Configuration.Generation == before.Configuration.Generation:
			return fmt.Errorf("generation %d is in force, newest reload %q %s", s.Configuration.Generation, r.Status, r.Error)
		case harness.ControllerOf(s, deployment).State != supervisor.Running || harness.ControllerOf(s, deployment).Pending:
			return fmt.Errorf("the controller is %s", harness.ControllerOf(s, deployment).State)
		}
		return nil
	})
	after := harness.Status(t, e.m)
	r := newest(&after)
	if took := r.Time.Sub(written); took > noticeWithin {
		t.Errorf("the edit was in force after %v, want at most %v", took, noticeWithin)
	}
	if r.Status != telemetry.Success || after.Configuration.Generation != before.Configuration.Generation+1 {
		t.Errorf("generation %d became %d, newest reload %q", before.Configuration.Generation, after.Configuration.Generation, r.Status)
	}
	if len(after.Reloads) != len(before.Reloads)+1 && len(before.Reloads) < 20 {
		t.Errorf("%d reloads, want one more than %d", len(after.Reloads), len(before.Reloads))
	}
	harness.SameInstances(t, harness.Instances(before), harness.Instances(after), deployment)
}

// Promise 5: `..data` symlink swaps, renames over the file, in-place writes, deletion and
// re-creation are all seen, within a second.
func TestEveryKindOfChangeIsSeen(t *testing.T) {
	e := newEditing(t)
	path := e.m.ConfigFile()

	t.Run("renamed over", func(t *testing.T) {
		for range 3 {
			e.check(t, func(data []byte) { must.Succeed(t, e.m.Write(data)) })
		}
	})
	t.Run("written in place", func(t *testing.T) {
		for range 3 {
			e.check(t, func(data []byte) { must.Succeed(t, os.WriteFile(path, data, 0o600)) })
		}
	})
	t.Run("deleted and made again", func(t *testing.T) {
		e.check(t, func(data []byte) {
			must.Succeed(t, os.Remove(path))
			must.Succeed(t, os.WriteFile(path, data, 0o600))
		})
	})
	t.Run("deleted, noticed, and made again", func(t *testing.T) {
		before := harness.Status(t, e.m)
		must.Succeed(t, os.Remove(path))
		waitRejected(t, e.m, before)
		e.checkAfterRejection(t, path)
	})
	t.Run("folder moved away and back", func(t *testing.T) {
		before := harness.Status(t, e.m)
		away := e.m.Dir() + "-away"
		must.Succeed(t, os.Rename(e.m.Dir(), away))
		waitRejected(t, e.m, before)
		must.Succeed(t, os.Rename(away, e.m.Dir()))
		harness.Wait(t, e.m, "the file is back", notRejected)
		harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, e.m)))
		e.check(t, func(data []byte) { must.Succeed(t, e.m.Write(data)) })
	})
	t.Run("same content written again is no reload", func(t *testing.T) {
		before := harness.Status(t, e.m)
		must.Succeed(t, e.m.Write(e.current(t)))
		must.Succeed(t, os.WriteFile(path, e.current(t), 0o600))
		e.check(t, func(data []byte) { must.Succeed(t, e.m.Write(data)) })
		if after := harness.Status(t, e.m); after.Configuration.Generation != before.Configuration.Generation+1 {
			t.Errorf("generation %d became %d", before.Configuration.Generation, after.Configuration.Generation)
		}
	})
}

func waitRejected(t *testing.T, m *manager.Manager, before runtime.Status) {
	t.Helper()
	harness.Wait(t, m, "the missing file is noticed", func(s *runtime.Status) error {
		if s.Configuration.Rejected == "" {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	harness.SameInstances(t, harness.Instances(before), harness.Instances(harness.Status(t, m)))
}

// checkAfterRejection is check from a file that is not there.
func (e *editing) checkAfterRejection(t *testing.T, path string) {
	t.Helper()
	e.check(t, func(data []byte) { must.Succeed(t, os.WriteFile(path, data, 0o600)) })
	if err := notRejected(new(harness.Status(t, e.m))); err != nil {
		t.Error(err)
	}
}

// mount is a mounted ConfigMap, written as kubelet's atomic writer does.
type mount struct {
	dir     string
	current string
	n       int
}

// write replaces the payload: a new folder, a link to it under another name, which is
// renamed over the old link, and the old folder removed.
func (w *mount) write(t *testing.T, data []byte) {
	t.Helper()
	w.n++
	name := fmt.Sprintf("..2026_01_02_03_04_%02d.%09d", w.n, w.n)
	folder := filepath.Join(w.dir, name)
	must.Succeed(t, os.MkdirAll(folder, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(folder, "config.yaml"), data, 0o644))
	temporary := filepath.Join(w.dir, "..data_tmp")
	must.Succeed(t, os.Symlink(name, temporary))
	must.Succeed(t, os.Rename(temporary, filepath.Join(w.dir, "..data")))
	if w.current != "" {
		must.Succeed(t, os.RemoveAll(filepath.Join(w.dir, w.current)))
	}
	w.current = name
}

// repoint makes a link, or points it elsewhere, in one step.
func repoint(t *testing.T, link, target string) {
	t.Helper()
	temporary := link + ".tmp"
	must.Succeed(t, os.Symlink(target, temporary))
	must.Succeed(t, os.Rename(temporary, link))
}

func TestMountedConfigMapIsFollowed(t *testing.T) {
	e := newEditing(t)
	w := &mount{dir: filepath.Join(e.m.Dir(), "mount")}
	w.write(t, e.current(t))
	must.Succeed(t, os.Symlink(filepath.Join("..data", "config.yaml"), filepath.Join(w.dir, "config.yaml")))
	// The path becomes a link into the mount. What it leads to is the same.
	before := harness.Status(t, e.m)
	repoint(t, e.m.ConfigFile(), filepath.Join(w.dir, "config.yaml"))

	for range 5 {
		e.check(t, func(data []byte) { w.write(t, data) })
	}
	if after := harness.Status(t, e.m); after.Configuration.Generation != before.Configuration.Generation+5 {
		t.Errorf("generation %d became %d after 5 edits", before.Configuration.Generation, after.Configuration.Generation)
	}
}

func TestEveryHopOfALinkIsFollowed(t *testing.T) {
	e := newEditing(t)
	in := func(parts ...string) string { return filepath.Join(append([]string{e.m.Dir()}, parts...)...) }
	for _, folder := range []string{"a", "b", "real-1", "real-2"} {
		must.Succeed(t, os.Mkdir(in(folder), 0o755))
	}
	// config.yaml -> a/first -> ../b/second -> ../folder/file, folder -> real-1
	must.Succeed(t, os.WriteFile(in("real-1", "file"), e.current(t), 0o600))
	must.Succeed(t, os.Symlink("real-1", in("folder")))
	must.Succeed(t, os.Symlink("../folder/file", in("b", "second")))
	must.Succeed(t, os.Symlink("../b/second", in("a", "first")))
	repoint(t, e.m.ConfigFile(), in("a", "first"))
	e.check(t, func(data []byte) { must.Succeed(t, os.WriteFile(in("real-1", "file"), data, 0o600)) })

	for _, hop := range []struct{ name, link, back string }{
		{"the path itself", e.m.ConfigFile(), in("a", "first")},
		{"the first link", in("a", "first"), "../b/second"},
		{"the second link", in("b", "second"), "../folder/file"},
	} {
		t.Run(hop.name, func(t *testing.T) {
			elsewhere := in("elsewhere")
			e.check(t, func(data []byte) {
				must.Succeed(t, os.WriteFile(elsewhere, data, 0o600))
				repoint(t, hop.link, elsewhere)
			})
			e.check(t, func(data []byte) {
				must.Succeed(t, os.WriteFile(in("real-1", "file"), data, 0o600))
				repoint(t, hop.link, hop.back)
			})
		})
	}
	t.Run("a link in place of a folder", func(t *testing.T) {
		e.check(t, func(data []byte) {
			must.Succeed(t, os.WriteFile(in("real-2", "file"), data, 0o600))
			repoint(t, in("folder"), "real-2")
		})
	})
	t.Run("renamed over at the end", func(t *testing.T) {
		e.check(t, func(data []byte) {
			must.Succeed(t, os.WriteFile(in("real-2", "next"), data, 0o600))
			must.Succeed(t, os.Rename(in("real-2", "next"), in("real-2", "file")))
		})
	})
	t.Run("written in place at the end", func(t *testing.T) {
		e.check(t, func(data []byte) { must.Succeed(t, os.WriteFile(in("real-2", "file"), data, 0o600)) })
	})
}
