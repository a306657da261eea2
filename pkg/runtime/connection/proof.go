package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
)

// proofTimeout bounds one proof.
const proofTimeout = 3 * time.Second

var errNoAnswer = fmt.Errorf("no response within %v", proofTimeout)

// Proof is a question to the API server that a connection leads to. The answer shows whether
// the connection can be relied on.
type Proof func(context.Context, *Connection) error

// Ask asks, and waits for the answer for a limited time.
func (p Proof) Ask(ctx context.Context, conn *Connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, proofTimeout, errNoAnswer)
	defer cancel()
	err := p(ctx, conn)
	if err != nil && errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return err
}

// ServesAPIs asks what is served, and requires a response that only an API server gives.
func ServesAPIs(ctx context.Context, conn *Connection) error {
	set, err := conn.clients.For(clients.Identity{Name: "controller-discovery", ClientName: "controller-discovery"}, nil)
	if err != nil {
		return err
	}
	answer := set.Discovery.RESTClient().Get().AbsPath("/apis").SetHeader("Accept", "application/json").Do(ctx)
	if err := answer.Error(); err != nil { // not that of Raw, which has no reason
		return fmt.Errorf("requesting API discovery: %w", err)
	}
	body, err := answer.Raw()
	if err != nil {
		return fmt.Errorf("requesting API discovery: %w", err)
	}
	groups := metav1.APIGroupList{}
	if err := json.Unmarshal(body, &groups); err != nil || groups.Kind != "APIGroupList" {
		return errors.New("requesting API discovery: the response is not that of an API server")
	}
	return nil
}

// LeaseUsable reads a lease, and has the API server judge the writes by which the lease is taken and renewed without
// carrying them out. The lease need not exist.
func LeaseUsable(l claims.Lease) Proof {
	return func(ctx context.Context, conn *Connection) error {
		set, err := conn.ElectionClients()
		if err != nil {
			return err
		}
		leases, dryRun := set.Kubernetes.CoordinationV1().Leases(l.Namespace), []string{metav1.DryRunAll}
		lease, err := leases.Get(ctx, l.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
			if _, err := leases.Create(ctx, lease, metav1.CreateOptions{DryRun: dryRun}); !isPermitted(err) {
				return fmt.Errorf("creating the lease %s: %w", l, err)
			}
		case err != nil:
			return fmt.Errorf("reading the lease %s: %w", l, err)
		}
		if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{DryRun: dryRun}); !isPermitted(err) {
			return fmt.Errorf("updating the lease %s: %w", l, err)
		}
		return nil
	}
}

// isPermitted reports whether an answer to a dry run shows that the write is permitted. Somebody else may write the
// lease meanwhile. Admission refuses every dry run, with BadRequest, that a webhook with side effects would see.
func isPermitted(err error) bool {
	return err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// ClaimsReadable sends the requests by which the holder of a lease finds out what other processes run, without which it
// starts nothing, and stores nothing. main is the lease of processes that do not support claims.
func ClaimsReadable(own, main claims.Lease) Proof {
	return func(ctx context.Context, conn *Connection) error {
		set, err := conn.ElectionClients()
		if err != nil {
			return err
		}
		reader := claims.Reader{Leases: set.Kubernetes.CoordinationV1(), Main: main, DryRun: true}
		_, err = reader.Read(ctx, own, "")
		return err
	}
}
