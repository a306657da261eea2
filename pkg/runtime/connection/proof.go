package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/api/coordination/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
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
// carrying them out. The lease need not exist. With coordinated leader election the API server creates it, for a
// candidate that is to be created; nil is for none.
func LeaseUsable(l claims.Lease, candidate *v1beta1.LeaseCandidate) Proof {
	return func(ctx context.Context, conn *Connection) error {
		set, err := conn.ElectionClients()
		if err != nil {
			return err
		}
		leases := set.Kubernetes.CoordinationV1().Leases(l.Namespace)
		lease, err := leases.Get(ctx, l.Name, metav1.GetOptions{})
		absent := controller.Absent(err)
		if err != nil && !absent {
			return fmt.Errorf("reading the lease %s: %w", l, err)
		}
		create := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		switch {
		case candidate != nil:
			_, err := set.Kubernetes.CoordinationV1beta1().LeaseCandidates(l.Namespace).Create(ctx, candidate, create)
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating the lease candidate %s/%s: %w", l.Namespace, candidate.Name, err)
			}
			if absent {
				return nil
			}
		case absent:
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
			if _, err := leases.Create(ctx, lease, create); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("creating the lease %s: %w", l, err)
			}
		}
		// Whether it is permitted is judged first: others may write or delete the lease meanwhile.
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{DryRun: create.DryRun})
		if err != nil && !apierrors.IsConflict(err) && !controller.Absent(err) {
			return fmt.Errorf("updating the lease %s: %w", l, err)
		}
		return nil
	}
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
