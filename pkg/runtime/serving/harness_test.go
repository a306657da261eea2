package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/pki"
	"kcmd.dev/test/ports"
)

// patience bounds every wait.
const patience = 20 * time.Second

// settings serve on a free port of the loopback address, and ask nobody about requests:
// health is open, and everything else is forbidden.
func settings(t testing.TB) v1beta1.Serving {
	t.Helper()
	c := v1beta1.NewDefault().Serving
	c.BindAddress, c.Port = "127.0.0.1", ptr.To(ports.FreeFor(t))
	c.Authentication.SkipLookup = ptr.To(true)
	c.Authentication.CacheTTL = &metav1.Duration{Duration: time.Second}
	return c
}

// served is a server with the content of site, and /healthz replaced by a handler.
func served(t testing.TB, health http.HandlerFunc) *Server {
	t.Helper()
	s := New(func(c v1beta1.Serving) http.Handler {
		all := site().Handler(c)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if health != nil && r.URL.Path == "/healthz" {
				health(w, r)
				return
			}
			all.ServeHTTP(w, r)
		})
	}, NewMetrics(metrics.NewKubeRegistry()))
	s.generated = selfSigned()
	t.Cleanup(s.Shutdown)
	return s
}

// selfSigned is a pair for the address of settings, made once for all servers: making one takes longer than most tests do.
var selfSigned = sync.OnceValue(func() *generated {
	c := v1beta1.NewDefault().Serving
	c.BindAddress = "127.0.0.1"
	_, pair, err := defaultCertificate(c, nil)
	if err != nil {
		panic(err)
	}
	return pair
})

func apply(t testing.TB, s *Server, c v1beta1.Serving) {
	t.Helper()
	if err := try(t, s, c); err != nil {
		t.Fatal(err)
	}
}

// try is apply that returns why a configuration is refused.
func try(t testing.TB, s *Server, c v1beta1.Serving) error {
	t.Helper()
	change, err := s.Prepare(t.Context(), c)
	if err == nil {
		change.Commit(t.Context())
	}
	return err
}

// client keeps no connection, unless told to.
func client(t testing.TB, change func(*http.Transport)) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	if change != nil {
		change(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func urlOf(c v1beta1.Serving, path string) string {
	return fmt.Sprintf("https://127.0.0.1:%d%s", *c.Port, path)
}

// ask returns an answer whose body has been read.
func ask(t testing.TB, from *http.Client, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err // no end of the test: it may be asked by another goroutine
	}
	response, err := from.Do(request)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response, response.Body.Close()
}

func wantCode(t testing.TB, from *http.Client, url string, want int) *http.Response {
	t.Helper()
	response, err := ask(t, from, url)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != want {
		t.Errorf("%s is answered with %d, want %d", url, response.StatusCode, want)
	}
	return response
}

// turnedAway is how many were turned away for a reason.
func turnedAway(t testing.TB, m *Metrics, reason string) int {
	t.Helper()
	count, err := testutil.GetCounterMetricValue(m.turnedAway.WithLabelValues(reason))
	if err != nil {
		t.Fatal(err)
	}
	return int(count)
}

// eventually waits until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// pair writes a new self-signed pair for a host name over the files of a folder.
func pair(t testing.TB, folder, name string) (certFile, keyFile string) {
	t.Helper()
	made := pki.CA(t, time.Now(), func(c *x509.Certificate) { c.DNSNames = []string{name} })
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for file, content := range map[string][]byte{certFile: made.Cert, keyFile: made.Key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// presented is the certificate that the server shows to who asks for a host name.
func presented(t testing.TB, c v1beta1.Serving, name string) (*x509.Certificate, error) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}}
	conn, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", *c.Port))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func wantName(t testing.TB, c v1beta1.Serving, ask, want string) {
	t.Helper()
	eventually(t, "the certificate of "+want+" is presented", func() error {
		cert, err := presented(t, c, ask)
		if err != nil {
			return err
		}
		return cert.VerifyHostname(want)
	})
}

// address is where the server listens, empty if it does not.
func (s *Server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return ""
	}
	return s.current.socket.Addr().String()
}

// output is where the log of all tests goes: klog cannot be told another place while somebody logs.
var output = &logged{}

func TestMain(m *testing.M) {
	flags := klogFlags()
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	klog.SetOutput(output)
	os.Exit(m.Run())
}

func klogFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags
}

// logged is what klog writes.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer // since a test has begun to look
}

// Write implements io.Writer.
func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines.Write(line)
	return os.Stderr.Write(line)
}

// lineWith returns the first line that contains a text, empty if there is none.
func (l *logged) lineWith(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.lines.String()) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// logAt has everything logged that has a verbosity, until the end of the test. It returns what is logged from now on.
func logAt(t *testing.T, verbosity string) *logged {
	t.Helper()
	level := klogFlags().Lookup("v").Value
	before := level.String()
	if err := level.Set(verbosity); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = level.Set(before) })
	output.mu.Lock()
	defer output.mu.Unlock()
	output.lines.Reset()
	return output
}
