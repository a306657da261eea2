package breaker

import (
	"slices"
	"time"
)

// steps is the number of parts of a window that are told apart.
const steps = 20

// tally is how many objects of a kind were deleted, by time.
type tally []deleted

type deleted struct {
	since time.Time
	n     int
}

// within forgets what was deleted before the window that ends now, and returns the rest.
func (t *tally) within(window time.Duration, now time.Time) int {
	*t = slices.DeleteFunc(*t, func(d deleted) bool { return now.Sub(d.since) >= window })
	sum := 0
	for _, d := range *t {
		sum += d.n
	}
	return sum
}

// add counts what is deleted now.
func (t *tally) add(n int, window time.Duration, now time.Time) {
	if last := len(*t) - 1; last >= 0 && now.Sub((*t)[last].since) < window/steps {
		(*t)[last].n += n
		return
	}
	*t = append(*t, deleted{now, n})
}

// since returns the time by which within tells when to forget what was counted at another time.
func (t tally) since(counted time.Time, window time.Duration) time.Time {
	for _, d := range slices.Backward(t) {
		if age := counted.Sub(d.since); age >= 0 && age < window/steps {
			return d.since
		}
	}
	return counted
}

// giveBack takes off what was counted last.
func (t *tally) giveBack(n int) {
	for i := len(*t) - 1; i >= 0 && n > 0; i-- {
		taken := min(n, (*t)[i].n)
		(*t)[i].n -= taken
		n -= taken
	}
}
