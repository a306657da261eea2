package faultproxy

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// identity is who a client is. Without a user it has no client certificate, and the API
// server authenticates the bearer token.
type identity struct {
	user   string
	groups []string
}

// key tells identities apart.
func (i identity) key() string { return strings.Join(append([]string{i.user}, i.groups...), "\n") }

// identify returns who sends a request by its client certificate, and the user to match.
func identify(r *http.Request) (i identity, user string) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		i = identityOf(r.TLS.PeerCertificates[0])
		return i, i.user
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return identity{}, userOfToken(token)
}

// identityOf reads a client certificate as the API server does.
func identityOf(c *x509.Certificate) identity {
	return identity{user: c.Subject.CommonName, groups: slices.Sorted(slices.Values(c.Subject.Organization))}
}

// userOfToken returns whom a token of a service account names. Whether the token is valid is
// for the API server to say.
func userOfToken(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Subject
}

// roundTrip sends a request to the API server as the client it came from.
func (p *Proxy) roundTrip(r *http.Request) (*http.Response, error) {
	q := requestOf(r.Context())
	transport, err := p.transportOf(q.identity)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(r)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// transportOf returns the connections of an identity to the API server.
func (p *Proxy) transportOf(i identity) (*http.Transport, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.transports[i.key()]; ok {
		return t, nil
	}
	config, err := p.plane.Config(i.user, i.groups...)
	if err != nil {
		return nil, err
	}
	if i.user == "" {
		config.CertData, config.KeyData = nil, nil
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	t := &http.Transport{
		TLSClientConfig:    tlsConfig,
		ForceAttemptHTTP2:  true,
		DisableCompression: true, // answers are passed on as they are
		DialContext:        p.dial,
	}
	p.transports[i.key()] = t
	return t, nil
}

// dial connects to the API server from the address of this proxy.
func (p *Proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: p.source}}
	raw, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return p.servers.keep(&conn{Conn: raw})
}
