package claims

import (
	"cmp"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

const (
	// ManagerLabel marks the leases of this program, with the value true, so that one request
	// finds all of them in a namespace.
	ManagerLabel = "config.kcmd.dev/manager"
	// ControllersAnnotation lists the controllers that are claimed, separated by commas; on a lease that was given back,
	// those that its holder ran.
	ControllersAnnotation = "config.kcmd.dev/controllers"
	// HolderAnnotation is the identity of the process that claims them.
	HolderAnnotation = "config.kcmd.dev/claimed-by"
	// NamespaceAnnotation, on a marked lease in kube-system, names a namespace with leases of
	// this program.
	NamespaceAnnotation = "config.kcmd.dev/leases-in"
)

// Lease names a Lease object.
type Lease struct{ Namespace, Name string }

func (l Lease) String() string { return l.Namespace + "/" + l.Name }

// before orders leases: of two claimants that block each other, the first one keeps its
// claim.
func (l Lease) before(o Lease) bool {
	return cmp.Or(strings.Compare(l.Namespace, o.Namespace), strings.Compare(l.Name, o.Name)) < 0
}

// Labels are what every lease of this program carries while it is held.
func Labels() map[string]string { return map[string]string{ManagerLabel: "true"} }

// Annotations are the claim of a holder.
func Annotations(identity string, controllers []string) map[string]string {
	return map[string]string{
		ControllersAnnotation: strings.Join(slices.Sorted(slices.Values(controllers)), ","),
		HolderAnnotation:      identity,
	}
}

// Left says, on a lease that is given back, which controllers its holder ran.
func Left(ran []string) map[string]string {
	return map[string]string{ControllersAnnotation: strings.Join(slices.Sorted(slices.Values(ran)), ",")}
}

// Listed are the controllers that a lease lists.
func Listed(l *coordinationv1.Lease) []string {
	// Without the annotation there are none: an empty one is not stored.
	return strings.FieldsFunc(l.Annotations[ControllersAnnotation], func(r rune) bool { return r == ',' })
}

// Claim is what a lease records about who may run what.
type Claim struct {
	Lease  Lease
	Holder string
	// All is set if the holder runs everything. Controllers lists what it claims otherwise.
	All         bool
	Controllers []string
}

// isForeign reports whether somebody but self holds the lease.
func (c Claim) isForeign(self string) bool { return c.Holder != "" && c.Holder != self }

func (c Claim) covers(controller string) bool {
	return c.All || slices.Contains(c.Controllers, controller)
}

// claimOf reads the claim of a lease; main is the lease of processes that do not support
// claims.
func claimOf(l *coordinationv1.Lease, main Lease) Claim {
	c := Claim{Lease: leaseOf(l), Holder: ptr.Deref(l.Spec.HolderIdentity, "")}
	switch {
	case l.Annotations[HolderAnnotation] == c.Holder:
		c.Controllers = Listed(l)
	case c.Lease == main:
		c.All = true
	}
	return c
}

func leaseOf(l *coordinationv1.Lease) Lease { return Lease{Namespace: l.Namespace, Name: l.Name} }
