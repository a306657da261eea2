package footprint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
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
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("reading what is mapped: %w", err)
	}
	defer maps.Close()
	var errs []error
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		m, ok := parseMapping(lines.Text())
		if !ok || m.file != name || !m.equalsFile(isRelocated()) {
			continue
		}
		if _, _, no := unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED); no != 0 {
			errs = append(errs, fmt.Errorf("giving back %x-%x: %w", m.from, m.to, no))
		}
	}
	return errors.Join(append(errs, lines.Err())...)
}

// mapping is a line of /proc/PID/maps.
type mapping struct {
	from, to    uintptr
	permissions string // such as r-xp
	file        string
}

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

// equalsFile reports whether what is mapped cannot differ from the file, so that nothing is lost. Data
// that is only read now may have been changed before if the program is relocated when it is loaded.
func (m mapping) equalsFile(relocated bool) bool {
	return m.permissions == "r-xp" || m.permissions == "r--p" && !relocated
}

// isRelocated reports whether the program is position independent. When in doubt, it is.
func isRelocated() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return true
	}
	for _, s := range info.Settings {
		if s.Key == "-buildmode" {
			return s.Value != "exe"
		}
	}
	return true
}
