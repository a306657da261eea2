package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync"
	"testing"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// pair makes a client certificate that nobody has signed.
func pair(t *testing.T, user string, groups []string, expires time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     expires,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// rotating is a server that tells which certificate a request came with, and clients of it.
type rotating struct {
	*httptest.Server
	t       *testing.T
	clients *Clients

	mu      sync.Mutex
	open    map[net.Conn]bool
	serials []string      // of the certificates of requests, but for watches
	tokens  []string      // of the same
	watches chan string   // the serial of each watch that is opened
	hold    chan struct{} // requests wait for it, if it is there
}

func newRotating(t *testing.T) *rotating {
	t.Helper()
	r := &rotating{t: t, open: map[net.Conn]bool{}, watches: make(chan string, 10)}
	r.Server = httptest.NewUnstartedServer(r)
	r.EnableHTTP2 = true
	r.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	r.Config.ConnState = func(c net.Conn, s http.ConnState) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch s {
		case http.StateNew:
			r.open[c] = true
		case http.StateClosed, http.StateHijacked:
			delete(r.open, c)
		}
	}
	r.StartTLS()
	t.Cleanup(r.Close)
	first := r.access("a", "first")
	var err error
	if r.clients, err = New(Options{Base: first.Config}); err != nil {
		t.Fatal(err)
	}
	r.clients.access = first
	t.Cleanup(r.clients.Close)
	return r
}

func (r *rotating) access(user, token string) *Access {
	c := &rest.Config{
		Host:            r.URL,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})},
	}
	c.CertData, c.KeyData = pair(r.t, user, nil, time.Now().Add(time.Hour))
	return &Access{Config: c}
}

func (r *rotating) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	serial := req.TLS.PeerCertificates[0].SerialNumber.String()
	if req.URL.Query().Get("watch") == "true" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		r.watches <- serial
		<-req.Context().Done()
		return
	}
	r.mu.Lock()
	r.serials = append(r.serials, serial)
	r.tokens = append(r.tokens, req.Header.Get("Authorization"))
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		<-hold
	}
	emptyObject(w, req)
}

func (r *rotating) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

func (r *rotating) last() (serial, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serials[len(r.serials)-1], r.tokens[len(r.tokens)-1]
}

func (r *rotating) set() *Set {
	r.t.Helper()
	s, err := r.clients.For(Identity{Name: "c"}, NewFence())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rotating) write(s *Set) error {
	_, err := s.Kubernetes.CoreV1().ConfigMaps("ns").Create(r.t.Context(), configMap(nil), metav1.CreateOptions{})
	return err
}

func (r *rotating) renew(a *Access) {
	r.t.Helper()
	if err := r.clients.Renew(a); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rotating) eventually(what string, is func() bool) {
	r.t.Helper()
	r.within(time.Minute, what, is)
}

func (r *rotating) within(d time.Duration, what string, is func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.t.Context(), time.Millisecond, d, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		r.t.Fatalf("not so: %s", what)
	}
}

// Pins MGR-125.
func TestAnotherTokenNeedsNoOtherConnection(t *testing.T) {
	r := newRotating(t)
	set := r.set()
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	before, _ := r.last()
	next := *r.clients.access
	next.Config = rest.CopyConfig(next.Config)
	next.Config.BearerToken = "second"
	r.renew(&next)
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	if serial, token := r.last(); token != "Bearer second" || serial != before || r.connections() != 1 {
		t.Errorf("token %q, %d connections", token, r.connections())
	}
}

// A certificate is replaced while requests are under way: those of before are finished where
// they are, those of after use the new one, and no connection of before stays.
// Pins MGR-123.
func TestAnotherCertificateTakesOver(t *testing.T) {
	r := newRotating(t)
	set := r.set()
	r.hold = make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- r.write(set) }()
	r.eventually("the write has arrived", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.serials) == 1 })
	before, _ := r.last()

	r.renew(r.access("a", "first"))
	r.mu.Lock()
	hold := r.hold
	r.hold = nil
	r.mu.Unlock()
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	if after, _ := r.last(); after == before {
		t.Error("the new certificate is not used")
	}
	if n := r.connections(); n != 2 {
		t.Errorf("%d connections while a request is under way on the old one, want 2", n)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Errorf("the request that was under way: %v", err)
	}
	r.eventually("the old connection is closed", func() bool { return r.connections() == 1 })
}

