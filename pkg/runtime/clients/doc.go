// Package clients creates the clients that controllers use to reach the API server.
//
//  1. A Set holds the clients of one instance of one controller: typed, metadata, dynamic
//     and discovery. All of them use its identity, and none outlives its fence.
//  2. While a Fence is closed, no write leaves a Set: it fails with ErrFenced without being
//     sent. When a fence closes, writes in flight are cancelled. Reads always pass, and so
//     do access and token reviews, which change nothing.
//  3. A write of an object that the caches have shrunk is refused: it would delete what the
//     caches dropped. Such an object is recognized by its field manager.
//  4. A write into a namespace in which the identity is paused is refused with a
//     controller.PausedError, and not sent. That includes writes of the Namespace itself.
//  5. A deletion by an identity whose deletions are limited is counted first, and refused with a
//     controller.StoppedError and not sent if it is one too many. What the API server did not carry
//     out is not counted. If the outcome is unknown, it stays counted, and Identity.UnclearDeletion is called.
//     Without a limit only the method of a request is examined.
//  6. Each client of a Set has its own token bucket, as upstream. Limits are off at zero
//     and change live; the new limit applies to waiting requests immediately. client-go
//     always honours Retry-After.
//  7. Sets share connections. A process has one transport with its own credentials and, if
//     controllers use service accounts, one without; a Set only wraps them. Creating and
//     dropping a Set opens nothing, sends nothing and leaks nothing. The requests of a burst open
//     one connection after another, and no more than they need.
//  8. Watches of Leases and of pods have connections of their own, which are paced: they are
//     read a few times per second, so that the process wakes up once for many events. Leases are
//     read four times per second, for nearly all of their events are renewals by nodes. Pods are
//     read fifty times per second once more than a few events arrive. Nothing is paced while a
//     connection is new, and while a controller that starts waits for its caches, see ReadAtOnce.
//  9. A service account costs one request, for its token, with the first request that needs
//     it, and one for each renewal, in the background. The account is assumed to exist
//     until the API server reports that it does not; then it is created. A token that is
//     rejected is dropped, and the request is sent once more with another. A request for which
//     there is no token fails with a TokenError and is not sent.
//  10. Credentials of the process are renewed in place. A new token is used from the next
//     request on. Certificates need other connections: requests in flight finish on the old
//     ones, and watches end there like those that the API server ends, so that no cache is
//     filled again. When nothing is in flight on them, the old connections are closed.
//  11. When a term ends because the API server did not respond, connections of service
//     accounts are closed, see CutAccounts: unsent data on them is discarded. When it has
//     answered nothing for a while, all are, see CutAll.
//  12. Writes under a fence are reported to Options.Recorder with the resource version that
//     they returned, read from the beginning of the response while the client reads it. A write
//     without a response, or with one that leaves open whether it was carried out, is reported as lost.
//  13. A Set with an Observer tells it of each write and its outcome, also of those that are
//     refused here: names, codes and messages, never what was written. Of a body, only the
//     metadata is read.
//  14. The user agent starts with kube-controller-manager/ whatever the binary is called:
//     the API server takes the owner of fields from it.
//  15. A writer that needs no more of an answer than its metadata says so, see controller.OnlyMetadata. The rest is
//     then neither sent nor decoded.
//  16. The error of a request never contains the answer to another one, so that apierrors.IsNotFound and the like
//     are only true of what the API server has answered to the request itself.
//  17. Nothing is sent to another server than the API server, whatever it redirects to.
package clients
