package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waits for what the watcher does.
const patience = time.Minute

// reasonToPoll returns why a path is polled every second instead of watched, nil if none is.
func (w *Watcher) reasonToPoll() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.polling
}

type harness struct {
	*testing.T
	w *Watcher
}

func start(t *testing.T, o Options, paths ...string) harness {
	t.Helper()
	if o.Settle == 0 {
		o.Settle = 20 * time.Millisecond
	}
	if o.Poll == 0 {
		o.Poll = time.Hour // only notifications may find changes
	}
	w := New(o)
	w.Set(paths...)
	return run(t, w)
}

func run(t *testing.T, w *Watcher) harness {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, open := <-w.Changes(); open {
			t.Error("changes are delivered after Run returned")
		}
	})
	return harness{t, w}
}

func (h harness) next() Change {
	h.Helper()
	select {
	case c := <-h.w.Changes():
		return c
	case <-time.After(patience):
		h.Fatal("no change seen")
		return Change{}
	}
}

func (h harness) expect(content string) Change {
	h.Helper()
	c := h.next()
	if c.Err != nil || string(c.Content) != content {
		h.Fatalf("got content %q, error %v, want content %q", c.Content, c.Err, content)
	}
	if c.Hash != Hash([]byte(content)) {
		h.Fatalf("hash %s does not belong to %q", c.Hash, content)
	}
	return c
}

// eventually is expect for changes made in several steps: a file that is missing or empty
// may be seen on the way.
func (h harness) eventually(content string) {
	h.Helper()
	for {
		c := h.next()
		if c.Err == nil && string(c.Content) == content {
			return
		}
		if !errors.Is(c.Err, fs.ErrNotExist) && len(c.Content) > 0 {
			h.Fatalf("got content %q, error %v, want content %q", c.Content, c.Err, content)
		}
	}
}

// message expects an error, after a missing file perhaps.
func (h harness) message(want string) {
	h.Helper()
	c := h.next()
	if errors.Is(c.Err, fs.ErrNotExist) && c.Err.Error() != want {
		c = h.next()
	}
	if c.Err == nil || c.Err.Error() != want {
		h.Fatalf("got content %q, error %v, want error %q", c.Content, c.Err, want)
	}
}

func (h harness) expectError(target error) {
	h.Helper()
	if c := h.next(); !errors.Is(c.Err, target) || c.Content != nil || c.Hash != "" {
		h.Fatalf("got content %q, hash %q, error %v, want error %v", c.Content, c.Hash, c.Err, target)
	}
}

// write writes in place, in two steps: truncate and write.
func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

// put replaces a file in one step.
func put(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	must(t, os.Rename(path+".new", path))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// replaceLink points a symbolic link elsewhere in one step.
func replaceLink(t *testing.T, target, link string) {
	t.Helper()
	must(t, os.Symlink(target, link+".tmp"))
	must(t, os.Rename(link+".tmp", link))
}

// step moves the clock once the watcher waits on it.
func (h harness) step(fake *clocktesting.FakeClock, d time.Duration) {
	h.Helper()
	await.True(h, "the watcher waits", fake.HasWaiters)
	fake.Step(d)
}

// stepUntil moves the clock until a content is delivered, which has to be the next one.
func (h harness) stepUntil(fake *clocktesting.FakeClock, d time.Duration, content string) {
	h.Helper()
	var c Change
	await.True(h, fmt.Sprintf("%q is delivered", content), func() bool {
		select {
		case c = <-h.w.Changes():
			return true
		default:
			fake.Step(d)
			return false
		}
	})
	if c.Err != nil || string(c.Content) != content {
		h.Fatalf("got content %q, error %v, want content %q", c.Content, c.Err, content)
	}
}

// touchedAt waits for an event.
func (h harness) touchedAt(when time.Time) {
	h.Helper()
	await.True(h, "an event is seen", func() bool {
		h.w.mu.Lock()
		defer h.w.mu.Unlock()
		for _, f := range h.w.files {
			if f.burst.last.Equal(when) {
				return true
			}
		}
		return false
	})
}

// pending waits until content, or nothing, is held for a receiver that does not receive.
func (h harness) pending(content string) {
	h.Helper()
	await.True(h, fmt.Sprintf("%q is pending", content), func() bool {
		f := peek(h.w)
		return (f == nil && content == "") || (f != nil && string(f.Content) == content)
	})
}

// peek takes the place of a receiver that looks and does not take.
func peek(w *Watcher) *Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.files {
		if p := f.pending; p != nil {
			return p
		}
	}
	return nil
}
