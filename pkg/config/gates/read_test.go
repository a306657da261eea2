package gates_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/gates"
)

// A gate can be switched in some version that can be emulated. Then something here reads it,
// or there is a reason why nothing has to. Pins MGR-217.
func TestEveryGateThatCanBeSwitchedIsReadOrExcused(t *testing.T) {
	excuses := readExcuses(t)
	for _, name := range gates.Names() {
		reason, excused := excuses[name]
		delete(excuses, name)
		read, locked := slices.Contains(gates.Read(), name), gates.AlwaysLocked(name)
		switch {
		case read && locked:
			t.Errorf("%s is in gates.Read, but is locked in every version that can be emulated", name)
		case excused && (read || locked):
			t.Errorf("%s has an excuse (%s), but is read (%t) or always locked (%t)", name, reason, read, locked)
		case !excused && !read && !locked:
			t.Errorf("%s can be switched in a version that can be emulated: honour it, or say in testdata/gates-not-read.txt why not", name)
		}
	}
	for name := range excuses {
		t.Errorf("%s is excused, but no gate", name)
	}
}

// readExcuses returns the reason for every gate that is not read.
func readExcuses(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/gates-not-read.txt")
	if err != nil {
		t.Fatal(err)
	}
	reasons, reason := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			reason = strings.Trim(line, "[]")
		default:
			for _, name := range strings.Fields(line) {
				if _, twice := reasons[name]; twice || reason == "" {
					t.Errorf("%s is listed twice, or without a reason", name)
				}
				reasons[name] = reason
			}
		}
	}
	return reasons
}
