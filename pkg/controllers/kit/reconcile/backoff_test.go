package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Pins WL-113.
func TestLooksAtACacheAreNeverFarApart(t *testing.T) {
	looks := newLooks[string]()
	var got []time.Duration
	for range 20 {
		got = append(got, looks.When("a"))
	}
	if got[0] != firstLook || !slices.IsSorted(got) || got[len(got)-1] != RecheckAfter {
		t.Errorf("delays are %v", got)
	}
	for i := range 1000 {
		if other := looks.When(fmt.Sprint(i)); other != firstLook {
			t.Fatalf("the first delay of key %d is %v", i, other)
		}
	}
}
