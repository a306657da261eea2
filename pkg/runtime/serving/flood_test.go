package serving

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"

	"kcmd.dev/pkg/config/v1beta1"
)

// dial opens TCP connections and sends nothing, until the test ends.
func dial(t *testing.T, address string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	})
	var dialer net.Dialer
	for i := range conns {
		c, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	return conns
}

func heap() uint64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// The bounds of a flood: goroutines for each connection that may be open, and memory for
// their TLS states and buffers.
const (
	floodConnections = 2000
	maxFloodThreads  = 3*maxConnections + 100
	maxFloodMemory   = 64 << 20
)

func TestAFloodOfConnectionsTakesABoundedAmount(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	memory, threads := heap(), goruntime.NumGoroutine()
	dial(t, s.address(), floodConnections)

	eventually(t, "the flood has been seen", func() error {
		if refused := turnedAway(t, s.metrics, tooManyConnections); refused < floodConnections-maxConnections {
			return fmt.Errorf("%d connections were refused", refused)
		}
		return nil
	})
	// A probe still gets through: the first, and each of many.
	for range 20 {
		wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	}
	open, refused := s.connections.count(), turnedAway(t, s.metrics, tooManyConnections)
	grown, more := int64(heap())-int64(memory), goruntime.NumGoroutine()-threads
	t.Logf("with %d connections: %d open, %d refused, %d KiB and %d goroutines more", floodConnections, open, refused, grown>>10, more)
	if open > maxConnections || more > maxFloodThreads || grown > maxFloodMemory {
		t.Errorf("%d open, %d goroutines and %d bytes more; want at most %d, %d and %d", open, more, grown, maxConnections, maxFloodThreads, maxFloodMemory)
	}
}

// Requests that would have to be judged by the API server are answered with 429 beyond a
// rate; health is read all the while.
func TestAFloodOfRequestsIsTurnedAway(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	const askers, each = 8, 100
	codes := make(chan int, askers*each)
	began := time.Now()
	var flood sync.WaitGroup
	for range askers {
		from := client(t, func(tr *http.Transport) { tr.DisableKeepAlives, tr.ForceAttemptHTTP2 = false, false })
		flood.Go(func() {
			for n := range each {
				response, err := ask(t, from, urlOf(c, fmt.Sprintf("/no-such-page-%d", n)))
				if err != nil {
					t.Error(err)
					return
				}
				codes <- response.StatusCode
			}
		})
	}
	for range 20 {
		wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	}
	flood.Wait()
	close(codes)
	judged, total := 0, 0
	for code := range codes {
		total++
		switch code {
		case http.StatusForbidden:
			judged++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("a request is answered with %d", code)
		}
	}
	t.Logf("%d of %d requests were judged", judged, total)
	// The bucket fills again while the flood lasts.
	if most := strangerBurst + strangerRate*(int(time.Since(began).Seconds())+10); total != askers*each || judged > most || judged < 1 {
		t.Errorf("%d of %d requests were judged, want at most %d", judged, total, most)
	}
}

// Who is slow is cut off, and takes no part in what others get.
func TestSlowClientsAreCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a header may")
	}
	t.Parallel()
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	silent := dial(t, s.address(), 1)[0]
	began := time.Now()
	if err := silent.SetReadDeadline(began.Add(readHeaderTimeout + patience)); err != nil {
		t.Fatal(err)
	}
	_, err := silent.Read(make([]byte, 1))
	if took := time.Since(began); !errors.Is(err, io.EOF) && !isReset(err) || took < readHeaderTimeout/2 {
		t.Errorf("a client that says nothing: %v after %v", err, took)
	}
}

func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "connection reset") }

func TestLargeHeadersAndBodiesAreRefused(t *testing.T) {
	s, c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	}), settings(t)
	apply(t, s, c)
	for name, protocol := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		from := client(t, func(tr *http.Transport) { tr.ForceAttemptHTTP2 = protocol })
		large, err := http.NewRequestWithContext(t.Context(), http.MethodGet, urlOf(c, "/healthz"), nil)
		if err != nil {
			t.Fatal(err)
		}
		large.Header.Set("X-Large", strings.Repeat("x", 2*maxHeaderBytes))
		if response, err := from.Do(large); err == nil {
			_ = response.Body.Close()
			if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("%s: a large header is answered with %s", name, response.Status)
			}
		}
		for size, want := range map[int]int{maxBody: http.StatusOK, maxBody + 1: http.StatusRequestEntityTooLarge} {
			post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urlOf(c, "/healthz"), bufio.NewReader(strings.NewReader(strings.Repeat("x", size))))
			if err != nil {
				t.Fatal(err)
			}
			response, err := from.Do(post)
			if err != nil {
				t.Errorf("%s: a body of %d bytes: %v", name, size, err)
				continue
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%s: a body of %d bytes is answered with %s, want %d", name, size, response.Status, want)
			}
		}
	}
}

// limited records how long responses of HTTP/1.1 may take, and has that be over when it is told to.
type limited struct {
	mu      sync.Mutex
	allowed []time.Duration
	writers []http.ResponseWriter
}

func (l *limited) known() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.allowed)
}

func (l *limited) over() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.writers {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now())
	}
}

// limitedWriter is a writer whose deadline is recorded instead of kept.
type limitedWriter struct {
	http.ResponseWriter
	by *limited
}

// SetWriteDeadline is what http.ResponseController calls.
func (w limitedWriter) SetWriteDeadline(deadline time.Time) error {
	w.by.mu.Lock()
	defer w.by.mu.Unlock()
	w.by.allowed = append(w.by.allowed, time.Until(deadline))
	w.by.writers = append(w.by.writers, w.ResponseWriter)
	return nil
}

// Metrics may be open to anybody. Clients that ask for them and read nothing do not keep them from others for ever.
// Pins MGR-210.
func TestWhoDoesNotReadMetricsIsCutOff(t *testing.T) {
	content, registry := site(), prometheus.NewRegistry()
	// More than what sockets hold.
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "large", Help: strings.Repeat("x", 32<<20)}))
	content.Metrics = registry
	var limits limited
	s := New(func(c v1beta1.Serving) http.Handler {
		all := content.Handler(c)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 1 {
				w = limitedWriter{w, &limits}
			}
			all.ServeHTTP(w, r)
		})
	}, NewMetrics(metrics.NewKubeRegistry()))
	s.generated = selfSigned()
	t.Cleanup(s.Shutdown)
	c := settings(t)
	c.Authorization.AlwaysAllowPaths = []string{"/metrics"}
	apply(t, s, c)
	other := client(t, nil) // of HTTP/2
	wait := func(what string, want int) {
		t.Helper()
		eventually(t, what, func() error {
			switch response, err := ask(t, other, urlOf(c, "/metrics")); {
			case err != nil:
				return err
			case response.StatusCode != want:
				return errors.New(response.Status)
			}
			return nil
		})
	}

	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	for range maxScrapes {
		silent, err := dialer.DialContext(t.Context(), "tcp", s.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = silent.Close() })
		if _, err := io.WriteString(silent, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	wait("all readers are served that may be", http.StatusServiceUnavailable)
	for _, allowed := range limits.known() {
		if allowed <= time.Minute-patience || allowed > time.Minute {
			t.Errorf("a response may take %v, want %v", allowed, time.Minute)
		}
	}
	limits.over()
	wait("somebody else is served", http.StatusOK)
}
