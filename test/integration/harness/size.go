package harness

import (
	"os"
	"strconv"
	"testing"
)

// Size is how much there is of something in a test: a few by default, as many as a variable
// in the environment says in its long form.
func Size(t testing.TB, variable string, usual int) int {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		return usual
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("reading %s: %v", variable, err)
	}
	return n
}
