// Package breaker stops mass deletions by controllers, and asks before they go on.
//
//  1. Deletions are counted by kind, those of all controllers whose descriptor says that they delete
//     in bulk together, when they are about to be sent. What the API server refused is taken off again.
//     A deletion of everything in a namespace counts as many objects as the caches show there. An
//     object that is being deleted already does not count, and may always be deleted. If nobody knows
//     whether a deletion was carried out, it stays counted, and counts once however often it is repeated
//     within the window.
//  2. Within a window a share of the objects of a kind may be deleted, and in any case a minimum. How
//     many objects there are is read from the caches when the minimum is exceeded, and once per window
//     at most: those that are not being deleted, and those counted. It is read again, at most twenty
//     times per window, before a deletion is one too many, since there may be more by then.
//  3. What no cache holds as a whole is not counted. While a cache is being filled, and if it is closed
//     before its objects are counted, deletions of its kind are refused, and tried again.
//  4. A deletion beyond that is refused and stops its kind: none of its objects is deleted until the
//     configuration allows it, by a time until which nothing is counted, or by other settings under
//     which the deletion would not have been too many. What had to wait then goes on, and the counting
//     starts over. In the mode Warn nothing is refused, and a kind is reported once per window.
//  5. All of this is in memory. A process that starts counts from zero: it can delete the share once
//     more before it asks. So can one that moves to another API server, or notices that etcd was restored;
//     what is stopped stays so. It does not know what another process has stopped. The allowance is in the
//     file, so that it holds for all processes, and it ends by itself.
//  6. While the mode is Disabled, or there is an allowance, nothing is kept or counted.
package breaker
