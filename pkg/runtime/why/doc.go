// Package why explains what controllers did with an object lately, and what they wait for.
//
//  1. It reads what the process holds in memory: the journal of writes, the queues, the states of
//     controllers, the leases, the caches. It sends no request.
//  2. An answer concerns the family of an object: the object and its dependents. Who depends on whom
//     is in the caches, and in the journal for what is no longer there. The family of a namespace is
//     everything in it.
//  3. A key is of the family if it is the name of a member, and its controller reads the kind of that
//     member.
//  4. A controller is shown if it reads the kind of a member other than pods, which most do, holds a
//     key of the family or made a write of it.
//  5. What is said to be absent is absent: a cache holds all objects of the kind and follows them, and the API server is
//     reached.
package why
