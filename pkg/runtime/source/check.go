package source

import (
	"time"
)

// adopt makes the watched files those that are desired.
func (w *Watcher) adopt(n *notifier) {
	w.mu.Lock()
	wanted := map[string]struct{}{}
	for _, p := range w.desired {
		wanted[p] = struct{}{}
		if w.files[p] == nil {
			w.files[p] = &file{path: p}
		}
	}
	var gone []string
	for p := range w.files {
		if _, ok := wanted[p]; !ok {
			delete(w.files, p)
			gone = append(gone, p)
		}
	}
	w.mu.Unlock()
	for _, p := range gone {
		n.drop(p)
	}
}

// dueAt is when a file has to be read next. While it is being changed it is not read for any other reason: it may be
// half-written.
func (w *Watcher) dueAt(f *file) time.Time {
	switch {
	case f.lastRead.IsZero():
		return time.Time{}
	case !f.burst.empty():
		return f.burst.due(w.settle)
	case f.notifyErr != nil:
		return f.lastRead.Add(min(w.poll, fallbackPoll))
	}
	return f.lastRead.Add(w.poll)
}

// due returns the files to read now, in the order of Set.
func (w *Watcher) due() []*file {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []*file
	for _, p := range w.desired {
		f := w.files[p]
		if f != nil && !w.dueAt(f).After(now) {
			due = append(due, f)
		}
	}
	return due
}

// untilDue is how long nothing has to be read.
func (w *Watcher) untilDue() time.Duration {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := w.poll
	for _, f := range w.files {
		wait = min(wait, w.dueAt(f).Sub(now))
	}
	return max(wait, 0)
}

// firstPending is the file whose undelivered change is the oldest, nil if there is none. What its receiver reads
// elsewhere is kept from here on.
func (w *Watcher) firstPending() (first *file, change Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.desired {
		f := w.files[p]
		if f == nil || f.pending == nil {
			continue
		}
		if first == nil || f.pending.At.Before(change.At) {
			first, change = f, *f.pending
		}
	}
	if first != nil {
		first.elsewhere = ""
	}
	return first, change
}

// check reads a file and keeps the result for delivery if it is new.
func (w *Watcher) check(f *file, n *notifier) {
	start := w.clock.Now()
	w.mu.Lock()
	events, settle := f.burst, w.settle
	f.burst = burst{} // events from here on are about a later state
	w.mu.Unlock()
	polled := events.empty() && !f.lastRead.IsZero()
	if events.empty() {
		events.add(start)
	}
	f.lastRead = start

	if !w.watch(f, n) {
		w.again(f, w.clock.Now())
	}
	limit, own := w.limits[f.path]
	if !own {
		limit = w.maxSize
	}
	content, stable, err := readStable(f.path, limit)
	if err == nil && !stable {
		if !events.exhausted(start, settle) {
			w.again(f, events.first)
			return
		}
		w.again(f, w.clock.Now()) // deliver it as it is, and read it again
	}
	c := Change{Path: f.path, Content: content, Err: err, At: events.first}
	if err == nil {
		c.Hash = Hash(content)
	}
	if f.changes(c.state(), polled) && !events.exhausted(start, settle) {
		w.again(f, events.first)
		return
	}
	w.mu.Lock()
	f.offer(c)
	w.mu.Unlock()
}

// changes notes the state that was read, and reports whether the file may still be changing, since no event was seen of
// its last change: it is read again when it has settled.
func (f *file) changes(state string, polled bool) bool {
	f.unseen = state != f.state && (polled || f.unseen)
	f.state = state
	return f.unseen
}

// offer makes c the next delivery, unless it was delivered already.
func (f *file) offer(c Change) {
	switch {
	case c.state() == f.delivered:
		f.pending = nil
	case f.pending == nil:
		f.pending = &c
	case f.pending.state() != c.state():
		c.At = f.pending.At // the receiver has been behind since then
		f.pending = &c
	}
}

// again schedules another read of a file that changed during the read, as part of a burst
// that began at first.
func (w *Watcher) again(f *file, first time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.burst.add(w.clock.Now())
	f.burst.first = first
}

// watch brings the watches of a file up to date with where its path leads now. It returns
// false if the path changed all the time.
func (w *Watcher) watch(f *file, n *notifier) (settled bool) {
	for range readAttempts {
		t, err := follow(f.path)
		if err != nil {
			f.notifyErr = err
			return true
		}
		w.mu.Lock()
		f.names = t.names
		w.mu.Unlock()
		f.notifyErr = n.set(f.path, t.watch)
		// Whatever changed before the watches were there is found by walking again.
		t2, err := follow(f.path)
		if err == nil && t.equal(t2) {
			return true
		}
	}
	return false
}

// reportPolling makes the first reason why a path is polled public.
func (w *Watcher) reportPolling() {
	w.mu.Lock()
	var reason error
	for _, p := range w.desired {
		if f := w.files[p]; f != nil && f.notifyErr != nil {
			reason = f.notifyErr
			break
		}
	}
	before := w.polling
	w.polling = reason
	w.mu.Unlock()

	switch {
	case reason != nil && (before == nil || before.Error() != reason.Error()):
		w.logger.Error(reason, "cannot be notified of file changes, polling instead", "period", fallbackPoll)
	case reason == nil && before != nil:
		w.logger.Info("notified of file changes again, polling ended")
	}
}
