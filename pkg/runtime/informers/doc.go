// Package informers owns the caches of the process and gives controllers access to them.
//
// The model, in rules:
//
//  1. Informers owns one client-go informer per kind, form (typed or metadata only) and
//     filter. It runs under the context of Informers.Start, never under that of a caller,
//     and does one LIST (or streaming list) and one WATCH however many controllers use it. The
//     first is a consistent read: it shows all that was stored when it began.
//     One handler of it, its feed, passes its notifications on to the handlers of all scopes.
//  2. A Scope is the view of one instance of a controller. It is a client-go
//     SharedInformerFactory. The scope holds a reference to each informer that is requested
//     through it until Close, and its handlers and their resyncs end with Close. Objects
//     and indexes stay with the informer.
//  3. An informer without references is stopped, and its memory freed, once the grace
//     period is over. A scope opened earlier gets the warm cache and sends no request. A
//     referenced informer is never stopped before Informers.Shutdown.
//  4. Informers start with the Start of a scope that requested them, as in client-go:
//     one requested later needs another Start, unless it runs already. Start on any view
//     of a scope starts all of the scope's informers.
//  5. After Scope.Close returned, no handler of the scope is running and none will run
//     again. A handler must therefore not call Close. It may call everything else,
//     RemoveEventHandler included, which does not wait.
//  6. A panic in a handler ends the notifications of its scope and is reported once to
//     ScopeOptions.OnPanic. Other scopes and the process are not affected. A handler that
//     does not return is shown by Scope.Busy; it delays Close and Shutdown. A panic or an
//     error in an index function leaves the object out of that index.
//  7. Informers do no resync of their own. The scope delivers OnUpdate(obj, obj) to each
//     handler at its period, which can change at any time. What a resync delivers is the
//     newest state in the cache: it can be ahead of notifications still queued for the
//     handler (an update may come before the add of the object), never behind them.
//     The first notification of a handler waits until the whole initial list is queued.
//  8. Indexes are declared by name and live as long as the informer, longer than the
//     instance that declared them. Declaring a name again is not an error and keeps the
//     first function, so index functions are pure, capture no instance, and one name always
//     means one function.
//  9. A scope is ready when every informer requested through it is complete, has passed the
//     barrier of the scope, and has delivered all its objects to the handlers of the scope.
//     An informer without handlers counts like any other.
//  10. Transforms drop what no controller reads before an object is stored. An object that
//     lost more than managedFields is marked (see Shrunk) and must not be written back.
//
// Locks are taken in the order Scope.mu, Informers.mu, locks of client-go. While a handler
// runs, only the lock of that handler is held.
package informers
