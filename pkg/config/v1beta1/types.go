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

// KubeControllerManagerConfiguration is the whole behaviour of one
// kube-controller-manager process. Editing the file changes the running process.
type KubeControllerManagerConfiguration struct {
	// apiVersion is config.kcmd.dev/v1beta1, kind is KubeControllerManagerConfiguration.
	metav1.TypeMeta `json:",inline"`

	// How the process reaches the API server and as whom.
	ClientConnection ClientConnection `json:"clientConnection"`
	// The leases that decide which of several processes runs the controllers.
	LeaderElection LeaderElection `json:"leaderElection"`
	// Moving controllers from one component to another without a gap in which
	// none or both of them run them.
	LeaderMigration LeaderMigration `json:"leaderMigration"`
	// How often controllers look at every object again although nothing changed.
	Resync Resync `json:"resync"`
	// How an edit of this file is noticed and applied.
	Reload Reload `json:"reload"`
	// The HTTPS endpoint: health, metrics, status.
	Serving Serving `json:"serving"`
	// Which metrics are exposed, and with which labels.
	Metrics Metrics `json:"metrics"`
	// What is logged and how. The published type of k8s.io/component-base.
	// Changes apply in place: verbosity, vmodule and flushFrequency at once,
	// format and options by replacing the log output.
	Logging logsapi.LoggingConfiguration `json:"logging"`
	// Kubernetes version whose feature gates are in force: with which of them the
	// version had, at which stage and with which default. Default: 1.36. Allowed:
	// 1.33, 1.34, 1.35, 1.36. A change restarts the controllers for which a gate
	// changes.
	EmulatedVersion string `json:"emulatedVersion,omitempty"`
	// Oldest Kubernetes version that the other components of the cluster may have.
	// Default: empty, the version before emulatedVersion, but never before 1.33.
	// Allowed: 1.33 to emulatedVersion. No gate of 1.36 depends on it: it is
	// checked, and shown with the configuration. A change applies in place.
	MinCompatibilityVersion string `json:"minCompatibilityVersion,omitempty"`
	// Feature gates by name. Default: empty, every gate at its own default.
	// AllAlpha and AllBeta stand for all gates of a stage that are not named. An
	// unknown gate is an error, and so are changing a gate that is locked and
	// enabling one that needs another which is disabled. A change restarts the
	// controllers that read the gate.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// The files that service account credentials are made from.
	ServiceAccounts ServiceAccounts `json:"serviceAccounts"`
	// The address ranges of the cluster.
	Networking Networking `json:"networking"`
	// What the controllers of volumes have in common.
	Volumes Volumes `json:"volumes"`
	// How long each controller that is started waits first, so that not all of
	// them begin at once; each waits a random time between this and twice this.
	// Default: 0s, not at all. Range: 0s to 10m. A change applies in place, to the
	// next start.
	ControllerStartInterval *metav1.Duration `json:"controllerStartInterval,omitempty"`
	// What controllers inherit when their own block does not say.
	ControllerDefaults ControllerDefaults `json:"controllerDefaults"`
	// One block per controller, keyed by the controller's canonical name.
	Controllers Controllers `json:"controllers"`
}

// ClientConnection says how the process reaches the API server.
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
	// Requests per second each client may send, over a longer time. Default: 0,
	// no client-side limit: the API server's priority and fairness governs.
	// Range: 0 or more. A change applies in place.
	QPS *float32 `json:"qps,omitempty"`
	// Requests a client may send at once before qps limits it. Default: 0, with
	// qps set: twice qps, rounded up. Range: 0 or more; only meaningful with qps.
	// A change applies in place.
	Burst *int32 `json:"burst,omitempty"`
	// Whether each controller acts as its own service account in kube-system
	// instead of as the identity of the kubeconfig. Default: false. A change
	// rebuilds the clients and restarts every controller.
	UseServiceAccountCredentials *bool `json:"useServiceAccountCredentials,omitempty"`
}

// Resync is the slow second look at objects nothing happened to.
type Resync struct {
	// Period after which a controller without its own resyncPeriod looks at every
	// object again; each controller uses a random period between this and twice
	// this. Default: 12h. Range: 0s (never), or 1s and more. A change applies in
	// place.
	MinPeriod *metav1.Duration `json:"minPeriod,omitempty"`
}

// Reload says how an edit of the file is noticed and applied.
type Reload struct {
	// How long the file must be unchanged before it is read, so that a burst of
	// writes is one reload. Default: 100ms. Range: 0s to 10s. A change applies
	// in place, to the next reload.
	SettleTime *metav1.Duration `json:"settleTime,omitempty"`
	// Period of the safety-net look at the file, for file systems that send no
	// notifications. Default: 10s. Range: 1s to 1h. A change applies in place.
	PollInterval *metav1.Duration `json:"pollInterval,omitempty"`
	// How long a controller that is stopped may take to finish the work in
	// flight. Default: 10s. Range: 0s (do not wait) to 10m. A change applies in
	// place, to the next stop.
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
}

// ServiceAccounts names the files service account credentials are made from.
// Every controller that needs one reads it here.
type ServiceAccounts struct {
	// PEM file with the RSA or ECDSA private key that signs service account
	// tokens. Default: empty, which leaves serviceaccount-token-controller idle.
	// A change restarts serviceaccount-token-controller.
	PrivateKeyFile string `json:"privateKeyFile,omitempty"`
	// PEM file with the CA certificates of the API server, published to pods.
	// Default: empty, which means the CA data of the kubeconfig. A change
	// restarts serviceaccount-token-controller,
	// root-ca-certificate-publisher-controller and
	// kube-apiserver-serving-clustertrustbundle-publisher-controller.
	RootCAFile string `json:"rootCAFile,omitempty"`
}

// Networking names the address ranges of the cluster. Every controller that needs
// one reads it here.
type Networking struct {
	// Ranges in CIDR notation that the addresses of pods are taken from: one, or
	// one of each family, the primary one first. Default: empty. Needed by
	// node-ipam-controller and node-route-controller. Must not overlap with
	// serviceCIDRs. A change restarts those controllers.
	ClusterCIDRs []string `json:"clusterCIDRs,omitempty"`
	// Ranges in CIDR notation that the addresses of Services are taken from: one,
	// or one of each family. Default: empty. node-ipam-controller keeps them free
	// of pods. A change restarts it.
	ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
}

// Volumes is what the controllers of volumes have in common.
type Volumes struct {
	// Directory in which FlexVolume drivers are found.
	// Default: /usr/libexec/kubernetes/kubelet-plugins/volume/exec/. A change
	// restarts persistentvolume-attach-detach-controller and
	// selinux-warning-controller.
	FlexVolumePluginDirectory string `json:"flexVolumePluginDirectory,omitempty"`
}

// ControllerDefaults is what controllers inherit.
type ControllerDefaults struct {
	// Whether a controller runs whose block does not set enabled. Default: true.
	// Controllers that are off by default stay off. A change starts or stops the
	// controllers that inherit it.
	Enabled *bool `json:"enabled,omitempty"`
}
