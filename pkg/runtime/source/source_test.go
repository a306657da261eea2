package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/await"
)

func TestChangesOfPlainFile(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"write in place": func(t *testing.T, path string) { write(t, path, "two") },
		"rename over": func(t *testing.T, path string) {
			write(t, path+".new", "two")
			must(t, os.Rename(path+".new", path))
		},
		"delete and create": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			write(t, path, "two")
		},
		"hard link over": func(t *testing.T, path string) {
			write(t, path+".new", "two")
			must(t, os.Remove(path))
			must(t, os.Link(path+".new", path))
		},
		"append": func(t *testing.T, path string) {
			must(t, os.Truncate(path, 0))
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			for _, b := range []string{"t", "w", "o"} {
				_, err := f.WriteString(b)
				must(t, err)
			}
			must(t, f.Close())
		},
		"folder deleted and created": func(t *testing.T, path string) {
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
			write(t, path, "two")
		},
		"folder renamed and created": func(t *testing.T, path string) {
			must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
			write(t, path, "two")
		},
		"replaced by link": func(t *testing.T, path string) {
			write(t, path+".target", "two")
			replaceLink(t, filepath.Base(path)+".target", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "conf", "config.yaml")
			must(t, os.Mkdir(filepath.Dir(path), 0o755))
			write(t, path, "one")
			h := start(t, Options{}, path)
			h.expect("one")
			change(t, path)
			h.eventually("two")
			write(t, path, "three") // the new file is watched like the old one
			h.eventually("three")
		})
	}
}

// atomicWriter lays out files like the kubelet does for ConfigMap volumes.
func atomicWriter(t *testing.T, dir string, generation int, content string) {
	t.Helper()
	data := fmt.Sprintf("..2026_01_01.%d", generation)
	must(t, os.Mkdir(filepath.Join(dir, data), 0o755))
	write(t, filepath.Join(dir, data, "config.yaml"), content)
	replaceLink(t, data, filepath.Join(dir, "..data"))
	if generation == 0 {
		must(t, os.Symlink("..data/config.yaml", filepath.Join(dir, "config.yaml")))
		return
	}
	must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_01_01.%d", generation-1))))
}

func TestKubeletAtomicWriter(t *testing.T) {
	dir := t.TempDir()
	atomicWriter(t, dir, 0, "generation 0")
	h := start(t, Options{}, filepath.Join(dir, "config.yaml"))
	h.expect("generation 0")
	for g := 1; g <= 20; g++ {
		content := fmt.Sprintf("generation %d", g)
		began := time.Now()
		atomicWriter(t, dir, g, content)
		c := h.expect(content)
		if c.At.Before(began) || c.At.After(time.Now()) {
			t.Fatalf("At is %v, the event came after %v", c.At, began)
		}
	}
}

func TestEveryHopOfALinkChain(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "b", "c", "real1", "real2"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	in := func(p ...string) string { return filepath.Join(append([]string{dir}, p...)...) }
	put(t, in("real1", "f"), "real1")
	put(t, in("real2", "f"), "real2")
	must(t, os.Symlink("real1", in("parent")))                     // a directory that is a link
	must(t, os.Symlink("../parent/f", in("c", "f")))               // relative, through the parent link
	must(t, os.Symlink(in("c", "f"), in("b", "f")))                // absolute
	must(t, os.Symlink("../a/../b/f", in("a", "f")))               // with dot-dot
	h := start(t, Options{}, in("a", ".", "f"), in("parent", "f")) // two paths to one file
	h.expect("real1")
	h.expect("real1")

	replaceLink(t, "real2", in("parent"))
	h.expect("real2")
	h.expect("real2")
	put(t, in("real2", "f"), "written at the end of the chain")
	h.expect("written at the end of the chain")
	h.expect("written at the end of the chain")
	put(t, in("c", "other"), "last hop")
	replaceLink(t, "other", in("c", "f"))
	h.expect("last hop")
	put(t, in("b", "other"), "middle hop")
	replaceLink(t, "other", in("b", "f"))
	h.expect("middle hop")
	put(t, in("a", "other"), "first hop")
	replaceLink(t, "other", in("a", "f"))
	h.expect("first hop")
	replaceLink(t, "nowhere", in("a", "f"))
	h.expectError(fs.ErrNotExist)
	put(t, in("a", "nowhere"), "no longer dangling")
	h.expect("no longer dangling")
	replaceLink(t, "f", in("a", "f"))
	h.expectError(syscall.ELOOP)
	replaceLink(t, "other", in("a", "f"))
	h.expect("first hop")
}

