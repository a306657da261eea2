package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Serving is the HTTPS endpoint: health, metrics, status, profiling. A change of
// anything in it applies in place: a new listener is opened and the old one
// closed once its requests have ended; no controller notices.
type Serving struct {
	// IP address to listen on. Default: 0.0.0.0, which like :: means every
	// address of both families. A change applies in place.
	BindAddress string `json:"bindAddress,omitempty"`
	// TCP port to listen on. Default: 10257. Range: 0 to 65535; 0 turns serving
	// off. A change applies in place.
	Port *int32 `json:"port,omitempty"`
	// Whether other processes may listen on the same address and port at the same
	// time (SO_REUSEPORT); the system spreads connections over them.
	// Default: false. A change applies in place.
	PermitPortSharing *bool `json:"permitPortSharing,omitempty"`
	// Whether an address is listened on although connections of an ended process
	// to it linger, and a specific address although 0.0.0.0 is in use
	// (SO_REUSEADDR). Default: false. A change applies in place.
	PermitAddressSharing *bool `json:"permitAddressSharing,omitempty"`
	// The serving certificates and what is negotiated.
	TLS TLS `json:"tls"`
	// The use of HTTP/2.
	HTTP2 HTTP2 `json:"http2"`
	// Who a request comes from.
	Authentication Authentication `json:"authentication"`
	// What a request may do.
	Authorization Authorization `json:"authorization"`
	// Whether /debug/pprof is served. Default: true. A change applies in place.
	Profiling *bool `json:"profiling,omitempty"`
	// Whether blocking on locks and channels is profiled, which costs a little
	// time everywhere. Default: false. Needs profiling. A change applies in place.
	ContentionProfiling *bool `json:"contentionProfiling,omitempty"`
}

// HTTP2 is the use of HTTP/2.
type HTTP2 struct {
	// Whether HTTP/2 is offered. Default: true; without it clients use HTTP/1.1.
	// A change applies in place.
	Enabled *bool `json:"enabled,omitempty"`
	// Requests a client may have in flight on one connection. Default: 100. Range:
	// 1 to 10000. A change applies in place, to new connections.
	MaxStreamsPerConnection *int32 `json:"maxStreamsPerConnection,omitempty"`
}

// TLS is the serving certificates and what is negotiated.
type TLS struct {
	// PEM file with the serving certificate, followed by its intermediates.
	// Default: empty, which means a self-signed certificate. Needs
	// privateKeyFile. A change of the setting or of the file applies in place.
	CertFile string `json:"certFile,omitempty"`
	// PEM file with the private key of certFile. Default: empty. Needs certFile.
	// A change of the setting or of the file applies in place.
	PrivateKeyFile string `json:"privateKeyFile,omitempty"`
	// Directory in which the self-signed pair kube-controller-manager.crt and
	// kube-controller-manager.key is found, or kept once made. Default: empty,
	// which keeps the self-signed pair in memory. Without effect when certFile is
	// set. A change applies in place.
	CertDirectory string `json:"certDirectory,omitempty"`
	// Lowest TLS version accepted. Default: VersionTLS12. Allowed: VersionTLS10,
	// VersionTLS11, VersionTLS12, VersionTLS13. A change applies in place.
	MinVersion string `json:"minVersion,omitempty"`
	// Cipher suites offered for TLS 1.2 and below, by the names of Go's
	// crypto/tls. Default: empty, which means Go's own choice. A change applies
	// in place.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// Key exchange mechanisms offered, by the names of Go's crypto/tls; their order
	// has no meaning. Default: empty, which means Go's own choice. Allowed:
	// CurveP256, CurveP384, CurveP521, X25519, X25519MLKEM768,
	// SecP256r1MLKEM768, SecP384r1MLKEM1024. A change applies in place.
	CurvePreferences []string `json:"curvePreferences,omitempty"`
	// Further certificates, for clients that ask for a host name they are for.
	// Default: empty. A change of the setting or of a file applies in place.
	SNICertificates []SNICertificate `json:"sniCertificates,omitempty"`
}

