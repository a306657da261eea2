// Package faultproxy is a proxy in front of the API server of a test control plane that
// understands requests and watches, and injects the faults that occur in real clusters.
//
//  1. Without faults it is visible only by its own address in the audit log
//     (Proxy.SourceIP). Clients speak HTTP/2 or HTTP/1.1 and trust it like the API server,
//     which sees the same user and groups: a client certificate is replaced by one of the
//     same names, a bearer token is passed on.
//  2. A method that creates a fault returns when the fault is in force: it affects what
//     arrives later, never what has arrived. Fault.Lift ends it and releases what waits for
//     it. Fault.Hits reports that it had an effect.
//  3. Any number of faults may be in force. A request waits for all faults that delay it,
//     including those that were added meanwhile; then the oldest fault that refuses it
//     applies, then the oldest that answers from the past; then it is passed on.
//  4. Requests selects the requests that a fault affects. It is matched when the request
//     has arrived with its body; a request whose client is gone is not passed on.
//  5. A watch is an answer of events. They are read from the API server at once and wait
//     here, so it never ends a watch because events are held. The faults on an event are
//     those in force when it arrives, also if the watch is older. The order within a watch
//     never changes: what waits holds back what follows, bookmarks and the end included.
//     An event is handed on byte by byte as it came, and decoded only for a fault that
//     selects by its content.
//  6. A streaming list is a watch, and its initial events are events. So a fault on events
//     also affects informers that are starting.
//  7. The past (AnswerFromPast) is a resource version, and answers from it are the API
//     server's own: exact, paged, with selectors. It must not be compacted meanwhile, which
//     happens five minutes later at the earliest.
//  8. Where an answer is lost or breaks off, the client sees the stream reset (HTTP/2) or
//     the connection closed (HTTP/1.1). When the API server cannot be reached, and by Cut,
//     the connection is closed. With Pause connections stay open.
//
// Faults add up: to make watches end because their version has expired, Refuse them with
// the ErrStatus of apierrors.NewResourceExpired and Cut.
package faultproxy
