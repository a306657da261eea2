package runtime

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
)

// What a running process is going to depend on is proved before anything is given up for it.
// The rules:
//
//  1. A new connection is proved by one discovery request, a new lock by one read of its
//     lease and dry runs of the writes to it, and by the requests without which nothing starts
//     under it: those that find out what other processes run, once for the locks of a namespace
//     (connection.Proof). Renewed credentials for the connection in force are proved as a
//     connection is, but count as proved if the API server does not respond: it does not
//     respond to the old ones either.
//  2. Each of these takes a limited time. No other change waits for the API server.
//  3. What could not be proved may become usable later: see retry.
//  4. A process that starts gives nothing up, so it proves nothing and waits for as long as
//     it takes.

// unproved is a problem of a configuration that may disappear without another edit.
type unproved struct {
	problem problem.Error
	cause   error
	again   func(context.Context) error // repeats the proof
}

// Error implements error.
func (u *unproved) Error() string { return u.problem.Error() }

// proveConnection proves the connection of the next basis.
func (t *transaction) proveConnection(ctx context.Context, conn *connection.Connection) error {
	return t.prove(ctx, conn, connectionField(t.next.document.Config.ClientConnection), connection.ServesAPIs)
}

// proveRenewed proves other credentials for the connection in force. They are those that are going to be used: the
// files may have others by now.
func (r *Runtime) proveRenewed(ctx context.Context, next *clients.Access) error {
	t := r.begin(supervisor.CauseClients)
	settings := t.next.document.Config.ClientConnection
	conn, err := connection.With(ctx, r.connection.Generation(), next, settings, r.cachesWhole, r.options.Clock)
	if err != nil {
		return err
	}
	defer conn.Retire()
	if err := t.proveConnection(ctx, conn); rejectsCredentials(err) {
		return err
	}
	return nil
}

// rejectsCredentials reports whether an API server has rejected these credentials, or does not belong to
// the CA certificates.
func rejectsCredentials(err error) bool {
	var u *unproved
	if !errors.As(err, &u) {
		return false
	}
	var untrusted *tls.CertificateVerificationError
	return apierrors.IsUnauthorized(u.cause) || errors.As(u.cause, &untrusted)
}

// proveLeases proves those of prepared locks that are new.
func (t *transaction) proveLeases(ctx context.Context, locks []*leadership.Lock) error {
	conn, asked := t.next.connection, false
	for _, k := range t.process.leadership.NewLeases(locks) {
		field := t.leaseField(k.Name)
		if conn != t.was.connection {
			field = connectionField(t.next.document.Config.ClientConnection)
		}
		if err := t.prove(ctx, conn, field, connection.LeaseUsable(k.Lease(), k.Candidate())); err != nil {
			return err
		}
		if asked { // all leases of a configuration are in one namespace
			continue
		}
		asked = true
		if conn == t.was.connection && k.Lease().Namespace != t.was.document.Config.LeaderElection.ResourceNamespace {
			field = "leaderElection.resourceNamespace"
		}
		if err := t.prove(ctx, conn, field, connection.ClaimsReadable(k.Lease(), k.Main())); err != nil {
			return err
		}
	}
	return nil
}

// prove asks a question, and attributes a failure to a field.
func (t *transaction) prove(ctx context.Context, conn *connection.Connection, field string, question connection.Proof) error {
	err := question.Ask(ctx, conn)
	if err == nil {
		return nil
	}
	u := &unproved{cause: err, problem: t.problemOf(field,
		fmt.Errorf("the API server %s cannot be relied on: %w; this is retried until it succeeds", conn.Server(), err))}
	if conn != t.was.connection {
		u.again = t.proofAnew(conn.Generation(), question)
	} else {
		u.again = func(ctx context.Context) error { return question.Ask(ctx, t.process.connectionInForce()) }
	}
	return u
}

// proofAnew asks a question over a new connection.
func (t *transaction) proofAnew(generation uint64, question connection.Proof) func(context.Context) error {
	c, clock := t.next.document.Config, t.process.options.Clock
	return func(ctx context.Context) error {
		conn, err := connection.New(ctx, generation, c.ClientConnection, t.process.cachesWhole, clock)
		if err != nil {
			return err
		}
		defer conn.Retire()
		return question.Ask(ctx, conn)
	}
}

func (r *Runtime) connectionInForce() *connection.Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connection
}

// connectionField returns the field that locates the API server.
func connectionField(c v1beta1.ClientConnection) string {
	switch {
	case c.Server != "":
		return "clientConnection.server"
	case c.Kubeconfig != "":
		return "clientConnection.kubeconfig"
	}
	return "clientConnection"
}

// leaseField returns the field to blame for the lease of a new lock: the only one whose change makes it another lock,
// such as a feature gate, or else the one that names the lease.
func (t *transaction) leaseField(lock string) string {
	for _, l := range plan.New(t.was.document.Config, t.next.document.Config, nil).Leases {
		if l.Lock == lock && len(l.Causes) == 1 {
			return l.Causes[0].Path
		}
	}
	return lockField(lock)
}

// lockField returns the field that names the lease of a lock.
func lockField(lock string) string {
	switch {
	case lock == locks.Migration:
		return "leaderMigration.leaderName"
	case strings.HasPrefix(lock, locks.Group("")):
		return "leaderElection.groups"
	}
	return "leaderElection.resourceName"
}
