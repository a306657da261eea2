package supervisor

import (
	"bytes"
	"runtime/pprof"
	"strings"
)

// maxStacks bounds the length of a stack dump in the log, in bytes.
const maxStacks = 32 << 10

// stacks returns the stacks of the goroutines of one controller, found by their
// profiler label.
func stacks(name string) string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return "stacks are not available: " + err.Error()
	}
	label := `"controller":"` + name + `"`
	var found []string
	for _, group := range strings.Split(all.String(), "\n\n") {
		if strings.Contains(group, label) {
			found = append(found, group)
		}
	}
	text := strings.Join(found, "\n\n")
	if len(text) > maxStacks {
		text = text[:maxStacks] + "\n…"
	}
	return text
}