func TestPathThatAppearsPieceByPiece(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "x", "y", "z", "config.yaml")
	h := start(t, Options{}, path)
	h.expectError(fs.ErrNotExist)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	put(t, path, "there")
	h.expect("there")
	must(t, os.RemoveAll(filepath.Join(root, "x")))
	h.expectError(fs.ErrNotExist)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	put(t, path, "there")
	h.expect("there") // it was gone in between, so this is news
}

func TestErrorsAreReportedOnceWithOneMessage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "0123456789")
	h := start(t, Options{MaxSize: 10}, path)
	h.expect("0123456789")

	put(t, path, "0123456789a")
	c := h.next()
	var tooLarge *TooLargeError
	if !errors.As(c.Err, &tooLarge) || tooLarge.Limit != 10 {
		t.Fatalf("got error %v, want too large", c.Err)
	}
	if want := "reading " + path + ": file is larger than the limit of 10 bytes"; c.Err.Error() != want {
		t.Fatalf("got message %q, want %q", c.Err, want)
	}
	put(t, path, "0123456789abc") // still too large: not news
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o755))
	h.message("read " + path + ": is a directory")
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o644)) // opening it to read would block for ever
	h.message("read " + path + ": not a regular file")
	must(t, os.Remove(path))
	h.message("read " + path + ": no such file or directory")
	put(t, path, "")
	h.expect("")
}

func TestFilesCanHaveLimitsOfTheirOwn(t *testing.T) {
	small, large := filepath.Join(t.TempDir(), "small"), filepath.Join(t.TempDir(), "large")
	put(t, small, "0123456789")
	put(t, large, "0123456789")
	h := start(t, Options{MaxSize: 10, MaxSizes: map[string]int64{small: 5}}, small, large)
	h.message("reading " + small + ": file is larger than the limit of 5 bytes")
	h.expect("0123456789")
}

func TestSameContentIsNoChange(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "one")
	h := start(t, Options{Settle: 100 * time.Millisecond}, path)
	h.expect("one")
	for _, change := range []func(){
		func() { put(t, path+".new", "one"); must(t, os.Rename(path+".new", path)) },
		func() { now := time.Now(); must(t, os.Chtimes(path, now, now)) },
		func() { must(t, os.Chmod(path, 0o600)) },
		func() { replaceLink(t, path, filepath.Join(dir, "unrelated")) },
	} {
		change()
	}
	// The next thing delivered is the next real change.
	put(t, path+".new", "two")
	must(t, os.Rename(path+".new", path))
	h.expect("two")
}

func TestSetChangesLive(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, a, "a1")
	put(t, b, "b1")
	h := start(t, Options{}, a, a)
	h.expect("a1")
	h.w.Set(a, b)
	if c := h.expect("b1"); c.Path != b {
		t.Fatalf("change of %s, want %s", c.Path, b)
	}
	h.w.Set(b)
	// Once a set is in force, and only then, a path added with it is delivered.
	put(t, filepath.Join(dir, "marker"), "marker")
	h.w.Set(b, filepath.Join(dir, "marker"))
	h.expect("marker")
	put(t, a, "a2")
	put(t, b, "b2")
	h.expect("b2")
}

func TestSlowReceiverSeesTheNewestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "old")
	h := start(t, Options{}, path)
	h.expect("old")
	put(t, path, "step")
	h.pending("step")
	put(t, path, "new")
	h.pending("new")
	h.expect("new")
	put(t, path, "detour")
	h.pending("detour")
	put(t, path, "new")
	h.pending("") // back where the receiver is: nothing to say
}

func TestFileWrittenWithoutPauseIsRead(t *testing.T) {
	const settle = 100 * time.Millisecond
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "at rest")
	fake := clocktesting.NewFakeClock(time.Now())
	h := start(t, Options{Settle: settle, Clock: fake}, path)
	h.expect("at rest")
	began := fake.Now()
	for fake.Since(began) < maxSettles*settle { // never quiet for as long as settle
		select {
		case c := <-h.w.Changes():
			t.Fatalf("%q was read after %v while the file was being written", c.Content, fake.Since(began))
		default:
		}
		put(t, path, fmt.Sprint(fake.Since(began)))
		h.touchedAt(fake.Now())
		fake.Step(settle * 9 / 10)
	}
	var c Change
	await.True(t, "the file is read", func() bool {
		select {
		case c = <-h.w.Changes():
			return true
		default:
			// A timer that is set just now may have been computed before the clock was moved last.
			fake.Step(time.Millisecond)
			return false
		}
	})
	if c.Err != nil || !strings.HasSuffix(string(c.Content), "ms") || !c.At.Equal(began) {
		t.Fatalf("change %+v, want what was written last since %v", c, began)
	}
}

