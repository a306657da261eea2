package faultproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"kcmd.dev/test/controlplane"
)

// maxStreams is how many requests, watches included, a client may have open on one
// connection.
const maxStreams = 2000

// Proxy is between clients and the API server of a control plane. Its methods may be called
// from several goroutines.
type Proxy struct {
	plane   *controlplane.ControlPlane
	target  *url.URL
	source  net.IP
	url     string
	server  *http.Server
	forward *httputil.ReverseProxy
	serving sync.WaitGroup // the server
	fail    func(error)    // a fault cannot be made

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	clients, servers connections
	faults           atomic.Pointer[[]*Fault]

	mu         sync.Mutex
	closed     bool
	working    int        // requests that are in work
	idle       *sync.Cond // told when there are none
	transports map[string]*http.Transport
	seen       map[attributes]int
	journals   []*Journal
}

// Start is New for a test, which the proxy is closed with. What goes wrong fails the test.
func Start(t testing.TB, plane *controlplane.ControlPlane) *Proxy {
	t.Helper()
	p, err := New(plane)
	if err != nil {
		t.Fatal(err)
	}
	p.fail = func(err error) {
		t.Helper()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// New starts a proxy without faults, until Close.
func New(plane *controlplane.ControlPlane) (*Proxy, error) {
	target, err := url.Parse(plane.URL())
	if err != nil {
		return nil, fmt.Errorf("starting a fault proxy: %w", err)
	}
	security, err := security(plane)
	if err != nil {
		return nil, fmt.Errorf("starting a fault proxy: %w", err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting a fault proxy: %w", err)
	}
	p := &Proxy{
		plane:      plane,
		target:     target,
		source:     plane.NewSource(),
		url:        "https://" + tcp.Addr().String(),
		fail:       func(err error) { panic(err) },
		transports: map[string]*http.Transport{},
		seen:       map[attributes]int{},
	}
	p.idle = sync.NewCond(&p.mu)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	silent := log.New(io.Discard, "", 0)
	p.forward = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      roundTripper(p.roundTrip),
		FlushInterval:  -1, // events are passed on one by one
		ModifyResponse: p.answer,
		ErrorHandler:   p.unanswered,
		ErrorLog:       silent,
	}
	p.server = &http.Server{
		Handler:     http.HandlerFunc(p.serve),
		TLSConfig:   security,
		ErrorLog:    silent,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ConnContext: withConnection,
	}
	p.serving.Go(func() {
		_ = p.server.ServeTLS(&listener{Listener: tcp, proxy: p}, "", "") // ends with Close
	})
	return p, nil
}

// security is that of the API server: clients may show a certificate of the cluster's
// authority.
func security(plane *controlplane.ControlPlane) (*tls.Config, error) {
	certificate, err := plane.ServingCertificate("fault-proxy")
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(plane.AdminConfig().CAData) {
		return nil, errors.New("the authority of the cluster has no certificate")
	}
	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    authorities,
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// URL is the address for clients.
func (p *Proxy) URL() string { return p.url }

// SourceIP is the address the audit log names for requests that came through the proxy.
func (p *Proxy) SourceIP() string { return p.source.String() }

// Kubeconfig is ControlPlane.Kubeconfig for a client that goes through the proxy. Each proxy has files of its own: a
// manager would follow another proxy that writes to its file.
func (p *Proxy) Kubeconfig(name, user string, groups ...string) (path string, err error) {
	return p.plane.KubeconfigVia(p.url, name+"-via-"+p.SourceIP(), user, groups...)
}

// Config is ControlPlane.Config for a client that goes through the proxy.
func (p *Proxy) Config(user string, groups ...string) (*rest.Config, error) {
	config, err := p.plane.Config(user, groups...)
	if err != nil {
		return nil, err
	}
	config.Host = p.url
	return config, nil
}

// Cut breaks the connections of all clients. They may connect again.
func (p *Proxy) Cut() { p.clients.cut() }

// Seen is how many requests have come so far, refused and held ones included.
func (p *Proxy) Seen(r Requests) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for a, n := range p.seen {
		if r.match(a) {
			count += n
		}
	}
	return count
}

// Close breaks all connections and returns when nothing of the proxy is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	err := p.server.Close()
	p.serving.Wait()
	p.clients.close()
	p.mu.Lock()
	for p.working > 0 {
		p.idle.Wait()
	}
	p.mu.Unlock()
	for _, t := range p.transports {
		t.CloseIdleConnections()
	}
	p.servers.close()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("closing a fault proxy: %w", err)
	}
	return nil
}

// passable returns once the proxy is not paused, or with an error if the connection that
// waits or the proxy is closed.
func (p *Proxy) passable(closed <-chan struct{}) error {
	for {
		f := p.faultOf(pauses, attributes{})
		if f == nil {
			return nil
		}
		select {
		case <-f.lifted:
		case <-closed:
			return net.ErrClosed
		case <-p.ctx.Done():
			return net.ErrClosed
		}
	}
}
