package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// readAttempts bounds how often a file that changes under the reader is read again at once.
const readAttempts = 3

var errNotRegular = errors.New("not a regular file")

// TooLargeError reports a file above the size limit. Its content was not kept.
type TooLargeError struct {
	Path  string
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("reading %s: file is larger than the limit of %d bytes", e.Path, e.Limit)
}

// Read reads a file once, as a Watcher does: consistently and only up to maxSize bytes
// (above zero). It returns the content and its SHA-256 in hexadecimal. Errors are of type
// *fs.PathError with the operation "read", or *TooLargeError.
func Read(path string, maxSize int64) (content []byte, hash string, err error) {
	content, _, err = readStable(path, maxSize)
	if err != nil {
		return nil, "", err
	}
	return content, Hash(content), nil
}

// Hash returns the SHA-256 of a content in hexadecimal.
func Hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// readStable reads until the file did not change meanwhile. If it keeps changing, it
// returns the last content with stable false.
func readStable(path string, maxSize int64) (content []byte, stable bool, err error) {
	for range readAttempts {
		content, stable, err = readOnce(path, maxSize)
		if err != nil || stable {
			break
		}
	}
	return content, stable, readError(path, err)
}

func readOnce(path string, maxSize int64) (content []byte, stable bool, err error) {
	// Opening a named pipe or a device can block or have effects: look first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	if err := readable(info, path, maxSize); err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if err := readable(before, path, maxSize); err != nil {
		return nil, false, err
	}
	content, err = io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, false, err
	}
	if int64(len(content)) > maxSize {
		return nil, false, &TooLargeError{Path: path, Limit: maxSize}
	}
	after, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	now, err := os.Stat(path)
	if err != nil {
		return nil, false, err
	}
	stable = before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) && os.SameFile(after, now)
	return content, stable, nil
}

func readable(info fs.FileInfo, path string, maxSize int64) error {
	switch {
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return errNotRegular
	case info.Size() > maxSize:
		return &TooLargeError{Path: path, Limit: maxSize}
	}
	return nil
}

// readError gives one message to one state: which of the system calls met it depends on
// timing and must not look like a change.
func readError(path string, err error) error {
	var tooLarge *TooLargeError
	if err == nil || errors.As(err, &tooLarge) {
		return err
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return &fs.PathError{Op: "read", Path: path, Err: err}
}
