// Package connection is how the process reaches one API server as one user: its clients,
// caches, discovery, event pipelines, and the ledger of what it has written there.
//
// The rules:
//
//  1. A [Connection] outlives controllers. What is made on it counts as a user, and once it is
//     retired it closes when its last user has released it. So one connection can replace
//     another while instances still drain on the old one.
//  2. It sends no request before it begins. Until then it can be proved, and dropped if the
//     proof fails.
//  3. Renewed credentials for the same user of the same API server are used within the
//     connection: no controller restarts, and caches are not filled again. Another server or
//     another user is another connection. So is the same API server after a restore of etcd:
//     what was read from it, and written to it, is of another history.
//  4. Closing is bounded. What does not end in time is reported and abandoned: it cannot
//     write.
//
// A Connection can be used by several goroutines.
package connection
