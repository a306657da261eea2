package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Values of LeaderElection.Standby and LeaderElection.Spread.
const (
	StandbyWarm    = "Warm"
	StandbyCold    = "Cold"
	SpreadBalanced = "Balanced"
	SpreadSticky   = "Sticky"
)

// AnyComponent is the ControllerLeader.Component of a controller that any component
// may run.
const AnyComponent = "*"

// LeaderElection configures the lease that decides which process runs the controllers, or
// several leases, which let several processes share the work. The three durations must
// satisfy leaseDuration > renewDeadline > 1.2 × retryPeriod, and the whole seconds of
// leaseDuration, which are what the lease records, must be more than 1.2 × retryPeriod too.
type LeaderElection struct {
	// Whether the controllers run only while the lease is held. Default: true. Without it,
	// two processes in one cluster would work against each other. A change starts a new
	// term, which restarts every controller.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// How long others wait, after the last renewal they saw, before they take the lease.
	// Default: 15s. Range: 1s to 1h; other processes see whole seconds, which must be more
	// than 1.2 × retryPeriod. A change applies in place, with the next renewal.
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	// How long the holder tries to renew the lease before it stops its controllers.
	// Default: 10s. Range: more than 1.2 × retryPeriod, less than leaseDuration. A change
	// applies in place.
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	// Time between two attempts to acquire or renew the lease. Default: 2s. Range: 10ms or
	// more, less than renewDeadline / 1.2. A change applies in place.
	RetryPeriod *metav1.Duration `json:"retryPeriod,omitempty"`
	// Name of the Lease object. Default: kube-controller-manager. A DNS-1123
	// subdomain. A change starts a new term, which restarts every controller. Without
	// leader election, it only names what events about the process are about.
	ResourceName string `json:"resourceName,omitempty"`
	// Namespace of the Lease object. Default: kube-system. A DNS-1123 label.
	// A change starts a new term, which restarts every controller. Without leader
	// election, it is only where events about the process are written.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
	// Name of this process in its leases. A random suffix that is new at each start is
	// always added (name_uuid), so that processes may share a file. Default: empty, which
	// means the host name. At most 253 characters; with the feature gate
	// CoordinatedLeaderElection at most 216 letters, digits, '-', '_' and '.'. A change
	// starts a new term, which restarts every controller.
	Identity string `json:"identity,omitempty"`
	// How a standby prepares for a takeover. Warm: it fills its caches before it holds the
	// lease. Cold: it caches nothing. Default: Warm. Allowed: Warm, Cold. A change applies
	// in place.
	Standby string `json:"standby,omitempty"`
	// How lease groups are spread over the replicas. Balanced: replicas hand groups over
	// until none holds two leases more than another. Sticky: the holder of a group keeps
	// it. Default: Balanced. Allowed: Balanced, Sticky. A change applies in place.
	Spread string `json:"spread,omitempty"`
	// Groups of controllers with a lease of their own. Default: empty, which means
	// one lease for everything. A change restarts the controllers whose lease
	// changes.
	Groups []LeaseGroup `json:"groups,omitempty"`
}

// LeaseGroup is a group of controllers that run in the process that holds the lease of the
// group. Other processes may hold the other leases.
type LeaseGroup struct {
	// Name of the group: a DNS-1123 label other than main and migration, and
	// different from those of the other groups. Required.
	Name string `json:"name"`
	// Name of the Lease object, in leaderElection.resourceNamespace. Default:
	// leaderElection.resourceName, a hyphen, and the name of the group. All leases of one
	// process must have different names.
	ResourceName string `json:"resourceName,omitempty"`
	// Canonical names of the controllers in the group, at least one. A controller may be in
	// one group at most, and not in leaderMigration.controllerLeaders.
	Controllers []string `json:"controllers"`
}

// LeaderMigration moves controllers from one component to another, such as from
// kube-controller-manager to a cloud controller manager, while both run in several
// replicas. The controllers to be moved run under a lease that both components compete for;
// the file of each component says which controllers it runs.
type LeaderMigration struct {
	// Whether the controllers of controllerLeaders run under the migration lease.
	// Default: false. Needs leaderElection.leaderElect. A change restarts the
	// controllers whose lease changes, and starts or stops those of another component.
	Enabled *bool `json:"enabled,omitempty"`
	// Name of the migration lease, in leaderElection.resourceNamespace.
	// Default: cloud-provider-extraction-migration. A DNS-1123 subdomain. A change
	// restarts the controllers that run under it.
	LeaderName string `json:"leaderName,omitempty"`
	// Name of this process in controllerLeaders. Default: kube-controller-manager. A change
	// restarts the controllers whose lease changes, and starts or stops those whose
	// component changes.
	Component string `json:"component,omitempty"`
	// The controllers to be moved, and the component that runs each of them.
	// Default: node-route-controller, service-lb-controller and
	// cloud-node-lifecycle-controller, each in any component. A change starts,
	// stops or restarts the controllers whose entry changes.
	ControllerLeaders []ControllerLeader `json:"controllerLeaders,omitzero"`
}

// ControllerLeader says which component runs a controller under the migration lease.
type ControllerLeader struct {
	// Canonical name of the controller; not serviceaccount-token-controller.
	// Required.
	Name string `json:"name"`
	// Name of the component, or * for any. Required.
	Component string `json:"component"`
}
