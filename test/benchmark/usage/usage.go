// Package usage reads what a process has used from the kernel.
//
//  1. Everything comes from /proc: the process itself is not asked, so a process that
//     counts differently, or not at all, is measured in the same way.
//  2. Processor time has the resolution of the kernel's clock tick, 10 ms.
//  3. The peak of the memory is that since the start of the process or the last
//     ResetPeak, whichever is later.
package usage

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of processor time in /proc. It is part of the kernel's interface.
const tick = time.Second / 100

// Usage is what a process has used since it started.
type Usage struct {
	// CPU is processor time, in user mode and in the kernel.
	CPU time.Duration
	// RSS is the resident memory now, in bytes.
	RSS uint64
	// Anonymous is the part of RSS that is not backed by files, such as the program
	// itself: what the process really needs memory for, in bytes.
	Anonymous uint64
	// PeakRSS is the largest resident memory since the last ResetPeak, in bytes.
	PeakRSS uint64
	// Received is how many bytes the process has read, from sockets and from files.
	Received uint64
}

// Of returns the usage of a running process.
func Of(pid int) (Usage, error) {
	var u Usage
	var errs [3]error
	u.CPU, errs[0] = read(pid, "stat", parseCPU)
	memory, err := read(pid, "status", parseMemory)
	u.RSS, u.Anonymous, u.PeakRSS, errs[1] = memory.now, memory.anonymous, memory.peak, err
	u.Received, errs[2] = read(pid, "io", parseReceived)
	if err := errors.Join(errs[:]...); err != nil {
		return Usage{}, err
	}
	return u, nil
}

// CPU returns the processor time of a running process; it costs less than Of.
func CPU(pid int) (time.Duration, error) { return read(pid, "stat", parseCPU) }

// Self returns the processor time of this process.
func Self() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the own usage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// ResetPeak makes the peak of a process's memory start again from its size now.
func ResetPeak(pid int) error {
	// proc(5): 5 resets the peak resident set size.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return fmt.Errorf("resetting the peak of the memory: %w", err)
	}
	return nil
}

func read[T any](pid int, file string, parse func(string) (T, error)) (T, error) {
	var zero T
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return zero, fmt.Errorf("reading the usage of process %d: %w", pid, err)
	}
	value, err := parse(string(data))
	if err != nil {
		return zero, fmt.Errorf("reading %s: %w", path, err)
	}
	return value, nil
}

// parseCPU adds fields 14 and 15 of a stat line, user and system time. The command in
// field 2 may hold spaces and parentheses, so fields are counted from its last one.
func parseCPU(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected line %q", stat)
	}
	var ticks uint64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

type memory struct{ now, anonymous, peak uint64 }

func parseMemory(status string) (memory, error) {
	now, err := field(status, "VmRSS")
	if err != nil {
		return memory{}, err
	}
	anonymous, err := field(status, "RssAnon")
	if err != nil {
		return memory{}, err
	}
	peak, err := field(status, "VmHWM")
	return memory{now: now << 10, anonymous: anonymous << 10, peak: peak << 10}, err
}

func parseReceived(io string) (uint64, error) { return field(io, "rchar") }

// field returns the number in the line "name: number [unit]".
func field(lines, name string) (uint64, error) {
	for line := range strings.Lines(lines) {
		rest, found := strings.CutPrefix(line, name+":")
		if !found {
			continue
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			break
		}
		return strconv.ParseUint(words[0], 10, 64)
	}
	return 0, fmt.Errorf("there is no number %s", name)
}
