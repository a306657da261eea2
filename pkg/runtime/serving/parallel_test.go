package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/metrics"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/must"
)

// unread sends many requests for health on a connection of HTTP/2, and permits no byte of a body to be sent back. It
// returns when the server has said that it takes no further ones, as it does to anonymous clients.
func unread(t *testing.T, address string, requests int) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	var sent, fields bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	frames, encoder := http2.NewFramer(&sent, nil), hpack.NewEncoder(&fields)
	write := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write(frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	write(frames.WriteSettingsAck())
	for n := range requests {
		fields.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/healthz"}} {
			write(encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		write(frames.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: fields.Bytes(), EndStream: true, EndHeaders: true}))
	}
	if _, err := conn.Write(sent.Bytes()); err != nil {
		t.Fatal(err)
	}
	answers := http2.NewFramer(io.Discard, conn)
	for {
		frame, err := answers.ReadFrame()
		write(err)
		if frame.Header().Type == http2.FrameGoAway {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
}

// Who sends many requests on each connection and reads no response has the process keep only a few of them.
// Pins MGR-230.
func TestWhoReadsNoResponseHasFewRequestsKept(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
	memory, threads := heap(), goruntime.NumGoroutine()
	const connections, requests = 20, 100
	for range connections {
		unread(t, s.address(), requests)
	}
	// Each connection has a goroutine that accepts frames, one that reads them, and one of this test.
	const most = connections * (maxParallel + 3 + 2)
	eventually(t, "only a few requests are kept", func() error {
		if more := goruntime.NumGoroutine() - threads; more > most {
			return fmt.Errorf("%d goroutines more, want at most %d", more, most)
		}
		return nil
	})
	t.Logf("%d KiB and %d goroutines more", (int64(heap())-int64(memory))>>10, goruntime.NumGoroutine()-threads)
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK)
}

// A client that reads nothing at all holds what is being sent to it for a while only. Pins MGR-230.
func TestAConnectionThatNobodyReadsIsClosed(t *testing.T) {
	ended := make(chan struct{})
	s := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for chunk := make([]byte, 1<<20); ; {
			if _, err := w.Write(chunk); err != nil {
				close(ended)
				return
			}
		}
	}), &server.SecureServingInfo{})
	if s.HTTP2.WriteByteTimeout != stalledTimeout {
		t.Errorf("a connection is closed after %v, want %v", s.HTTP2.WriteByteTimeout, stalledTimeout)
	}
	s.HTTP2.WriteByteTimeout = 100 * time.Millisecond
	test := httptest.NewUnstartedServer(nil)
	test.Config, test.EnableHTTP2 = s, true
	test.StartTLS()
	t.Cleanup(test.Close)

	conn := must.Get((&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).DialContext(t.Context(), "tcp", test.Listener.Addr().String()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	var sent, fields bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	frames, encoder := http2.NewFramer(&sent, nil), hpack.NewEncoder(&fields)
	const window = 1<<31 - 1
	must.Succeed(t, frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	must.Succeed(t, frames.WriteWindowUpdate(0, window-1<<16))
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/"}} {
		must.Succeed(t, encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	must.Succeed(t, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fields.Bytes(), EndStream: true, EndHeaders: true}))
	must.Get(conn.Write(sent.Bytes()))(t)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the response is still being sent")
	}
}

// Pins MGR-230.
func TestRequestsOfAConnectionAreBoundedInNumber(t *testing.T) {
	s := newStrangers(freePaths([]string{"/healthz"}), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), NewMetrics(metrics.NewKubeRegistry()))
	c := newConnections(10, s.metrics).add(&pipe{from: "10.0.0.1"})
	arrived, goOn := make(chan struct{}), make(chan struct{})
	h := s.parallel(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-goOn
		}
		_, _ = io.WriteString(w, "ok")
	}))
	ask := func(path string, major int) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.ProtoMajor = major
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connKey{}, c)))
		return w
	}
	for range 3 * maxParallel {
		if w := ask("/healthz", 2); w.Code != http.StatusOK || !w.Flushed {
			t.Fatalf("one after the other: answered with %d, sent %v", w.Code, w.Flushed)
		}
	}
	var slow sync.WaitGroup
	for range maxParallel {
		slow.Go(func() { ask("/slow", 2) })
		<-arrived
	}
	if w := ask("/healthz", 2); w.Code != http.StatusTooManyRequests || w.Body.Len() != 0 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: answered with %d, %q, %v", w.Code, w.Body, w.Header())
	}
	if w := ask("/healthz", 1); w.Code != http.StatusOK {
		t.Errorf("HTTP/1.1, which has one at a time: answered with %d", w.Code)
	}
	c.trust()
	if w := ask("/healthz", 2); w.Code != http.StatusOK {
		t.Errorf("who is authorized: answered with %d", w.Code)
	}
	close(goOn)
	slow.Wait()
	if n := c.answering.Load(); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}
