package suites

import (
	_ "embed"
	"strings"
	"time"
)

//go:embed specs.txt
var specsFile string

// specs returns the names of the specs that are run, in the order of the file.
func specs() []string {
	var names []string
	for line := range strings.Lines(specsFile) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names
}

// isSerial reports whether a spec must not run beside others.
func isSerial(name string) bool {
	return strings.Contains(name, "[Serial]") || strings.Contains(name, "[Disruptive]")
}

// patienceWith returns how long a spec may take.
func patienceWith(name string) time.Duration {
	if strings.Contains(name, "[Slow]") { // one waits for 5 minutes for what must not happen
		return 8 * time.Minute
	}
	return 5 * time.Minute
}
