// Package clients makes the clients that controllers use to reach the API server.
//
//  1. A Set holds the clients of one instance of one controller: typed, metadata, dynamic
//     and discovery. All of them act under its identity, and none outlives its fence.
//  2. While a Fence is down, no write leaves a Set: it fails with ErrFenced without being
//     sent. When a fence comes down, writes on their way are cancelled. Reads pass always,
//     and so do access and token reviews, which change nothing.
//  3. A write whose body carries the mark of an object that the caches have shrunk is
//     refused: it would delete what the caches dropped.
//  4. Each client of a Set has its own token bucket, as upstream. Limits are off at zero and
//     change live; waiting requests are measured by the new limit at once. Retry-After is
//     obeyed by client-go in any case.
//  5. Sets share connections. A process has one transport with its own credentials and,
//     if controllers act as service accounts, one without; a Set only wraps them. Making
//     and dropping a Set opens nothing and leaks nothing.
//  6. The user agent starts with kube-controller-manager/ whatever the binary is called:
//     the API server takes the owner of fields from it.
package clients
