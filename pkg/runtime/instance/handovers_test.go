package instance

import "testing"

func TestAnInstanceWithoutAHandOverIsNoticedByItsSuccessor(t *testing.T) {
	var h handOvers
	wantLost := func(what string, lost, want bool) {
		t.Helper()
		if lost != want {
			t.Errorf("%s: lost %v, want %v", what, lost, want)
		}
	}
	wantLost("the first one", h.begin("a", 1), false)
	wantLost("another controller", h.begin("b", 1), false)
	h.end("a")
	wantLost("after a hand-over", h.begin("a", 1), false)
	wantLost("after a panic", h.begin("a", 1), true)
	wantLost("after two", h.begin("a", 1), true)
	wantLost("on another connection", h.begin("a", 2), false)
	h.end("a")
	wantLost("after a hand-over again", h.begin("a", 2), false)
}