// What is in a file for a moment while it is written is not read, also if it is read more often than it settles.
// Pins MGR-244.
func TestAHalfWrittenFileIsNotPolled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "whole")
	fake := clocktesting.NewFakeClock(time.Now())
	h := start(t, Options{Settle: 10 * time.Second, Poll: time.Second, Clock: fake}, path)
	h.expect("whole")
	put(t, path, "ha")
	h.touchedAt(fake.Now())
	for range 8 {
		h.step(fake, time.Second)
	}
	await.True(t, "the watcher waits again", fake.HasWaiters)
	if p := peek(h.w); p != nil {
		t.Errorf("%q is read 8s after it was written", p.Content)
	}
	put(t, path, "half")
	h.touchedAt(fake.Now())
	h.stepUntil(fake, time.Second, "half")
}

// A change of which no event was seen may not be over: the file is read again when it has settled, until it stays the
// same. Pins MGR-244.
func TestAHalfWrittenFileIsNotDeliveredWithoutEvents(t *testing.T) {
	const settle, poll = 10 * time.Second, time.Minute
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "whole")
	fake := clocktesting.NewFakeClock(time.Now())
	w := New(Options{Settle: settle, Poll: poll, Clock: fake})
	w.openFS = deaf
	w.Set(path)
	h := run(t, w)
	h.expect("whole")
	put(t, path, "ha")
	h.step(fake, poll)
	await.True(t, "the file was polled", fake.HasWaiters)
	put(t, path, "half")
	h.step(fake, settle)
	await.True(t, "the file was read again", fake.HasWaiters)
	if p := peek(w); p != nil {
		t.Errorf("%q is delivered, and may be half-written", p.Content)
	}
	h.stepUntil(fake, settle, "half")
}

// deaf opens notifications that accept watches and never send anything, as those of NFS do.
func deaf() (*fsnotify.Watcher, error) {
	fsw, err := fsnotify.NewWatcher()
	if err == nil {
		fsw.Events = make(chan fsnotify.Event)
		fsw.Errors = make(chan error)
		close(fsw.Events)
		close(fsw.Errors)
	}
	return fsw, err
}

func TestPollingWithoutNotifications(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "one")
	fake := clocktesting.NewFakeClock(time.Now())
	w := New(Options{Poll: time.Minute, Clock: fake})
	var broken atomic.Bool
	broken.Store(true)
	w.openFS = func() (*fsnotify.Watcher, error) {
		if broken.Load() {
			return nil, syscall.EMFILE
		}
		return fsnotify.NewWatcher()
	}
	w.Set(path)
	h := run(t, w)
	h.expect("one")
	if err := w.reasonToPoll(); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("it polls because of %v", err)
	}
	put(t, path, "two")
	h.step(fake, fallbackPoll)
	h.stepUntil(fake, defaultSettle, "two")
	broken.Store(false)
	put(t, path, "three")
	h.step(fake, fallbackPoll)
	h.stepUntil(fake, defaultSettle, "three")
	if err := w.reasonToPoll(); err != nil {
		t.Fatalf("still polling: %v", err)
	}
}

func TestPollFindsWhatNotificationsMiss(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "one")
	fake := clocktesting.NewFakeClock(time.Now())
	w := New(Options{Poll: time.Minute, Clock: fake})
	w.openFS = deaf
	w.Set(path)
	h := run(t, w)
	h.expect("one")
	put(t, path, "two")
	h.step(fake, time.Minute)
	h.stepUntil(fake, defaultSettle, "two")
	w.SetTiming(time.Second, 5*time.Second)
	put(t, path, "three")
	h.step(fake, 5*time.Second)
	h.stepUntil(fake, time.Second, "three")
}

func TestManyRestartsLeakNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, strings.Repeat("x", 1000))
	for range 50 {
		w := New(Options{})
		w.Set(path)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		<-w.Changes()
		cancel()
		must(t, <-done)
	}
}

// The receiver has read another state by itself, and the file has its former content again.
func TestTheSameStateIsDeliveredOnceMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	h := start(t, Options{}, path)
	h.expect("a")
	h.w.ReadElsewhere(path, Hash([]byte("b")))
	h.expect("a")
	h.w.ReadElsewhere(path, Hash([]byte("a"))) // known: nothing is delivered
	write(t, path, "c")
	h.eventually("c")
}

// The receiver is told of a change before the watcher notes that it was.
func TestWhatIsReadElsewhereAtOnceIsNotForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	h := start(t, Options{}, path)
	h.pending("a")
	h.w.mu.Lock()
	h.expect("a")
	h.w.files[path].readElsewhere(Hash([]byte("b")), time.Now())
	h.w.mu.Unlock()
	h.expect("a")
}
