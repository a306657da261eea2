package problem

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	candidates := []string{"concurrentSyncs", "enabled", "resyncPeriod"}
	for word, want := range map[string]string{
		"concurrentSync": "concurrentSyncs", "enbaled": "enabled", "ENABLED": "enabled",
		"resync-period": "resyncPeriod", "x": "", "": "", strings.Repeat("e", 100): "",
	} {
		if got := Nearest(word, candidates); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
