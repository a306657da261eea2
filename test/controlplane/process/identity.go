package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Identity names one run of one process: process ids are reused, the pair of id
// and start time (within one boot of the machine) is not.
type Identity struct {
	PID int `json:"pid"`
	// StartTime is in clock ticks since the machine booted.
	StartTime uint64 `json:"startTime"`
	BootID    string `json:"bootID"`
}

// Identify returns the identity of the running process pid. It fails with
// os.ErrNotExist when there is none.
func Identify(pid int) (Identity, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Identity{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	state, start, err := parseStat(string(stat))
	if err != nil {
		return Identity{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	if state == "Z" {
		return Identity{}, fmt.Errorf("identifying process %d: it is a zombie: %w", pid, os.ErrNotExist)
	}
	return Identity{PID: pid, StartTime: start, BootID: strings.TrimSpace(string(boot))}, nil
}

// Alive reports whether that very process still runs.
func (i Identity) Alive() bool {
	now, err := Identify(i.PID)
	return err == nil && now == i
}

// parseStat returns state (field 3) and start time (field 22) of a
// /proc/PID/stat line. The command name in field 2 may itself hold spaces and
// parentheses, so fields are counted from its last closing one.
func parseStat(stat string) (state string, start uint64, err error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("unexpected stat line %q", stat)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("reading the start time: %w", err)
	}
	return fields[0], start, nil
}
