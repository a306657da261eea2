package runtime

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The hash of a file that the process goes on without stays what it was: otherwise the next
// edit would have its readers read it.
func TestFilesKeepTheirHashWhileTheirContentIsNotUsed(t *testing.T) {
	const was = "what was read before"
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for _, name := range []string{"good", "bad", "refused", "new", "new and bad"} {
		if err := os.WriteFile(path(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(name string) string { return stateNow(path(name)) }
	r := &Runtime{}
	r.files = map[string]string{path("good"): was, path("bad"): was, path("refused"): was, path("gone"): was}
	r.refused = map[string]string{path("refused"): hash("refused")}
	names := []string{"good", "bad", "refused", "gone", "new", "new and bad", "never there"}
	var paths []string
	for _, name := range names {
		paths = append(paths, path(name))
	}
	got := r.filesFor(paths, []string{path("bad"), path("new and bad")})
	for n, want := range []string{hash("good"), was, was, was, hash("new"), hash("new and bad"), ""} {
		if got[paths[n]] != want {
			t.Errorf("%s: got %q, want %q", names[n], got[paths[n]], want)
		}
	}
	if len(r.files) != 4 || r.files[path("good")] != was {
		t.Errorf("what is in force has changed: %v", r.files)
	}
}

// What was prepared is given up in reverse order, and nothing is committed.
func TestWhatWasPreparedIsDiscarded(t *testing.T) {
	var done []string
	note := func(what string) func() { return func() { done = append(done, what) } }
	made := func(name string) step {
		return step{discard: note("discard " + name), commit: func(context.Context) { note("commit " + name)() }}
	}
	tx := &transaction{prepared: []step{made("a"), {}, made("b")}}
	tx.discard()
	if want := []string{"discard b", "discard a"}; !slices.Equal(done, want) {
		t.Errorf("done: %q, want %q", done, want)
	}
}

// A part that panics has failed. Pins MGR-270.
func TestAPanicIsDiscarded(t *testing.T) {
	discarded := false
	tx := &transaction{prepared: []step{{discard: func() { discarded = true }}}, process: &Runtime{}}
	if err := tx.prepare(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "panic while preparing a change: ") || !discarded {
		t.Errorf("error is %v, discarded: %t", err, discarded)
	}
}
