package lastgood

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func open(t *testing.T, dir, file string) *Store {
	t.Helper()
	s, err := Open(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keep(t *testing.T, s *Store, text string) {
	t.Helper()
	if err := s.Keep(sample(text)); err != nil {
		t.Fatal(err)
	}
}

// textOf is the text that is kept, or why there is none.
func textOf(s *Store) string {
	k, err := s.Read()
	if err != nil {
		return err.Error()
	}
	return string(k.Text)
}

// filesIn are the names of the files in a directory.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestTheNewestIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, file)
	if _, err := s.Read(); !errors.Is(err, ErrNothing) {
		t.Errorf("at first: %v", err)
	}
	for _, text := range []string{"a\n", "b\n", "a\n"} {
		keep(t, s, text)
		if got := textOf(s); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if got := filesIn(t, dir); !slices.Equal(got, []string{name}) {
		t.Errorf("the directory has the files %q", got)
	}
	info, err := os.Stat(s.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

// A restart with the same file in the same version writes nothing.
func TestTheSameIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, file)
	var done []step
	s.at = func(at step) { done = append(done, at) }
	for _, c := range []struct {
		name   string
		change func(*Kept)
		writes bool
	}{
		{"nothing was kept", func(*Kept) {}, true},
		{"nothing changed", func(*Kept) {}, false},
		{"later", func(k *Kept) { k.At = k.At.Add(time.Hour) }, false},
		{"another text", func(k *Kept) { k.Text = []byte("b\n") }, true},
		{"another version of the program", func(k *Kept) { k.Program = "v2" }, true},
		{"another meaning", func(k *Kept) { k.Hash = "0" }, true},
	} {
		done = nil
		k := sample("a\n")
		c.change(&k)
		if err := s.Keep(k); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(done, renamed); got != c.writes {
			t.Errorf("%s: written %t, want %t", c.name, got, c.writes)
		}
	}
}

// Whatever else is in the place of the file is replaced, and what killed processes have left
// is removed. Other files stay.
func TestKeepingReplacesWhatIsThere(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	write := func(t *testing.T, path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for kind, put := range map[string]func(t *testing.T, path string){
		"another file": func(t *testing.T, path string) { write(t, path, "kind: mine\n") },
		"a link": func(t *testing.T, path string) {
			write(t, target, "target\n")
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a[b]*") // a name that is no pattern
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, file)
			put(t, s.Path())
			write(t, filepath.Join(dir, "last-good.yaml.7.new"), "half")
			write(t, filepath.Join(dir, "notes"), "mine")
			keep(t, s, "a\n")
			if got := textOf(s); got != "a\n" {
				t.Errorf("got %q", got)
			}
			if got := filesIn(t, dir); !slices.Equal(got, []string{name, "notes"}) {
				t.Errorf("the directory has the files %q", got)
			}
		})
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "target\n" {
		t.Errorf("the target of the link is %q, %v", data, err)
	}
}

func TestWhatCannotBeKeptIsAnError(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	occupied := t.TempDir()
	if err := os.Mkdir(filepath.Join(occupied, name), 0o700); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct{ dir, want string }{
		"no directory":                {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		"a file":                      {plain, "not a directory"},
		"a directory with the name":   {occupied, "file exists"},
		"a directory without a right": {"/proc/self", "/proc/self"},
	} {
		err := open(t, c.dir, file).Keep(sample("a\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "keeping the configuration in "+c.dir+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if got := filesIn(t, occupied); !slices.Equal(got, []string{name}) {
		t.Errorf("the directory has the files %q", got)
	}
}

// The configuration file itself is never written.
func TestTheConfigurationFileIsNotThePlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	link := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("kind: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		file    string
		refused bool
	}{
		"the same path":        {path, true},
		"the path in disguise": {dir + "/./" + name, true},
		"a link to it":         {link, true},
		"beside it":            {filepath.Join(dir, "config.yaml"), false},
		"not there":            {filepath.Join(dir, "none", name), false},
	} {
		if _, err := Open(dir, c.file); (err != nil) != c.refused {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// Whoever reads while it is replaced gets what was kept before or what is kept now.
func TestReadersNeverSeeAHalf(t *testing.T) {
	s := open(t, t.TempDir(), file)
	texts := []string{strings.Repeat("a: 1\n", 1000), strings.Repeat("b: 2\n", 2000)}
	keep(t, s, texts[0])
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for {
			if got := textOf(s); !slices.Contains(texts, got) {
				t.Errorf("read %.60q", got)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for n := range 20 {
		keep(t, s, texts[n%2])
	}
	close(stop)
	readers.Wait()
}