// A watch ends as if the API server had ended it, but not before a reflector accepts that.
func TestWatchMovesToTheNewConnection(t *testing.T) {
	r := newRotating(t)
	set := r.set()
	opened := time.Now()
	stream, err := set.Kubernetes.CoreV1().RESTClient().Get().AbsPath("/api/v1/configmaps").Param("watch", "true").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := <-r.watches
	r.renew(r.access("a", "first"))
	if _, err := io.ReadAll(stream); err != nil {
		t.Errorf("the watch ends with %v", err)
	}
	if age := time.Since(opened); age < time.Second {
		t.Errorf("the watch ends after %v, which a reflector takes for a failure", age)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	r.eventually("the old connection is closed", func() bool { return r.connections() == 0 })
	again, err := set.Kubernetes.CoreV1().RESTClient().Get().AbsPath("/api/v1/configmaps").Param("watch", "true").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after := <-r.watches; after == before {
		t.Error("the watch is opened again with the old certificate")
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// A watch that its owner ends tells so.
func TestWatchThatIsCancelledEndsWithTheCause(t *testing.T) {
	r := newRotating(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := r.set().Kubernetes.CoreV1().RESTClient().Get().AbsPath("/api/v1/configmaps").Param("watch", "true").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-r.watches
	cancel()
	if _, err := io.ReadAll(stream); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ends with %v", err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

func TestFailedRenewalChangesNothing(t *testing.T) {
	r := newRotating(t)
	set := r.set()
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	before, _ := r.last()
	broken := r.access("a", "second")
	broken.Config.KeyData = []byte("no key")
	if err := r.clients.Renew(broken); err == nil {
		t.Error("a key that is none was accepted")
	}
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	if serial, token := r.last(); serial != before || token != "Bearer first" {
		t.Error("other credentials are in use")
	}
}

func TestReplacedLaneIsForgotten(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1") // its timer holds a connection that is closed
	r := newRotating(t)
	set := r.set()
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	old := weak.Make(r.clients.own.current)
	r.renew(r.access("a", "first"))
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	// A connection that is closed while the last stream on it is cleaned up is held by another
	// timer: that of idle connections, of 90 seconds, which is started then.
	r.within(2*time.Minute, "nothing holds the old transport", func() bool {
		goruntime.GC()
		return old.Value() == nil
	})
}

func TestCloseLeavesNoConnection(t *testing.T) {
	r := newRotating(t)
	set := r.set()
	if err := r.write(set); err != nil {
		t.Fatal(err)
	}
	r.clients.Close()
	r.eventually("no connection is open", func() bool { return r.connections() == 0 })
	if err := r.write(set); !errors.Is(err, errLaneClosed) {
		t.Errorf("a write after the end gives %v", err)
	}
}

// TestAConnectionThatIsBeingMadeWhenItsLaneClosesIsClosed: net/http goes on dialling for a request that has been given up.
func TestAConnectionThatIsBeingMadeWhenItsLaneClosesIsClosed(t *testing.T) {
	dialling, goOn := make(chan struct{}), make(chan struct{})
	near, far := net.Pipe()
	l, err := newLane(&rest.Config{Host: "http://localhost", Dial: func(context.Context, string, string) (net.Conn, error) {
		close(dialling)
		<-goOn
		return near, nil
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan error)
	go func() {
		_, err := l.dial(t.Context(), "tcp", "localhost:80")
		dialled <- err
	}()
	<-dialling
	l.close()
	close(goOn)
	if err := <-dialled; !errors.Is(err, errLaneClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading from the other side gives %v", err)
	}
}
