package reconcile

import "time"

// RecheckAfter is the delay before a key is reconciled again that waits for something of which there may be no event:
//
//   - The cache does not show yet what a live read or the answer to a write has shown. If that is deleted
//     before the cache has shown it, which a list after a break of the watch makes possible, there is no event.
//   - A write was refused with a conflict, or with NotFound. As a rule the cache is behind, and an event follows.
//     An admission webhook may give the same answer, and then no event follows.
const RecheckAfter = 10 * time.Second

// RetryDroppedAfter is when a key is reconciled again that was dropped after MaxRetries. What made it fail, such as an
// admission webhook that was down, ends without an event, and the next one, or a resync, may be many hours away.
const RetryDroppedAfter = 10 * time.Minute

// LongestWait is how long a key waits at most for a time that may be far ahead; then the rest is waited for. A key that
// waits cannot be taken back when its object is gone: with times that are a month ahead, and objects that live for a
// minute, those that wait in vain would come to millions.
const LongestWait = time.Hour
