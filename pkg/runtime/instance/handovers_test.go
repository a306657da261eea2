package instance

import "testing"

func TestAnInstanceThatLacksAHandOverKnowsIt(t *testing.T) {
	var h handOvers
	begins := func(what, controller string, connection uint64, got, want bool) {
		t.Helper()
		if lacks := h.begin(controller, connection, got); lacks != want {
			t.Errorf("%s: lacks it %v, want %v", what, lacks, want)
		}
	}
	begins("the first one", "a", 1, false, false)
	begins("another controller", "b", 1, false, false)
	h.end("a", true)
	begins("after a hand-over", "a", 1, true, false)
	begins("after a panic", "a", 1, false, true)
	begins("after two", "a", 1, false, true)
	begins("on another connection", "a", 2, false, false)
	h.end("a", true)
	begins("after a hand-over again", "a", 2, true, false)
	h.end("a", true)
	begins("after one that was dropped", "a", 2, false, true)
	h.end("a", false)
	begins("after one of nothing", "a", 2, false, false)
}
