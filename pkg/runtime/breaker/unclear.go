package breaker

import (
	"maps"
	"time"
)

// object is what a deletion is of: one object, or everything in a namespace if there is no name.
type object struct{ namespace, name string }

// unclear are deletions that are counted and of which nobody knows whether they were carried out. While an admission
// webhook fails, or etcd does not respond, each of them is repeated many times. The zero value has none.
type unclear struct {
	deletions map[object]remains
	swept     time.Time
}

// remains are the objects of a deletion that were left after it, and since when they are counted.
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

// add remembers a deletion that was asked for at a time. It was not counted then if it was remembered: so it is not
// remembered for longer because it is repeated.
func (u *unclear) add(what object, left int, asked time.Time, window time.Duration, now time.Time) {
	r := remains{left, asked}
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
