package breaker

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// place is where a deletion is: at one object, or at everything in a namespace if there is no name.
type place struct{ namespace, name string }

// object is what a deletion is of. The UID is empty if there is no name, or if the cache shows no object of that name.
type object struct {
	place
	uid types.UID
}

// isShown reports whether the cache shows what a deletion is of. If it does not, that is gone as a rule: a retry is
// answered with 404, and what it counted is given back.
func (o object) isShown() bool { return o.name == "" || o.uid != "" }

// unclear holds the counted deletions whose outcome is unknown. While an admission webhook fails, or etcd does not
// respond, each of them is retried many times. The zero value is empty.
type unclear struct {
	deletions map[place]remains
	swept     time.Time
}

// remains is the number of objects that were left after a deletion, the UID if it is one, and the time since which they
// have been counted, see tally.since.
type remains struct {
	n     int
	uid   types.UID
	since time.Time
}

// of returns how many objects of a deletion are counted within the window that ends now.
func (u *unclear) of(what object, window time.Duration, now time.Time) int {
	if r, known := u.deletions[what.place]; known && r.uid == what.uid && now.Sub(r.since) < window {
		return r.n
	}
	return 0
}

// add records a deletion for which Ask was called at the given time, and the time since which it is counted if that was
// then. A retry within the window was not counted again, so it does not extend the time for which the first attempt is
// remembered.
func (u *unclear) add(what object, left int, asked, since time.Time, window time.Duration, now time.Time) {
	r := remains{left, what.uid, since}
	if before, known := u.deletions[what.place]; known && before.uid == what.uid && asked.Sub(before.since) < window {
		r = remains{max(left, before.n), what.uid, before.since}
	}
	if now.Sub(u.swept) >= window/steps {
		u.swept = now
		maps.DeleteFunc(u.deletions, func(_ place, r remains) bool { return now.Sub(r.since) >= 2*window })
	}
	if u.deletions == nil {
		u.deletions = map[place]remains{}
	}
	u.deletions[what.place] = r
}
