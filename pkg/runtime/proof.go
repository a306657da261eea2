package runtime

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/supervisor"
)

// What a running process is going to depend on has to be proved before anything is given up
// for it. The rules:
//
//  1. A new connection is proved by one discovery request, a new lock by one read of its
//     lease. That the lease does not exist yet is fine; that it may not be read is not.
//     Renewed credentials for the connection in force are proved as a connection is, but
//     count as proved if there is no answer: with those of before there is none either.
//  2. Each of these takes proofTimeout at most. No other change waits for the API server.
//  3. What could not be proved may be good later: see retry.
//  4. A process that starts gives nothing up. It proves nothing, and waits for as long as it
//     takes.

// proofTimeout bounds one proof.
const proofTimeout = 3 * time.Second

var errNoAnswer = fmt.Errorf("no answer within %v", proofTimeout)

// proof is a question to the API server that a connection leads to.
type proof func(context.Context, *connection) error

// unproved is a problem of a configuration that may go away without another edit.
type unproved struct {
	problem config.Error
	cause   error
	again   func(context.Context) error // makes the same proof once more
}

// Error implements error.
func (u *unproved) Error() string { return u.problem.Error() }

// proveConnection proves the connection of the next basis.
func (t *transaction) proveConnection(ctx context.Context, conn *connection) error {
	return t.prove(ctx, conn, connectionField(t.next.document.Config.ClientConnection), servesAPIs)
}

// proveRenewed proves the credentials that are in the files now, which are for the connection
// in force.
func (r *Runtime) proveRenewed(ctx context.Context) error {
	t := r.begin(supervisor.CauseClients)
	c := t.next.document.Config
	generation := t.connection.generation
	conn, err := connect(ctx, generation, c.ClientConnection, t.cachesWhole, t.options.Clock)
	if err != nil {
		return err
	}
	defer conn.retire()
	if err := t.proveConnection(ctx, conn); refused(err) {
		return err
	}
	return nil
}

// refused reports that an API server has answered and does not know these credentials, or is
// not the one that the CA certificates are of.
func refused(err error) bool {
	var u *unproved
	if !errors.As(err, &u) {
		return false
	}
	var untrusted *tls.CertificateVerificationError
	return apierrors.IsUnauthorized(u.cause) || errors.As(u.cause, &untrusted)
}

// proveLeases proves those of prepared locks that are new.
func (t *transaction) proveLeases(ctx context.Context, locks []*lock) error {
	conn := t.next.connection
	for _, k := range locks {
		if k.elector == nil || slices.Contains(t.leadership.locks, k) {
			continue
		}
		field := lockField(k.Name)
		if conn != t.connection {
			field = connectionField(t.next.document.Config.ClientConnection)
		}
		if err := t.prove(ctx, conn, field, leaseReadable(k.key.lease)); err != nil {
			return err
		}
	}
	return nil
}

// prove asks a question, and says which field is to blame for the answer.
func (t *transaction) prove(ctx context.Context, conn *connection, field string, question proof) error {
	err := question.ask(ctx, conn)
	if err == nil {
		return nil
	}
	d := t.next.document
	u := &unproved{cause: err, problem: config.Error{
		File: d.Name, Position: d.Position(field), Path: field, Severity: config.SeverityError,
		Message: fmt.Sprintf("the API server %s cannot be relied on: %v; this is tried again until it can", conn.server(), err),
	}}
	if conn != t.connection {
		u.again = t.proofAnew(conn.generation, question)
	} else {
		u.again = func(ctx context.Context) error { return question.ask(ctx, t.connectionInForce()) }
	}
	return u
}

// proofAnew asks a question over a connection that is made for it.
func (t *transaction) proofAnew(generation uint64, question proof) func(context.Context) error {
	c, clock := t.next.document.Config, t.options.Clock
	return func(ctx context.Context) error {
		conn, err := connect(ctx, generation, c.ClientConnection, t.cachesWhole, clock)
		if err != nil {
			return err
		}
		defer conn.retire()
		return question.ask(ctx, conn)
	}
}

func (r *Runtime) connectionInForce() *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connection
}

// ask asks, and waits for the answer for a limited time.
func (p proof) ask(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proofTimeout, errNoAnswer)
	defer cancel()
	err := p(ctx, conn)
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

// servesAPIs asks what is served, and wants an answer that only an API server gives.
func servesAPIs(ctx context.Context, conn *connection) error {
	set, err := conn.clients.For(clients.Identity{Name: "controller-discovery", ClientName: "controller-discovery"}, nil)
	if err != nil {
		return err
	}
	answer := set.Discovery.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", "application/json").Do(ctx)
	if err := answer.Error(); err != nil { // not that of Raw, which has no reason
		return fmt.Errorf("asking what it serves: %w", err)
	}
	body, err := answer.Raw()
	if err != nil {
		return fmt.Errorf("asking what it serves: %w", err)
	}
	groups := metav1.APIGroupList{}
	if err := json.Unmarshal(body, &groups); err != nil || groups.Kind != "APIGroupList" {
		return errors.New("asking what it serves: the answer is not that of an API server")
	}
	return nil
}

// leaseReadable reads a lease.
func leaseReadable(l claims.Lease) proof {
	return func(ctx context.Context, conn *connection) error {
		set, err := conn.clients.For(clients.Identity{Name: "leader-election", ClientName: "leader-election"}, nil)
		if err != nil {
			return err
		}
		_, err = set.Kubernetes.CoordinationV1().Leases(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the lease %s: %w", l, err)
	}
}

// connectionField is the field that says where the API server is.
func connectionField(c v1beta1.ClientConnection) string {
	switch {
	case c.Server != "":
		return "clientConnection.server"
	case c.Kubeconfig != "":
		return "clientConnection.kubeconfig"
	}
	return "clientConnection"
}

// lockField is the field that says which lease a lock has.
func lockField(lock string) string {
	switch {
	case lock == config.MigrationLock:
		return "leaderMigration.leaderName"
	case strings.HasPrefix(lock, config.GroupLock("")):
		return "leaderElection.groups"
	}
	return "leaderElection.resourceName"
}
