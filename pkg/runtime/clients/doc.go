// Package clients makes the clients that controllers use to reach the API server.
//
//  1. A Set holds the clients of one instance of one controller: typed, metadata, dynamic
//     and discovery. All of them act under its identity, and none outlives its fence.
//  2. While a Fence is down, no write leaves a Set: it fails with ErrFenced without being
//     sent. When a fence comes down, writes on their way are cancelled. Reads pass always,
//     and so do access and token reviews, which change nothing.
//  3. A write of an object that the caches have shrunk is refused: it would delete what the
//     caches dropped. Such an object is known by its field manager.
//  4. Each client of a Set has its own token bucket, as upstream. Limits are off at zero and
//     change live; waiting requests are measured by the new limit at once. Retry-After is
//     obeyed by client-go in any case.
//  5. Sets share connections. A process has one transport with its own credentials and,
//     if controllers act as service accounts, one without; a Set only wraps them. Making
//     and dropping a Set opens nothing, sends nothing and leaks nothing.
//  6. A service account costs one request, for its token, with the first request that needs
//     it, and one for each renewal, which is made in the background. That the account exists
//     is taken for granted until the API server says otherwise; then it is made. A token that
//     is refused is dropped, and the request sent once more with another.
//  7. Credentials of the process are renewed in place. A token is just used. Certificates
//     need other connections: what is under way is finished on the old ones, and watches
//     end there like those that the API server ends, so that no cache is filled again.
//     Once nothing is under way on them, the old connections are closed.
//  8. When a term ends for want of an answer of the API server, connections of service
//     accounts are broken, see CutAccounts: what is still to be sent on them is discarded.
//  9. Writes under a fence are reported to Options.Recorder with the resource version that
//     they were answered with, read from the beginning of the answer while the client reads
//     it. What was not answered is reported as lost.
//  10. The user agent starts with kube-controller-manager/ whatever the binary is called:
//     the API server takes the owner of fields from it.
package clients
