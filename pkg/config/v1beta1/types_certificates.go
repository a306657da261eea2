package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CSRSigningController configures certificatesigningrequest-signing-controller,
// which has five workers for each signer. A signer without files signs nothing.
type CSRSigningController struct {
	ControllerSettings `json:",inline"`
	// The CA that every signer signs with. Cannot be combined with a CA of one
	// signer.
	AllSigners SigningCA `json:"allSigners"`
	// The CA of the signer kubernetes.io/kubelet-serving.
	KubeletServing SigningCA `json:"kubeletServing"`
	// The CA of the signer kubernetes.io/kube-apiserver-client-kubelet.
	KubeletClient SigningCA `json:"kubeletClient"`
	// The CA of the signer kubernetes.io/kube-apiserver-client.
	KubeAPIServerClient SigningCA `json:"kubeAPIServerClient"`
	// The CA of the signer kubernetes.io/legacy-unknown.
	LegacyUnknown SigningCA `json:"legacyUnknown"`
	// Longest time a certificate is valid, and that of one whose request does not
	// say. Default: 8760h (365 days). Range: 10m to 87600h (10 years). A change
	// restarts the controller.
	CertificateDuration *metav1.Duration `json:"certificateDuration,omitempty"`
	// Period after which every object is looked at again, instead of
	// resync.minPeriod. Default: resync.minPeriod. Range: 0s (never), or 1s and
	// more. A change applies in place.
	ResyncPeriod *metav1.Duration `json:"resyncPeriod,omitempty"`
}

// SigningCA names the files of a CA.
type SigningCA struct {
	// PEM file with the certificate of the CA. Default: empty. Needs
	// privateKeyFile. A change of the setting or of the file restarts the
	// controller.
	CertFile string `json:"certFile,omitempty"`
	// PEM file with the private key of certFile. Default: empty. Needs certFile. A
	// change of the setting or of the file restarts the controller.
	PrivateKeyFile string `json:"privateKeyFile,omitempty"`
}

// LegacyServiceAccountTokenCleanerController configures
// legacy-serviceaccount-token-cleaner-controller.
type LegacyServiceAccountTokenCleanerController struct {
	ControllerSettings `json:",inline"`
	// How long a token must not have been used before it is invalidated, and how
	// long it is then kept before it is deleted. Default: 8760h (365 days). Range:
	// 24h or more: use is recorded by day. A change restarts the controller.
	CleanUpPeriod *metav1.Duration `json:"cleanUpPeriod,omitempty"`
}
