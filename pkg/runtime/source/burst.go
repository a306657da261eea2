package source

import "time"

// maxSettles bounds how long a file that never becomes quiet is left unread, in
// multiples of Settle.
const maxSettles = 10

// burst is a run of events of one file that have not been followed by a read.
// The zero burst is no event.
type burst struct {
	first, last time.Time
}

func (b burst) empty() bool { return b.first.IsZero() }

// add notes an event.
func (b *burst) add(now time.Time) {
	if b.empty() {
		b.first = now
	}
	b.last = now
}

// due is when the file has to be read: settle after the newest event, and never later
// than maxSettles×settle after the oldest.
func (b burst) due(settle time.Duration) time.Time {
	quiet, limit := b.last.Add(settle), b.first.Add(maxSettles*settle)
	if limit.Before(quiet) {
		return limit
	}
	return quiet
}

// exhausted reports whether the file has to be read although it still changes.
func (b burst) exhausted(now time.Time, settle time.Duration) bool {
	return !now.Before(b.first.Add(maxSettles * settle))
}
