package source

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestBurst(t *testing.T) {
	const settle = 100 * time.Millisecond
	t0 := time.Unix(1000, 0)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	for name, tc := range map[string]struct {
		events    []int
		due       int
		exhausted int // first millisecond at which it is
	}{
		"one event":               {events: []int{0}, due: 100, exhausted: 1000},
		"quiet counts from last":  {events: []int{0, 50, 90}, due: 190, exhausted: 1000},
		"limit counts from first": {events: []int{0, 500, 950}, due: 1000, exhausted: 1000},
		"limit reached long ago":  {events: []int{0, 5000}, due: 1000, exhausted: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			var b burst
			if !b.empty() {
				t.Fatal("a new burst is not empty")
			}
			for _, e := range tc.events {
				b.add(at(e))
			}
			if got := b.due(settle); !got.Equal(at(tc.due)) {
				t.Errorf("due after %v, want %dms", got.Sub(t0), tc.due)
			}
			if b.exhausted(at(tc.exhausted-1), settle) || !b.exhausted(at(tc.exhausted), settle) {
				t.Errorf("not exhausted exactly after %dms", tc.exhausted)
			}
		})
	}
}

// What is due to be read without an event waits for the events that were seen.
func TestWhenAFileIsReadNext(t *testing.T) {
	const settle, poll = 100 * time.Millisecond, 10 * time.Second
	read := time.Unix(1000, 0)
	at := func(d time.Duration) time.Time { return read.Add(d) }
	changed := func(since ...time.Duration) (b burst) {
		for _, d := range since {
			b.add(at(d))
		}
		return b
	}
	for name, tc := range map[string]struct {
		file file
		want time.Time
	}{
		"never read":                     {file{burst: changed(0)}, time.Time{}},
		"no event":                       {file{lastRead: read}, at(poll)},
		"no event, not watched":          {file{lastRead: read, notifyErr: errNotRegular}, at(fallbackPoll)},
		"an event":                       {file{lastRead: read, burst: changed(time.Second)}, at(time.Second + settle)},
		"an event, not watched entirely": {file{lastRead: read, notifyErr: errNotRegular, burst: changed(0)}, at(settle)},
		"MGR-244: an event just before the poll": {
			file{lastRead: read, burst: changed(poll - time.Millisecond)}, at(poll - time.Millisecond + settle),
		},
		"MGR-244: changes without a pause over the poll": {
			file{lastRead: read, burst: changed(poll-9*settle, poll-settle/2)}, at(poll + settle/2),
		},
		"MGR-244: changes for ten times as long": {
			file{lastRead: read, burst: changed(poll-9*settle, poll+settle/2)}, at(poll + settle),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(Options{Settle: settle, Poll: poll})
			if got := w.dueAt(&tc.file); !got.Equal(tc.want) {
				t.Errorf("read after %v, want %v", got.Sub(read), tc.want.Sub(read))
			}
		})
	}
}

func TestOffer(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	change := func(content string, at time.Time) Change {
		return Change{Content: []byte(content), Hash: Hash([]byte(content)), At: at}
	}
	f := &file{delivered: Hash([]byte("known"))}
	f.offer(change("known", early))
	if f.pending != nil {
		t.Fatal("what the receiver knows is pending")
	}
	f.offer(change("a", early))
	f.offer(change("b", late))
	if f.pending == nil || string(f.pending.Content) != "b" || !f.pending.At.Equal(early) {
		t.Fatalf("pending %+v, want b since the first undelivered change", f.pending)
	}
	f.offer(change("known", late))
	if f.pending != nil {
		t.Fatal("a change that was taken back is pending")
	}
}

func TestFollowListsEveryDirectoryOnTheWay(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(root, "real", "deep"), 0o755))
	write(t, filepath.Join(root, "real", "deep", "f"), "x")
	must(t, os.Symlink("real/deep", filepath.Join(root, "link")))
	got, err := follow(filepath.Join(root, "link", "f"))
	must(t, err)
	for _, want := range []string{"/", root, filepath.Join(root, "real"), filepath.Join(root, "real", "deep"), filepath.Join(root, "real", "deep", "f")} {
		if !contains(got.watch, want) {
			t.Errorf("%s is not watched: %v", want, got.watch)
		}
	}
	for _, want := range []string{"link", "real", "deep", "f", filepath.Base(root)} {
		if _, ok := got.names[want]; !ok {
			t.Errorf("events of %s are ignored", want)
		}
	}
	if contains(got.watch, filepath.Join(root, "link")) {
		t.Error("a link is watched in place of its target")
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func TestReadWithoutPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("running without privileges: file mode 0 is enough")
	}
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte("x"), 0o000))
	unprivileged(t, func() {
		_, _, err := Read(path, 10)
		if !errors.Is(err, fs.ErrPermission) || err.Error() != "read "+path+": permission denied" {
			t.Errorf("got error %v", err)
		}
	})
}

// unprivileged runs f on a thread whose file accesses are those of nobody. The thread ends
// with it.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread must not be used again
		if err := syscall.Setfsuid(65534); err != nil {
			t.Errorf("setting the file system user: %v", err)
			return
		}
		f()
	}()
	<-done
}

func TestReadReturnsContentAndHash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "abc")
	content, hash, err := Read(path, 3)
	must(t, err)
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if string(content) != "abc" || hash != sum {
		t.Fatalf("got %q with hash %s", content, hash)
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		if _, _, err := Read("/dev/zero", 3); !errors.Is(err, errNotRegular) {
			t.Fatalf("reading a device: %v", err)
		}
	}
}