// SNICertificate is a serving certificate for some host names.
type SNICertificate struct {
	// PEM file with the certificate, followed by its intermediates. Required.
	CertFile string `json:"certFile"`
	// PEM file with the private key of certFile. Required.
	PrivateKeyFile string `json:"privateKeyFile"`
	// Host names, such as example.org or *.example.org, for which the certificate
	// is presented. Default: empty, the names the certificate holds.
	Names []string `json:"names,omitempty"`
}

// Authentication says who a request comes from. Bearer tokens are checked by
// the API server (TokenReview).
type Authentication struct {
	// Kubeconfig of the cluster that reviews tokens. Default: empty, which means
	// the in-cluster credentials, and anonymous requests only when there are
	// none. A change applies in place.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// PEM file with the CA certificates whose client certificates are accepted.
	// Default: empty, which means the one the cluster publishes in
	// kube-system/extension-apiserver-authentication. A change applies in place.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// Trust in an authenticating proxy in front of the process.
	RequestHeader RequestHeader `json:"requestHeader"`
	// Whether kube-system/extension-apiserver-authentication is left unread.
	// Default: false. A change applies in place.
	SkipLookup *bool `json:"skipLookup,omitempty"`
	// Whether a failure to read that object is tolerated. It always is: the object
	// is read in the background until that succeeds, and requests are treated as
	// anonymous until then. Kept for configurations that set it. Default: false. A
	// change applies in place.
	TolerateLookupFailure *bool `json:"tolerateLookupFailure,omitempty"`
	// How long the outcome of a token review is remembered. Default: 10s.
	// Range: 0s (not at all) to 1h. A change applies in place.
	CacheTTL *metav1.Duration `json:"cacheTTL,omitempty"`
}

// RequestHeader is the trust in an authenticating proxy. The lists are used only
// when clientCAFile is set; otherwise the cluster's own are read.
type RequestHeader struct {
	// PEM file with the CA certificates of the proxy's client certificate.
	// Default: empty, which means the cluster's. A change applies in place.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// Headers holding the user name. Default: x-remote-user. A change applies in
	// place.
	UsernameHeaders []string `json:"usernameHeaders,omitzero"`
	// Headers holding the user's uid; must contain X-Remote-Uid when not empty.
	// Default: empty. A change applies in place.
	UIDHeaders []string `json:"uidHeaders,omitempty"`
	// Headers holding the user's groups. Default: x-remote-group. A change
	// applies in place.
	GroupHeaders []string `json:"groupHeaders,omitzero"`
	// Prefixes of the headers holding extra attributes of the user. Default:
	// x-remote-extra-. A change applies in place.
	ExtraHeaderPrefixes []string `json:"extraHeaderPrefixes,omitzero"`
	// Common names a proxy's client certificate may have. Default: empty, which
	// means any. A change applies in place.
	AllowedNames []string `json:"allowedNames,omitempty"`
}

// Authorization says what a request may do. The API server decides
// (SubjectAccessReview); members of system:masters may do everything.
type Authorization struct {
	// Kubeconfig of the cluster that decides. Default: empty, which means the
	// in-cluster credentials, and only alwaysAllowPaths when there are none.
	// A change applies in place.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// HTTP paths anyone may read; a trailing * matches a prefix.
	// Default: /healthz, /readyz, /livez. A change applies in place.
	AlwaysAllowPaths []string `json:"alwaysAllowPaths,omitzero"`
	// How long a yes is remembered. Default: 10s. Range: 0s (not at all) to 1h.
	// A change applies in place.
	AuthorizedTTL *metav1.Duration `json:"authorizedTTL,omitempty"`
	// How long a no is remembered. Default: 10s. Range: 0s (not at all) to 1h.
	// A change applies in place.
	UnauthorizedTTL *metav1.Duration `json:"unauthorizedTTL,omitempty"`
}
