package manager

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
)

// label is the profiler label of the goroutines of a manager in this process, with its folder as the value. A
// goroutine inherits it from the one that starts it, in libraries too.
const label = "manager"

// Goroutines returns the stacks of the goroutines that this manager of this process has started and that have not
// ended, with how many have each.
func (m *Manager) Goroutines() (map[string]int, error) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil, fmt.Errorf("reading the stacks of goroutines: %w", err)
	}
	return labelled(profile.String(), m.Dir()), nil
}

// labelled returns the stacks of a profile that have our label with a value.
func labelled(profile, value string) map[string]int {
	mark := fmt.Sprintf("%q:%q", label, value)
	found := map[string]int{}
	_, profile, _ = strings.Cut(profile, "\n") // how many there are in all
	for _, group := range strings.Split(profile, "\n\n") {
		var n int
		if _, err := fmt.Sscanf(group, "%d @", &n); err != nil {
			continue
		}
		var ours bool
		var frames []string
		for _, line := range strings.Split(group, "\n") {
			fields := strings.Fields(line)
			switch {
			case strings.HasPrefix(line, "# labels:"):
				ours = strings.Contains(line, mark)
			case len(fields) > 2 && fields[0] == "#":
				name, _, _ := strings.Cut(fields[2], "+")
				frames = append(frames, name)
			}
		}
		if ours {
			found[strings.Join(frames, " < ")] += n
		}
	}
	return found
}
