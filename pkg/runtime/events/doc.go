// Package events delivers the events that controllers and the process itself record.
//
// The rules:
//
//  1. Each source of events has a pipeline, which outlives the instances that record through
//     it. The events of an instance that has stopped are still delivered, and repeated events
//     of a controller that was restarted are still counted as repeated.
//  2. An event that may not be sent, because the term of its controller is over, is dropped
//     and does not delay what is recorded after it.
//  3. Before a lease is given back, and before a connection is closed, what was recorded so
//     far is flushed, for a bounded time.
//  4. What repeats an event is counted in the stored one. Of the updates of one event within two seconds,
//     only the last is sent.
//  5. An instance that was built and does not run records nothing: its [Recorder] is
//     connected when it runs.
package events
