package footprint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram removes the pages of the program from the memory of the process. The kernel maps a page
// again from its cache, or from the file, when it is next used.
func dropProgram() error {
	name, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("reading what is mapped: %w", err)
	}
	defer file.Close()
	mappings, err := readMappings(file)
	if err != nil {
		return fmt.Errorf("reading what is mapped: %w", err)
	}
	var errs []error
	for _, m := range mappings {
		if m.file != name || !m.equalsFile() {
			continue
		}
		if _, _, no := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); no != 0 {
			errs = append(errs, fmt.Errorf("giving back %x-%x: %w", m.from, m.to, no))
		}
	}
	return errors.Join(errs...)
}

// mapping is an entry of /proc/PID/smaps.
type mapping struct {
	from, to    uintptr
	permissions string // such as r-xp
	file        string
	// own reports whether some of its pages are not those of the file: they were changed, for instance
	// when the program was relocated as it was loaded.
	own bool
}

// equalsFile reports whether all that is mapped is in the file, and stays so.
func (m mapping) equalsFile() bool {
	return (m.permissions == "r-xp" || m.permissions == "r--p") && !m.own
}

// readMappings reads the entries of files.
func readMappings(from io.Reader) ([]mapping, error) {
	var all []mapping
	ofFile := false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		key, value, isAttribute := strings.Cut(lines.Text(), ": ")
		if !isAttribute {
			var m mapping
			if m, ofFile = parseMapping(lines.Text()); ofFile {
				all = append(all, m)
			}
			continue
		}
		switch key {
		// Private_Dirty does not tell: it also counts pages of a file that was written a moment ago and is
		// not on the disk yet.
		case "Anonymous", "Swap":
			if ofFile && strings.TrimSpace(value) != "0 kB" {
				all[len(all)-1].own = true
			}
		}
	}
	return all, lines.Err()
}

// parseMapping reads the first line of an entry.
func parseMapping(line string) (mapping, bool) {
	fields := strings.Fields(line)
	if len(fields) != 6 {
		return mapping{}, false // of no file, or of one whose name has spaces
	}
	from, to, _ := strings.Cut(fields[0], "-")
	begin, err1 := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if err1 != nil || err2 != nil {
		return mapping{}, false
	}
	return mapping{from: uintptr(begin), to: uintptr(end), permissions: fields[1], file: fields[5]}, true
}
