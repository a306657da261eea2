package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
)

const (
	// GroupName is the API group of the configuration file.
	GroupName = "config.kcmd.dev"
	// APIVersion is the value of apiVersion in a file of this version.
	APIVersion = GroupName + "/v1beta1"
	// Kind is the value of kind.
	Kind = "KubeControllerManagerConfiguration"
)

// KubeControllerManagerConfiguration configures the whole behaviour of one
// kube-controller-manager process. Editing the file changes the running process.
type KubeControllerManagerConfiguration struct {
	// apiVersion is config.kcmd.dev/v1beta1, kind is KubeControllerManagerConfiguration.
	metav1.TypeMeta `json:",inline"`

	// How the process reaches the API server, and with which identity.
	ClientConnection ClientConnection `json:"clientConnection"`
	// The leases that decide which of several processes runs the controllers.
	LeaderElection LeaderElection `json:"leaderElection"`
	// Moves controllers from one component to another without a time in which none or both
	// of them run them.
	LeaderMigration LeaderMigration `json:"leaderMigration"`
	// How often controllers reconcile every object again although nothing changed.
	Resync Resync `json:"resync"`
	// How an edit of this file is noticed and applied.
	Reload Reload `json:"reload"`
	// The HTTPS endpoint: health, metrics, status.
	Serving Serving `json:"serving"`
	// Which metrics are exposed, and with which labels.
	Metrics Metrics `json:"metrics"`
	// What is logged and how. The published type of k8s.io/component-base. Changes apply in
	// place: verbosity, vmodule and flushFrequency immediately, format and options by
	// replacing the log output.
	Logging logsapi.LoggingConfiguration `json:"logging"`
	// Kubernetes version whose feature gates are in force: the gates which that version
	// had, with their stages and defaults. Default: 1.36. Allowed: 1.33, 1.34, 1.35, 1.36.
	// A change restarts the controllers for which a gate changes and, with the gate
	// CoordinatedLeaderElection, every controller under the main lease.
	EmulatedVersion string `json:"emulatedVersion,omitempty"`
	// Oldest Kubernetes version that the other components of the cluster may have. Default:
	// empty, the version before emulatedVersion, but not before 1.33. Allowed: 1.33 to
	// emulatedVersion. No gate of 1.36 depends on it; it is only checked, and shown with
	// the configuration. A change applies in place.
	MinCompatibilityVersion string `json:"minCompatibilityVersion,omitempty"`
	// Feature gates by name. Default: empty, every gate at its own default. AllAlpha and
	// AllBeta stand for all gates of a stage that are not named. It is an error to name an
	// unknown gate, to change a locked gate, or to enable a gate that needs another one
	// which is disabled. A change restarts the controllers that read the gate, and one of
	// CoordinatedLeaderElection every controller under the main lease.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// The files that service account credentials are made from.
	ServiceAccounts ServiceAccounts `json:"serviceAccounts"`
	// The address ranges of the cluster.
	Networking Networking `json:"networking"`
	// Settings that volume controllers share.
	Volumes Volumes `json:"volumes"`
	// The cloud provider of the controllers of load balancers, routes and cloud nodes.
	Cloud Cloud `json:"cloud"`
	// How long each controller waits before it starts when the process starts, a lease is won
	// or an API appears, so that they do not all start at the same time; each waits a random
	// time between this and twice this. An edit waits for nothing. Default: 0s, no
	// wait. Range: 0s to 10m. A change applies in place, to the next start.
	ControllerStartInterval *metav1.Duration `json:"controllerStartInterval,omitempty"`
	// Namespaces in which no controller writes anything, for maintenance or a restore: each
	// is paused as if it were in pausedNamespaces of every controller. What controllers do to
	// objects without a namespace goes on. Default: empty. A change applies in place; what
	// has piled up in a namespace that is no longer paused is worked off at once.
	PausedNamespaces []string `json:"pausedNamespaces,omitempty"`
	// Limits how much controllers may delete at once, and asks before they delete more.
	DeletionBreaker DeletionBreaker `json:"deletionBreaker"`
	// Settings that controllers inherit if their own block does not set them.
	ControllerDefaults ControllerDefaults `json:"controllerDefaults"`
	// One block per controller, keyed by the controller's canonical name.
	Controllers Controllers `json:"controllers"`
}

// ClientConnection configures how the process reaches the API server.
type ClientConnection struct {
	// Path of the kubeconfig file; a relative path is relative to the working
	// directory of the process. Default: empty, which means the in-cluster
	// credentials of the pod. A change rebuilds the clients and restarts every
	// controller.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// URL of the API server, instead of the one in the kubeconfig. Default: empty,
	// the one in the kubeconfig. A change rebuilds the clients and restarts every
	// controller.
	Server string `json:"server,omitempty"`
	// Value of the Accept header of requests. Default: empty, which means
	// contentType followed by application/json. A change rebuilds the clients
	// and restarts every controller.
	AcceptContentTypes string `json:"acceptContentTypes,omitempty"`
	// Media type of request bodies for built-in kinds.
	// Default: application/vnd.kubernetes.protobuf. Allowed:
	// application/vnd.kubernetes.protobuf, application/json. A change rebuilds
	// the clients and restarts every controller.
	ContentType string `json:"contentType,omitempty"`
	// Requests per second that each client may send on average. Default: 0, no client-side
	// limit: API Priority and Fairness in the API server applies. Range: 0 to 1000000. A
	// change applies in place.
	QPS *float32 `json:"qps,omitempty"`
	// Requests that a client may send in a burst before qps limits it. Default: 0, which
	// means twice qps, rounded up. Range: 0 to 1000000; needs qps. A change applies in
	// place.
	Burst *int32 `json:"burst,omitempty"`
	// Whether each controller uses its own service account in kube-system instead of the
	// identity in the kubeconfig. Default: false. A change rebuilds the clients and
	// restarts every controller.
	UseServiceAccountCredentials *bool `json:"useServiceAccountCredentials,omitempty"`
}

