package source

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is the number of symbolic links the kernel follows before it gives up.
const maxLinks = 40

// trail is how the kernel gets from the root to a file.
type trail struct {
	// watch lists the directories that hold a component of the path, and the file.
	watch []string
	// names holds the components. An event for anything else does not concern the file.
	names map[string]struct{}
}

// follow walks a path component by component, through symbolic links, as far as it
// exists.
func follow(path string) (trail, error) {
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return trail{}, err
		}
		path = wd + "/" + path // not Join: it would resolve `..` before links
	}
	t := trail{names: map[string]struct{}{}}
	dir, rest := "/", strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			dir = filepath.Dir(dir)
			continue
		}
		t.add(dir, name)
		full := filepath.Join(dir, name)
		info, err := os.Lstat(full)
		if err != nil {
			return t, nil // the rest of the path does not exist or cannot be seen
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.IsDir() {
				t.watch = append(t.watch, full)
				return t, nil
			}
			dir = full
			continue
		}
		target, err := os.Readlink(full)
		if links++; err != nil || links > maxLinks {
			return t, nil
		}
		if filepath.IsAbs(target) {
			dir = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return t, nil
}

func (t *trail) add(dir, name string) {
	t.names[name] = struct{}{}
	if !slices.Contains(t.watch, dir) {
		t.watch = append(t.watch, dir)
	}
}

// equal reports whether two walks went the same way.
func (t trail) equal(o trail) bool {
	return slices.Equal(t.watch, o.watch) && maps.Equal(t.names, o.names)
}
