// Package endpoint requests the status, the configuration and what is known of an object from the
// secure port of a running process.
//
//  1. The port belongs to the process, not to the API server: only the credentials and the
//     certificate authority of a kubeconfig are used, never its server.
//  2. The certificate of the process is verified, unless that is turned off. A process
//     without a configured certificate creates a self-signed one, in memory.
//  3. An error has advice on how to fix it: what to start, to trust, or to grant.
package endpoint

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kcmd.dev/pkg/config/v1beta1"
)

// DefaultServer is the address of a process with the default configuration.
const DefaultServer = "https://127.0.0.1:10257"

// Connection defines how to reach a process.
type Connection struct {
	// Server is its URL. Default: the endpoint in Serving, else DefaultServer.
	Server string
	// Serving is that of the configuration of the process, if it is known.
	Serving *v1beta1.Serving
	// Kubeconfig holds the credentials. Default: as for kubectl, $KUBECONFIG or
	// ~/.kube/config if there is one; without one the request is anonymous.
	Kubeconfig string
	// Context is the context of the kubeconfig. Default: its current one.
	Context string
	// TokenFile contains a bearer token, used instead of a kubeconfig.
	TokenFile string
	// CAFile contains the CA certificates that the certificate of the process is
	// verified against. Default: those of the kubeconfig, else those of the system.
	CAFile string
	// Insecure turns off the verification.
	Insecure bool
	// Timeout limits each request. Default: 10s.
	Timeout time.Duration
}

// Open prepares a client. It sends nothing.
func (c Connection) Open() (*Client, error) {
	server, err := c.server()
	if err != nil {
		return nil, err
	}
	credentials, err := c.credentials()
	if err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	r := &rest.Config{
		Host: server, Timeout: c.Timeout, UserAgent: "kube-controller-manager/status",
		Username: credentials.Username, Password: credentials.Password,
		BearerToken: credentials.BearerToken, BearerTokenFile: credentials.BearerTokenFile,
		ExecProvider: credentials.ExecProvider, AuthProvider: credentials.AuthProvider,
		AuthConfigPersister: credentials.AuthConfigPersister,
		TLSClientConfig: rest.TLSClientConfig{
			CertFile: credentials.CertFile, CertData: credentials.CertData,
			KeyFile: credentials.KeyFile, KeyData: credentials.KeyData,
			CAFile: credentials.CAFile, CAData: credentials.CAData,
		},
	}
	switch {
	case c.Insecure:
		r.Insecure, r.CAFile, r.CAData = true, "", nil
	case c.CAFile != "":
		r.CAFile, r.CAData = c.CAFile, nil
	}
	client, err := rest.HTTPClientFor(r)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", server, err)
	}
	return &Client{Server: server, http: client, anonymous: isAnonymous(r)}, nil
}

func isAnonymous(r *rest.Config) bool {
	return r.BearerToken == "" && r.BearerTokenFile == "" && r.Username == "" &&
		r.ExecProvider == nil && r.AuthProvider == nil &&
		len(r.CertData) == 0 && r.CertFile == ""
}

// AddressError reports that a Server is not the URL of a process.
type AddressError struct{ Server, Why string }

func (e *AddressError) Error() string { return fmt.Sprintf("%q %s", e.Server, e.Why) }

// server is the URL without a path. The error about Server is an *AddressError.
func (c Connection) server() (string, error) {
	if c.Server == "" {
		return serverOf(c.Serving)
	}
	text := c.Server
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "", &AddressError{c.Server, "is not a URL such as " + DefaultServer}
	}
	if u.Scheme != "https" {
		return "", &AddressError{c.Server, "must use https"}
	}
	return "https://" + u.Host, nil
}

// serverOf returns the URL of a process on this machine.
func serverOf(s *v1beta1.Serving) (string, error) {
	if s == nil {
		return DefaultServer, nil
	}
	if *s.Port == 0 {
		return "", errors.New("the configuration disables the endpoint: serving.port is 0")
	}
	host := s.BindAddress
	switch ip := net.ParseIP(host); {
	case ip.IsUnspecified() && ip.To4() != nil:
		host = "127.0.0.1"
	case ip.IsUnspecified():
		host = "::1"
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(*s.Port))), nil
}

// credentials are those of the token file, else those of the kubeconfig.
func (c Connection) credentials() (*rest.Config, error) {
	if c.TokenFile != "" {
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token: %w", err)
		}
		if len(strings.Fields(string(token))) != 1 {
			return nil, fmt.Errorf("the file %s does not contain a token: it must be one word", c.TokenFile)
		}
		return &rest.Config{BearerToken: strings.TrimSpace(string(token))}, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if c.Kubeconfig == "" && c.Context == "" && !names(raw) {
		return &rest.Config{}, nil
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(raw, c.Context, overrides, rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return config, nil
}

// names reports whether a kubeconfig contains any credentials.
func names(raw clientcmdapi.Config) bool { return raw.CurrentContext != "" && len(raw.AuthInfos) > 0 }

// Client sends requests to one process.
type Client struct {
	// Server is its URL.
	Server string

	http      *http.Client
	anonymous bool
}
