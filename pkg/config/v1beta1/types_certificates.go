package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CSRSigningController configures certificatesigningrequest-signing-controller,
// which has five workers for each signer. A signer without files signs nothing.
type CSRSigningController struct {
	ControllerSettings `json:",inline"`
	// The CA of all signers. Cannot be combined with the CA of a single signer.
	AllSigners SigningCA `json:"allSigners"`
	// The CA of the signer kubernetes.io/kubelet-serving.
	KubeletServing SigningCA `json:"kubeletServing"`
	// The CA of the signer kubernetes.io/kube-apiserver-client-kubelet.
	KubeletClient SigningCA `json:"kubeletClient"`
	// The CA of the signer kubernetes.io/kube-apiserver-client.
	KubeAPIServerClient SigningCA `json:"kubeAPIServerClient"`
	// The CA of the signer kubernetes.io/legacy-unknown.
	LegacyUnknown SigningCA `json:"legacyUnknown"`
	// Maximum duration of a certificate, also used if the request sets none. Default: 8760h
	// (365 days). Range: 10m or more. A change restarts the controller.
	CertificateDuration *metav1.Duration `json:"certificateDuration,omitempty"`
	ResyncSettings      `json:",inline"`
}

// SigningCA names the files of a CA.
type SigningCA struct {
	// PEM file with the certificate of the CA. Default: empty. Needs
	// privateKeyFile. A change of the setting restarts the controller; a changed
	// file takes effect without that.
	CertFile string `json:"certFile,omitempty"`
	// PEM file with the private key of certFile. Default: empty. Needs certFile. A
	// change of the setting restarts the controller; a changed file takes effect
	// without that.
	PrivateKeyFile string `json:"privateKeyFile,omitempty"`
}

const signing = "controllers.certificatesigningrequest-signing-controller."

// AllSigners is the path of the CA of all signers.
const AllSigners = signing + "allSigners"

// Signer is the CA of a single signer and the path of its field.
type Signer struct {
	Path string
	CA   SigningCA
}

// Signers returns the CAs of single signers.
func (c CSRSigningController) Signers() []Signer {
	return []Signer{
		{signing + "kubeletServing", c.KubeletServing},
		{signing + "kubeletClient", c.KubeletClient},
		{signing + "kubeAPIServerClient", c.KubeAPIServerClient},
		{signing + "legacyUnknown", c.LegacyUnknown},
	}
}

// LegacyServiceAccountTokenCleanerController configures
// legacy-serviceaccount-token-cleaner-controller.
type LegacyServiceAccountTokenCleanerController struct {
	ControllerSettings `json:",inline"`
	// How long a token must be unused before it is invalidated, and how long it is then
	// kept before it is deleted. Default: 8760h (365 days). Range: 24h or more, because use
	// is recorded by day. A change restarts the controller.
	CleanUpPeriod *metav1.Duration `json:"cleanUpPeriod,omitempty"`
}
