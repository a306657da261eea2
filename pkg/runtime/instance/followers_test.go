package instance

import "testing"

func TestFollowersAreToldOfTheirFiles(t *testing.T) {
	var f followers
	f.tell("a") // nobody follows it
	one, both := make(chan struct{}, 1), make(chan struct{}, 1)
	f.add(one, []string{"a"})
	f.add(both, []string{"a", "b"})
	f.add(make(chan struct{}), nil)
	told := func(what string, changed chan struct{}, want int) {
		t.Helper()
		if got := len(changed); got != want {
			t.Errorf("%s: told %d times, want %d", what, got, want)
		}
		for len(changed) > 0 {
			<-changed
		}
	}
	f.tell("b")
	told("the file of another", one, 0)
	told("its own file", both, 1)
	f.tell("a")
	f.tell("a")
	told("twice before it looked", one, 1)
	f.remove(one)
	told("before", both, 1)
	f.tell("a")
	told("after it was closed", one, 0)
	told("the one that is left", both, 1)
	if f.remove(both); len(f.files) != 0 {
		t.Errorf("%d are left", len(f.files))
	}
}
