package gates

import (
	"slices"
	"strings"
	"testing"
)

// Editors and `config explain` show what a gate is for.
func TestGatesHaveAPurpose(t *testing.T) {
	read := append(Read(), AllAlpha, AllBeta)
	for _, name := range read {
		if purpose := Purpose(name); !strings.HasSuffix(purpose, ".") || len(purpose) < 20 {
			t.Errorf("the purpose of %s is %q, want a sentence: add it to purposes.go", name, purpose)
		}
	}
	for name := range purposes() {
		if !slices.Contains(read, name) {
			t.Errorf("nothing reads %s, so it needs no purpose", name)
		}
	}
}
