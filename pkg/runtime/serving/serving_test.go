package serving

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/ports"
)

// Pins MGR-99 and MGR-152.
func TestOnlyHealthIsOpen(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	stranger := client(t, nil)
	wantCode(t, stranger, urlOf(c, "/healthz"), http.StatusOK)
	for _, path := range []string{"/healthz/ping", "/metrics", "/configz", "/statusz", "/flagz", "/debug/pprof/", "/debug/flags/v", "/"} {
		response := wantCode(t, stranger, urlOf(c, path), http.StatusForbidden)
		if got := response.Header.Get("X-Content-Type-Options"); got != "nosniff" {
			t.Errorf("%s: X-Content-Type-Options is %q", path, got)
		}
	}
}

// knock reads health again and again until it is told to stop, and returns what failed.
func knock(t *testing.T, url string, stop <-chan struct{}) <-chan error {
	outcome := make(chan error, 1)
	from := client(t, nil)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				outcome <- nil
				return
			default:
			}
			if response, err := ask(t, from, url); err != nil || response.StatusCode != http.StatusOK {
				outcome <- fmt.Errorf("request %d: %w", n, errors.Join(err, errors.New("health cannot be read")))
				return
			}
		}
	}()
	return outcome
}

// Everything but the address changes on the open socket: nobody is turned away.
// Pins MGR-181.
func TestNobodyIsTurnedAwayDuringAChange(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	stop := make(chan struct{})
	var knocking []<-chan error
	for range 4 {
		knocking = append(knocking, knock(t, urlOf(c, "/healthz"), stop))
	}
	for _, version := range []string{"VersionTLS13", "VersionTLS12", "VersionTLS13"} {
		c.TLS.MinVersion = version
		apply(t, s, c)
		wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	}
	renewed, err := s.Renew(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	renewed.Commit(t.Context())
	close(stop)
	for _, k := range knocking {
		if err := <-k; err != nil {
			t.Error(err)
		}
	}
	old := client(t, func(tr *http.Transport) { tr.TLSClientConfig.MaxVersion = tls.VersionTLS12 })
	if _, err := ask(t, old, urlOf(c, "/healthz")); err == nil {
		t.Error("TLS 1.2 is accepted although 1.3 is the lowest version")
	}
}

// Pins MGR-181.
func TestRequestsUnderWayEndOnTheOldListener(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var entering atomic.Bool
	s, c := served(t, func(http.ResponseWriter, *http.Request) {
		if entering.CompareAndSwap(false, true) {
			close(entered)
			<-leave
		}
	}), settings(t)
	apply(t, s, c)
	former := urlOf(c, "/healthz")
	answered := make(chan error, 1)
	go func() {
		response, err := ask(t, client(t, nil), former)
		if err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		answered <- err
	}()
	<-entered
	c.Port = ptr.To(ports.FreeFor(t))
	apply(t, s, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	if _, err := ask(t, client(t, nil), former); err == nil {
		t.Error("the old port is still open")
	}
	close(leave)
	if err := <-answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
}

// fieldOf is the field to blame for an error, empty if there is none.
func fieldOf(err error) string {
	var of *FieldError
	if !errors.As(err, &of) {
		return ""
	}
	return of.Field
}

// Pins MGR-181.
func TestABusyPortChangesNothing(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	other := c
	other.Port = ptr.To(int32(busy.Addr().(*net.TCPAddr).Port))
	if err := try(t, s, other); err == nil || !strings.Contains(err.Error(), "address already in use") || fieldOf(err) != "serving.port" {
		t.Errorf("got %v, the field to blame is %q", err, fieldOf(err))
	}
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	if want := fmt.Sprintf("127.0.0.1:%d", *c.Port); s.address() != want {
		t.Errorf("serving on %s, want %s", s.address(), want)
	}
}

// The old listener is in the way of the new one: all addresses, and one of them.
func TestAnotherAddressWithTheSamePort(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	c.BindAddress = "0.0.0.0"
	apply(t, s, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	bad := c
	bad.BindAddress = "192.0.2.1" // nobody's
	if err := try(t, s, bad); err == nil {
		t.Error("an address that the machine does not have is served")
	}
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	c.BindAddress = "127.0.0.1"
	apply(t, s, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)

	off := c
	off.Port = ptr.To(int32(0))
	apply(t, s, off)
	if _, err := ask(t, client(t, nil), urlOf(c, "/healthz")); err == nil || s.address() != "" {
		t.Errorf("it is still served, on %q", s.address())
	}
	apply(t, s, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
}

// Pins MGR-150.
func TestThePortIsSharedOnRequest(t *testing.T) {
	first, second, c := served(t, nil), served(t, nil), settings(t)
	apply(t, first, c)
	if err := try(t, second, c); err == nil {
		t.Fatal("a second process listens on the same port without permission")
	}
	c.PermitPortSharing = ptr.To(true)
	apply(t, first, c)
	apply(t, second, c)
	if first.address() != second.address() {
		t.Errorf("serving on %s and %s", first.address(), second.address())
	}
	c.PermitPortSharing, c.PermitAddressSharing = ptr.To(false), ptr.To(true)
	second.Shutdown()
	apply(t, first, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
}

// Pins MGR-118.
func TestCertificatesAreFollowed(t *testing.T) {
	s, c := served(t, nil), settings(t)
	folder := t.TempDir()
	c.TLS.CertFile, c.TLS.PrivateKeyFile = pair(t, folder, "one.example.org")
	named := t.TempDir()
	var sni v1beta1.SNICertificate
	sni.CertFile, sni.PrivateKeyFile = pair(t, named, "named.example.org")
	c.TLS.SNICertificates = []v1beta1.SNICertificate{sni}
	apply(t, s, c)
	wantName(t, c, "", "one.example.org")
	wantName(t, c, "named.example.org", "named.example.org")

	// In place.
	pair(t, folder, "two.example.org")
	wantName(t, c, "", "two.example.org")

	// A certificate without its key leaves the pair before in use; it shows once the key
	// has come.
	other := t.TempDir()
	certFile, keyFile := pair(t, other, "three.example.org")
	replace(t, certFile, c.TLS.CertFile)
	wantName(t, c, "", "two.example.org")
	replace(t, keyFile, c.TLS.PrivateKeyFile)
	wantName(t, c, "", "three.example.org")

	// A setting that cannot be used is refused.
	bad := c
	bad.TLS.PrivateKeyFile = sni.PrivateKeyFile
	if err := try(t, s, bad); err == nil || !strings.Contains(err.Error(), "loading the serving certificate") {
		t.Errorf("got %v", err)
	}
	wantName(t, c, "", "three.example.org")

	// Explicit names, here a wildcard, instead of those in the certificate.
	c.TLS.SNICertificates = []v1beta1.SNICertificate{{CertFile: sni.CertFile, PrivateKeyFile: sni.PrivateKeyFile, Names: []string{"*.example.net"}}}
	apply(t, s, c)
	wantName(t, c, "a.example.net", "named.example.org")
	wantName(t, c, "a.example.com", "three.example.org")
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Pins MGR-27.
func TestTheGeneratedCertificateStays(t *testing.T) {
	s, c := served(t, nil), settings(t)
	s.generated = nil // it makes its own
	apply(t, s, c)
	before, err := presented(t, c, "")
	if err != nil {
		t.Fatal(err)
	}
	c.HTTP2.MaxStreamsPerConnection = ptr.To(int32(7))
	apply(t, s, c)
	after, err := presented(t, c, "")
	if err != nil || !after.Equal(before) {
		t.Errorf("another certificate is presented after a change that has nothing to do with it: %v", err)
	}
	c.TLS.CertDirectory = filepath.Join(t.TempDir(), "certs")
	apply(t, s, c)
	kept, err := presented(t, c, "")
	if err != nil || kept.Equal(before) {
		t.Errorf("the pair of the directory is not used: %v", err)
	}
	if _, err := os.Stat(filepath.Join(c.TLS.CertDirectory, "kube-controller-manager.key")); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNegotiated(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	if got := wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK); got.ProtoMajor != 2 {
		t.Errorf("%s is spoken", got.Proto)
	}
	c.HTTP2.Enabled = ptr.To(false)
	apply(t, s, c)
	if got := wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK); got.ProtoMajor != 1 {
		t.Errorf("%s is spoken although HTTP/2 is off", got.Proto)
	}
	c.TLS.CurvePreferences = []string{"CurveP384"}
	apply(t, s, c)
	p256 := client(t, func(tr *http.Transport) { tr.TLSClientConfig.CurvePreferences = []tls.CurveID{tls.CurveP256} })
	if _, err := ask(t, p256, urlOf(c, "/healthz")); err == nil {
		t.Error("a curve that is not preferred is accepted")
	}
	p384 := client(t, func(tr *http.Transport) { tr.TLSClientConfig.CurvePreferences = []tls.CurveID{tls.CurveP384} })
	if got := wantCode(t, p384, urlOf(c, "/healthz"), http.StatusOK); got.TLS.CurveID != tls.CurveP384 {
		t.Errorf("curve %s", got.TLS.CurveID)
	}
	c.TLS.CipherSuites = []string{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}
	apply(t, s, c)
	old := client(t, func(tr *http.Transport) { tr.TLSClientConfig.MaxVersion = tls.VersionTLS12 })
	if got := wantCode(t, old, urlOf(c, "/healthz"), http.StatusOK); got.TLS.CipherSuite != tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 {
		t.Errorf("cipher suite %x", got.TLS.CipherSuite)
	}
}

// Pins MGR-109.
func TestContentionIsProfiledOnRequest(t *testing.T) {
	s, c := served(t, nil), settings(t)
	// waits are what the profile has counted of this test. It keeps what it has, also from a run before.
	waits := func() string {
		var profile, own strings.Builder
		if err := pprof.Lookup("block").WriteTo(&profile, 1); err != nil {
			t.Fatal(err)
		}
		for record := range strings.SplitSeq(profile.String(), "\n\n") {
			if strings.Contains(record, "TestContentionIsProfiledOnRequest") {
				_, counts, _ := strings.Cut(record, "cycles/second=") // the first record follows the speed of the machine
				own.WriteString(cmp.Or(counts[strings.IndexByte(counts, '\n')+1:], record))
			}
		}
		return own.String()
	}
	// contend waits for a channel at a place that is its own, and reports whether the profile counts it.
	contend := func() bool {
		before, ready := waits(), make(chan struct{})
		go func() {
			goruntime.Gosched()
			close(ready)
		}()
		<-ready
		return waits() != before
	}
	apply(t, s, c)
	if contend() {
		t.Error("contention is profiled without being asked for")
	}
	c.ContentionProfiling = ptr.To(true)
	apply(t, s, c)
	eventually(t, "contention is in the profile", func() error {
		if !contend() {
			return errors.New("it is not")
		}
		return nil
	})
	c.ContentionProfiling = ptr.To(false)
	apply(t, s, c)
}

func TestHandlersFollowTheConfiguration(t *testing.T) {
	var profiling atomic.Bool
	s := New(func(c v1beta1.Serving) http.Handler {
		profiling.Store(*c.Profiling)
		return nothing
	}, NewMetrics(metrics.NewKubeRegistry()))
	t.Cleanup(s.Shutdown)
	c := settings(t)
	apply(t, s, c)
	if !profiling.Load() {
		t.Error("profiling is off")
	}
	c.Profiling = ptr.To(false)
	apply(t, s, c)
	if profiling.Load() {
		t.Error("profiling is still on")
	}
}
