package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	folderPattern = "kcmd-sandbox-*"
	ownerFile     = "owner.lock"
	// keepVariable, set to anything, keeps temporary folders for a look at logs.
	keepVariable = "KCMD_KEEP"
	// newFolderAge is how long a folder without a held lock may be one whose
	// owner has not locked it yet.
	newFolderAge = time.Minute
)

// folder is where a control plane keeps its files.
type folder struct {
	path      string
	temporary bool
	owner     *os.File // locked while the owner lives
}

// openFolder uses the given folder, which must be empty or missing, or creates a
// temporary one and removes those whose owners were killed.
func openFolder(path string) (*folder, error) {
	if path != "" {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("creating the control plane's folder: %w", err)
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("reading the control plane's folder: %w", err)
		}
		if len(entries) > 0 {
			return nil, fmt.Errorf("the control plane's folder %s is not empty", path)
		}
		return &folder{path: path}, nil
	}
	if err := sweep(os.TempDir(), time.Now()); err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp("", folderPattern)
	if err != nil {
		return nil, fmt.Errorf("creating the control plane's folder: %w", err)
	}
	owner, err := lockFile(filepath.Join(path, ownerFile), os.O_CREATE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the control plane's folder: %w", err), os.RemoveAll(path))
	}
	return &folder{path: path, temporary: true, owner: owner}, nil
}

// close gives the folder up and removes it if it is temporary. With KCMD_KEEP
// set it stays, without the lock file so that no sweep takes it.
func (f *folder) close() error {
	if !f.temporary {
		return nil
	}
	defer func() { _ = f.owner.Close() }()
	if os.Getenv(keepVariable) != "" {
		return os.Remove(f.owner.Name())
	}
	if err := os.RemoveAll(f.path); err != nil {
		return fmt.Errorf("removing the control plane's folder: %w", err)
	}
	return nil
}

// sweep removes folders below dir whose owners ended without removing them: the
// kernel has released their locks.
func sweep(dir string, now time.Time) error {
	folders, err := filepath.Glob(filepath.Join(dir, folderPattern))
	if err != nil {
		return fmt.Errorf("looking for left-over folders: %w", err)
	}
	for _, path := range folders {
		info, err := os.Stat(path)
		if err != nil || now.Sub(info.ModTime()) < newFolderAge {
			continue
		}
		owner, err := lockFile(filepath.Join(path, ownerFile), 0)
		if err != nil {
			continue // in use, kept on purpose, or another user's
		}
		err = os.RemoveAll(path)
		_ = owner.Close()
		if err != nil {
			return fmt.Errorf("removing a left-over folder: %w", err)
		}
	}
	return nil
}

func lockFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
