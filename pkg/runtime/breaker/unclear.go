package breaker

import (
	"maps"
	"time"
)

// object is what a deletion is of: one object, or everything in a namespace if there is no name.
type object struct{ namespace, name string }

// unclear holds the counted deletions whose outcome is unknown. While an admission webhook fails, or etcd does not
// respond, each of them is retried many times. The zero value is empty.
type unclear struct {
	deletions map[object]remains
	swept     time.Time
}

// remains is the number of objects that were left after a deletion, and the time since which they have been counted,
// see tally.since.
type remains struct {
	n     int
	since time.Time
}

// of returns how many objects of a deletion are counted within the window that ends now.
func (u *unclear) of(what object, window time.Duration, now time.Time) int {
	if r, known := u.deletions[what]; known && now.Sub(r.since) < window {
		return r.n
	}
	return 0
}

// add records a deletion for which Ask was called at the given time, and the time since which it is counted if that was
// then. A retry within the window was not counted again, so it does not extend the time for which the first attempt is
// remembered.
func (u *unclear) add(what object, left int, asked, since time.Time, window time.Duration, now time.Time) {
	r := remains{left, since}
	if before, known := u.deletions[what]; known && asked.Sub(before.since) < window {
		r = remains{max(left, before.n), before.since}
	}
	if now.Sub(u.swept) >= window/steps {
		u.swept = now
		maps.DeleteFunc(u.deletions, func(_ object, r remains) bool { return now.Sub(r.since) >= 2*window })
	}
	if u.deletions == nil {
		u.deletions = map[object]remains{}
	}
	u.deletions[what] = r
}
