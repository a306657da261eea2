package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Serving configures the HTTPS endpoint: health, metrics, status, profiling. Every change
// in it applies in place: another address or port gets a listener of its own, the same one
// keeps its socket, and requests in flight are finished. Controllers are not affected.
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
	// Whether the process listens on an address although connections of an ended process to
	// it remain, and on a specific address although 0.0.0.0 is in use (SO_REUSEADDR). Has
	// no effect on Linux, where every listener does. Default: false. A change applies in place.
	PermitAddressSharing *bool `json:"permitAddressSharing,omitempty"`
	// The serving certificates and the TLS parameters.
	TLS TLS `json:"tls"`
	// The use of HTTP/2.
	HTTP2 HTTP2 `json:"http2"`
	// How the sender of a request is identified.
	Authentication Authentication `json:"authentication"`
	// What a request is permitted to do.
	Authorization Authorization `json:"authorization"`
	// Whether /debug/pprof is served. Default: true. A change applies in place.
	Profiling *bool `json:"profiling,omitempty"`
	// Whether blocking on locks and channels is profiled, which slows the whole process
	// down a little. Default: false. Needs profiling. A change applies in place.
	ContentionProfiling *bool `json:"contentionProfiling,omitempty"`
}

// HTTP2 configures the use of HTTP/2.
type HTTP2 struct {
	// Whether HTTP/2 is offered. Default: true; without it clients use HTTP/1.1.
	// A change applies in place.
	Enabled *bool `json:"enabled,omitempty"`
	// Requests a client may have in flight on one connection. Default: 100. Range:
	// 1 to 10000. A change applies in place, to new connections.
	MaxStreamsPerConnection *int32 `json:"maxStreamsPerConnection,omitempty"`
}

// TLS configures the serving certificates and the TLS parameters.
type TLS struct {
	// PEM file with the serving certificate, followed by its intermediates.
	// Default: empty, which means a self-signed certificate. Needs
	// privateKeyFile. A change of the setting or of the file applies in place.
	CertFile string `json:"certFile,omitempty"`
	// PEM file with the private key of certFile. Default: empty. Needs certFile.
	// A change of the setting or of the file applies in place.
	PrivateKeyFile string `json:"privateKeyFile,omitempty"`
	// Directory of the self-signed pair kube-controller-manager.crt and
	// kube-controller-manager.key, which is created if it does not exist. Default: empty,
	// which keeps the self-signed pair in memory. Has no effect if certFile is set. A
	// change applies in place.
	CertDirectory string `json:"certDirectory,omitempty"`
	// Lowest TLS version accepted. Default: VersionTLS12. Allowed: VersionTLS10,
	// VersionTLS11, VersionTLS12, VersionTLS13. A change applies in place.
	MinVersion string `json:"minVersion,omitempty"`
	// Cipher suites offered for TLS 1.2 and below, by the names of Go's
	// crypto/tls. Default: empty, which means Go's own choice. With HTTP/2 and a
	// minVersion below VersionTLS13, one must be TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
	// or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256. A change applies in place.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// Key exchange mechanisms offered, by the names of Go's crypto/tls; their order
	// has no meaning. Default: empty, which means Go's own choice. Allowed:
	// CurveP256, CurveP384, CurveP521, X25519, X25519MLKEM768,
	// SecP256r1MLKEM768, SecP384r1MLKEM1024. A change applies in place.
	CurvePreferences []string `json:"curvePreferences,omitempty"`
	// Further certificates, for clients that request one of their host names. Default:
	// empty. A change of the setting or of a file applies in place.
	SNICertificates []SNICertificate `json:"sniCertificates,omitempty"`
}

// SNICertificate is a serving certificate for some host names.
type SNICertificate struct {
	// PEM file with the certificate, followed by its intermediates. Required.
	CertFile string `json:"certFile"`
	// PEM file with the private key of certFile. Required.
	PrivateKeyFile string `json:"privateKeyFile"`
	// Host names, such as example.org or *.example.org, for which the certificate is
	// presented. Default: empty, the names in the certificate.
	Names []string `json:"names,omitempty"`
}

// Authentication configures how the sender of a request is identified. The API server
// checks bearer tokens (TokenReview).
type Authentication struct {
	// Kubeconfig of the cluster that reviews tokens. Default: empty, which means the
	// in-cluster credentials; if there are none, all requests are anonymous. A change
	// applies in place.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// PEM file with the CA certificates that client certificates are verified with.
	// Default: empty, which means the one the cluster publishes in
	// kube-system/extension-apiserver-authentication. A change applies in place.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// An authenticating proxy in front of the process that is trusted.
	RequestHeader RequestHeader `json:"requestHeader"`
	// Whether kube-system/extension-apiserver-authentication is not read. Default: false. A
	// change applies in place.
	SkipLookup *bool `json:"skipLookup,omitempty"`
	// Whether a failure to read that object is tolerated. It always is: reading is retried
	// in the background, and requests are treated as anonymous until it succeeds. Kept for
	// configurations that set it. Default: false. A change has no effect.
	TolerateLookupFailure *bool `json:"tolerateLookupFailure,omitempty"`
	// How long the result of a token review is cached. Default: 10s. Range: 0s (not at all)
	// to 1h. A change applies in place.
	CacheTTL *metav1.Duration `json:"cacheTTL,omitempty"`
}

// RequestHeader configures trust in an authenticating proxy. The lists are used only if
// clientCAFile is set; otherwise those of the cluster are read.
type RequestHeader struct {
	// PEM file with the CA certificates that the proxy's client certificate is verified
	// with. Default: empty, which means the cluster's. A change applies in place.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// Headers with the user name. Default: x-remote-user. A change applies in place.
	UsernameHeaders []string `json:"usernameHeaders,omitzero"`
	// Headers with the user's UID; must contain X-Remote-Uid if not empty. Default: empty.
	// A change applies in place.
	UIDHeaders []string `json:"uidHeaders,omitempty"`
	// Headers with the user's groups. Default: x-remote-group. A change applies in place.
	GroupHeaders []string `json:"groupHeaders,omitzero"`
	// Prefixes of the headers with extra attributes of the user. Default: x-remote-extra-.
	// A change applies in place.
	ExtraHeaderPrefixes []string `json:"extraHeaderPrefixes,omitzero"`
	// Common names that a proxy's client certificate may have. Default: empty, which means
	// any. A change applies in place.
	AllowedNames []string `json:"allowedNames,omitempty"`
}

// Authorization configures what a request is permitted to do. The API server decides
// (SubjectAccessReview); members of system:masters may do everything.
type Authorization struct {
	// Kubeconfig of the cluster that decides. Default: empty, which means the in-cluster
	// credentials; if there are none, only alwaysAllowPaths are allowed. A change applies
	// in place.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// HTTP paths that anybody may read; a trailing * matches a prefix. Default: /healthz,
	// /readyz, /livez. A change applies in place.
	AlwaysAllowPaths []string `json:"alwaysAllowPaths,omitzero"`
	// How long a positive decision is cached. Default: 10s. Range: 0s (not at all) to 1h. A
	// change applies in place.
	AuthorizedTTL *metav1.Duration `json:"authorizedTTL,omitempty"`
	// How long a negative decision is cached. Default: 10s. Range: 0s (not at all) to 1h. A
	// change applies in place.
	UnauthorizedTTL *metav1.Duration `json:"unauthorizedTTL,omitempty"`
}
