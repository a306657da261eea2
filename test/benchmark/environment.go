package benchmark

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/controlplane/binaries"
)

// environment describes this machine and the programs.
func environment() (report.Environment, error) {
	root, err := binaries.Root()
	if err != nil {
		return report.Environment{}, err
	}
	version, err := os.ReadFile(filepath.Join(root, "cmd", program, "app", "VERSION"))
	if err != nil {
		return report.Environment{}, fmt.Errorf("reading our version: %w", err)
	}
	theirs, err := binaries.Version(binaries.UpstreamManager)
	if err != nil {
		return report.Environment{}, err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return report.Environment{}, fmt.Errorf("describing the machine: %w", err)
	}
	cpu, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return report.Environment{}, fmt.Errorf("describing the machine: %w", err)
	}
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return report.Environment{}, fmt.Errorf("describing the machine: %w", err)
	}
	return report.Environment{
		Date:     time.Now().UTC().Truncate(time.Second),
		CPU:      matched(string(cpu), modelName),
		Cores:    runtime.NumCPU(),
		Memory:   matched(string(memory), totalMemory),
		Kernel:   strings.TrimSpace(string(kernel)),
		Go:       runtime.Version(),
		Upstream: theirs,
		Ours:     strings.TrimSpace(string(version)),
	}, nil
}

var (
	modelName   = regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`)
	totalMemory = regexp.MustCompile(`(?m)^MemTotal:\s*(.+)$`)
)

// matched returns what the pattern's group matches, or "unknown".
func matched(text string, pattern *regexp.Regexp) string {
	found := pattern.FindStringSubmatch(text)
	if found == nil {
		return "unknown"
	}
	return found[1]
}
