package inputs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/problem"
)

// Stdin is the name that stands for the standard input.
const Stdin = "-"

// IsStdin reports whether a name stands for the standard input. It includes the files that the
// system provides for it, which cannot be opened if it is a socket.
func IsStdin(name string) bool {
	return slices.Contains([]string{Stdin, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}, name)
}

// MaxFileBytes is the largest file that is searched. It may be a manifest with much else
// in it; config.MaxFileBytes limits each configuration in it.
const MaxFileBytes = 16 << 20

// Finder looks for configurations.
type Finder struct {
	// Read returns the content of a file. Its errors need not contain the name.
	Read func(name string) ([]byte, error)
	// Stdin is what the name - stands for.
	Stdin io.Reader
}

// Found is what was found under a name.
type Found struct {
	// Inputs are the configurations, in the order of files and positions.
	Inputs []Input
	// Problems report what could not be read, and names under which there is no configuration.
	Problems problem.Errors
	// Skipped counts documents that are something else.
	Skipped int
}

// Find searches a file, a folder with everything below it, or the standard input. In folders
// it reads *.yaml, *.yml and *.json that are not hidden.
func (f Finder) Find(name string) Found {
	if name == "" { // for example from an unset variable
		return Found{Problems: fileProblem(`""`,
			errors.New("is empty: must be the name of a file or folder, or - for the standard input"))}
	}
	if IsStdin(name) {
		return f.stdin()
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return f.folder(name)
	}
	data, err := f.Read(name)
	if err != nil {
		return Found{Problems: fileProblem(name, err)}
	}
	return findInNamed(name, data)
}

func (f Finder) stdin() Found {
	const name = "stdin"
	data, err := io.ReadAll(io.LimitReader(f.Stdin, MaxFileBytes+1))
	if err != nil {
		return Found{Problems: fileProblem(name, fmt.Errorf("reading standard input: %w", err))}
	}
	if len(data) > MaxFileBytes {
		return Found{Problems: fileProblem(name, fmt.Errorf("has more than %d bytes", MaxFileBytes))}
	}
	return findInNamed(name, data)
}

// extensions are the extensions of the files that are read from a folder.
var extensions = []string{".yaml", ".yml", ".json"}

func (f Finder) folder(root string) Found {
	var found Found
	files := 0
	top := filepath.Clean(root) + string(filepath.Separator) // of a link, what it leads to
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			found.Problems = append(found.Problems, fileProblem(path, err)...)
			return nil
		case path != top && strings.HasPrefix(entry.Name(), "."):
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
		found.Problems = append(found.Problems, fileProblem(root, err)...)
	}
	if len(found.Inputs) == 0 && len(found.Problems) == 0 {
		found.Problems = fileProblem(root,
			fmt.Errorf("contains no configuration: %d files (*.yaml, *.yml, *.json) were checked", files))
	}
	return found
}

// member searches a file of a folder.
func (f Finder) member(path string) Found {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Found{Problems: fileProblem(path, errors.New("not a regular file"))} // reading a pipe could wait forever
	}
	data, err := f.Read(path)
	if err != nil {
		return Found{Problems: fileProblem(path, err)}
	}
	s := &search{file: path}
	s.documents(split(data))
	return s.found
}

// leadsToFolder reports whether an entry is a link to a folder; those are not followed, so
// that no folder is searched twice or endlessly.
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

// fileProblem is a problem of a file as a whole. It contains the name of the file once.
func fileProblem(name string, err error) problem.Errors {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && pathErr.Path == name {
		err = pathErr.Err
	}
	return problem.Errors{{File: name, Message: err.Error(), Severity: problem.SeverityError}}
}
