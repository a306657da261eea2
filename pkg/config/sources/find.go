package sources

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kcmd.dev/pkg/config"
)

// Stdin is the name that stands for the standard input.
const Stdin = "-"

// MaxFileBytes is the largest file that is searched. It may be a manifest with much else
// in it; config.MaxFileBytes limits each configuration in it.
const MaxFileBytes = 16 << 20

// Finder looks for configurations.
type Finder struct {
	// Read returns the content of a file. Errors are shown after the name of the file.
	Read func(name string) ([]byte, error)
	// Stdin is what the name - stands for.
	Stdin io.Reader
}

// Found is what a name led to.
type Found struct {
	// Inputs are the configurations, in the order of files and positions.
	Inputs []Input
	// Problems are about what could not be read, and about names that hold nothing.
	Problems config.Errors
	// Skipped counts documents that are something else.
	Skipped int
}

// Find looks in a file, a folder with everything below it, or the standard input. In
// folders it looks at *.yaml, *.yml and *.json that are not hidden.
func (f Finder) Find(name string) Found {
	if name == Stdin {
		return f.stdin()
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return f.folder(name)
	}
	data, err := f.Read(name)
	if err != nil {
		return Found{Problems: problem(name, err)}
	}
	return findIn(name, data, true)
}

func (f Finder) stdin() Found {
	const name = "stdin"
	data, err := io.ReadAll(io.LimitReader(f.Stdin, MaxFileBytes+1))
	if err != nil {
		return Found{Problems: problem(name, fmt.Errorf("reading the standard input: %w", err))}
	}
	if len(data) > MaxFileBytes {
		return Found{Problems: problem(name, fmt.Errorf("has more than %d bytes", MaxFileBytes))}
	}
	return findIn(name, data, true)
}

// extensions are those of the files that are looked at in folders.
var extensions = []string{".yaml", ".yml", ".json"}

func (f Finder) folder(root string) Found {
	var found Found
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			found.Problems = append(found.Problems, problem(path, err)...)
			return nil
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir() || !slices.Contains(extensions, filepath.Ext(path)) || leadsToFolder(path, entry):
			return nil
		}
		files++
		found.add(f.member(path))
		return nil
	})
	if err != nil {
		found.Problems = append(found.Problems, problem(root, err)...)
	}
	if len(found.Inputs) == 0 && len(found.Problems) == 0 {
		found.Problems = problem(root, fmt.Errorf("holds no configuration: looked at %d files (*.yaml, *.yml, *.json)", files))
	}
	return found
}

// member searches a file of a folder.
func (f Finder) member(path string) Found {
	data, err := f.Read(path)
	if err != nil {
		return Found{Problems: problem(path, err)}
	}
	return findIn(path, data, false)
}

// leadsToFolder says whether an entry is a link to a folder; those are not followed, so
// that no folder is searched twice or for ever.
func leadsToFolder(path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (f *Found) add(other Found) {
	f.Inputs = append(f.Inputs, other.Inputs...)
	f.Problems = append(f.Problems, other.Problems...)
	f.Skipped += other.Skipped
}

// problem is a problem of a file as a whole. The name of the file is said once.
func problem(name string, err error) config.Errors {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && pathErr.Path == name {
		err = pathErr.Err
	}
	return config.Errors{{File: name, Message: err.Error(), Severity: config.SeverityError}}
}
