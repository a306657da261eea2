package lastgood

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime/source"
)

const (
	// name is that of the file in the directory.
	name = "last-good.yaml"
	// unfinished matches files that are being written, or that a process has left which was
	// killed. The asterisk is replaced: two processes never write the same one.
	unfinished = name + ".*.new"
	// maxLine is more than the line after the text can have.
	maxLine = 64 << 10
)

// ErrNothing means that nothing is kept.
var ErrNothing = errors.New("nothing is kept there")

// Store is a directory in which the configuration of one file is kept. Reading and writing at
// the same time is safe; only one goroutine may write.
type Store struct {
	dir, file string
	// at is called between every two steps of keeping, for tests.
	at func(step)
}

// Open returns the store in a directory for a configuration file. It reads and writes nothing,
// and the directory need not exist yet. It fails if the file is where this package writes.
func Open(dir, file string) (*Store, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("finding the path of %s: %w", file, err)
	}
	s := &Store{dir: dir, file: absolute, at: func(step) {}}
	kept, err := filepath.Abs(s.Path())
	if err != nil {
		return nil, fmt.Errorf("finding the path of %s: %w", s.Path(), err)
	}
	if kept == absolute || sameFile(kept, absolute) {
		return nil, fmt.Errorf("%s is the configuration file: the last good configuration cannot be kept in the same place", s.Path())
	}
	return s, nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// Path returns the path of the file in which the configuration is kept.
func (s *Store) Path() string { return filepath.Join(s.dir, name) }

// Read returns what is kept. The error wraps ErrNothing if nothing is.
func (s *Store) Read() (*Kept, error) {
	data, _, err := source.Read(s.Path(), config.MaxFileBytes+maxLine)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNothing
	}
	var kept *Kept
	if err == nil {
		kept, err = decode(data, s.file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.Path(), err)
	}
	return kept, nil
}

// step is one of the steps of Keep.
type step int

const (
	begun step = iota
	tidied
	created
	textWritten
	lineWritten
	fileSynced
	fileClosed
	renamed
	directorySynced
	steps // is their number
)

// Keep replaces what is kept. It writes nothing if the same is kept already.
func (s *Store) Keep(k Kept) error {
	if err := s.keep(k); err != nil {
		return fmt.Errorf("keeping the configuration in %s: %w", s.dir, err)
	}
	return nil
}

func (s *Store) keep(k Kept) error {
	s.at(begun)
	if err := s.tidy(); err != nil {
		return err
	}
	s.at(tidied)
	if now, err := s.Read(); err == nil && bytes.Equal(now.Text, k.Text) && now.Hash == k.Hash && now.Program == k.Program {
		return nil
	}
	line, err := lineAfter(k, s.file)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, unfinished) // for its owner alone
	if err != nil {
		return err
	}
	s.at(created)
	err = errors.Join(s.write(f, k.Text, line), f.Close())
	s.at(fileClosed)
	if err == nil {
		err = os.Rename(f.Name(), s.Path())
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	s.at(renamed)
	if err := syncDirectory(s.dir); err != nil {
		return err
	}
	s.at(directorySynced)
	return nil
}

// write writes a file and returns when it is on the disk.
func (s *Store) write(f *os.File, text, line []byte) error {
	if _, err := f.Write(text); err != nil {
		return err
	}
	s.at(textWritten)
	if _, err := f.Write(line); err != nil {
		return err
	}
	s.at(lineWritten)
	if err := f.Sync(); err != nil {
		return err
	}
	s.at(fileSynced)
	return nil
}

// tidy removes what processes have left that were killed.
func (s *Store) tidy() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if left, err := filepath.Match(unfinished, e.Name()); err != nil || !left {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncDirectory makes a rename in a directory last. Some network file systems cannot do that,
// and need not: their server does it.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