// Resync configures the periodic reconciliation of objects that have not changed.
type Resync struct {
	// Period after which a controller without its own resyncPeriod reconciles every object
	// again; each controller uses a random period between this and twice this. Default:
	// 12h. Range: 0s (never), or 1s or more. A change applies in place.
	MinPeriod *metav1.Duration `json:"minPeriod,omitempty"`
}

// Reload configures how an edit of the file is noticed and applied.
type Reload struct {
	// How long the file must be unchanged before it is read, so that a burst of
	// writes is one reload. Default: 100ms. Range: 0s to 10s. A change applies
	// in place, to the next reload.
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`
	// Period after which the file is checked for changes in any case, for file systems that
	// send no notifications. Default: 10s. Range: 1s to 1h. A change applies in place.
	PollInterval *metav1.Duration `json:"pollInterval,omitempty"`
	// How long a controller may take to finish the work in flight when it stops. Default:
	// 10s. Range: 0s (do not wait) to 10m. A change applies in place, to the next stop.
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
}

// ServiceAccounts names the files that service account credentials are made from. Every
// controller that needs one reads it here.
type ServiceAccounts struct {
	// PEM file with the RSA or ECDSA private key that signs service account
	// tokens. Default: empty, which leaves serviceaccount-token-controller idle.
	// A change restarts serviceaccount-token-controller.
	PrivateKeyFile string `json:"privateKeyFile,omitempty"`
	// PEM file with the CA certificates of the API server, published to pods.
	// Default: empty, which means the CA in the kubeconfig or in the file it names
	// and, without a kubeconfig, that of the pod. A change
	// restarts serviceaccount-token-controller,
	// root-ca-certificate-publisher-controller and
	// kube-apiserver-serving-clustertrustbundle-publisher-controller.
	RootCAFile string `json:"rootCAFile,omitempty"`
}

// Networking names the address ranges of the cluster. Every controller that needs
// one reads it here.
type Networking struct {
	// Pod address ranges in CIDR notation: one, or one of each IP family, the primary one
	// first. Default: empty. Needed by node-ipam-controller and node-route-controller.
	// Should not overlap with serviceCIDRs. A change restarts those controllers; nodes keep
	// the ranges that they have.
	ClusterCIDRs []string `json:"clusterCIDRs,omitempty"`
	// Service address ranges in CIDR notation: one, or one of each IP family. Default:
	// empty. node-ipam-controller does not give them to nodes. A change restarts it.
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// Volumes holds the settings that volume controllers share.
type Volumes struct {
	// Directory of the FlexVolume drivers. Default:
	// /usr/libexec/kubernetes/kubelet-plugins/volume/exec/. A change restarts
	// persistentvolume-attach-detach-controller.
	FlexVolumePluginDirectory string `json:"flexVolumePluginDirectory,omitempty"`
}

// Cloud names the cloud provider that service-lb-controller, node-route-controller,
// cloud-node-controller and cloud-node-lifecycle-controller work with. A provider is a Go
// package that is linked into the program.
type Cloud struct {
	// Name of the cloud provider. Default: empty, which leaves these controllers idle, as
	// external does: they run in a cloud controller manager. Otherwise the name under which a
	// provider that is linked into this build is registered. A change restarts these
	// controllers.
	Provider string `json:"provider,omitempty"`
	// Configuration file of the provider, in a format of its own. Default: empty, no file. A
	// change of the name or the content restarts these controllers.
	ConfigFile string `json:"configFile,omitempty"`
	// Name by which the provider tells what belongs to this cluster: its load balancers and
	// routes. Default: kubernetes. A change restarts service-lb-controller and
	// node-route-controller.
	ClusterName string `json:"clusterName,omitempty"`
	// Whether a provider is used that has no cluster ID, by which it would tell the
	// resources of several clusters apart. Default: false. A change restarts these
	// controllers.
	AllowUntagged *bool `json:"allowUntagged,omitempty"`
}

// NoCloudProvider is the name of a provider with which the controllers of a cloud run in
// another component.
const NoCloudProvider = "external"

// Linked reports whether a provider is named that has to be linked into this build.
func (c Cloud) Linked() bool { return c.Provider != "" && c.Provider != NoCloudProvider }

// ControllerDefaults holds the settings that controllers inherit.
type ControllerDefaults struct {
	// Whether controllers run whose block does not set enabled. Default: true. Controllers
	// that are off by default stay off. A change starts or stops the controllers that
	// inherit it.
	Enabled *bool `json:"enabled,omitempty"`
}
