package clients

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// TestCutDiscardsWhatIsNotSentYet fills a connection that nobody reads: after the cut, the
// other side gets less than was written, and an error at its end.
func TestCutDiscardsWhatIsNotSentYet(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	l, err := newLane(&rest.Config{Host: "http://" + listener.Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	written := fill(t, conn)

	l.cut()
	l.cut()
	arrived, err := io.Copy(io.Discard, peer)
	if !errors.Is(err, syscall.ECONNRESET) || arrived >= written {
		t.Errorf("%d of %d bytes arrived, and then %v", arrived, written, err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after the cut gives %v", err)
	}
}

// A write can be under way on the connections of the credentials before when the ones of now are cut. Those connections are
// let go of when nothing is under way on them any more. Pins MGR-205.
func TestCutBreaksTheConnectionsOfEarlierCredentials(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	base := &rest.Config{Host: "http://" + listener.Addr().String()}
	l, err := newLink(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	busy := l.enter()
	conn, err := busy.dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	next, err := newLane(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.replace(next)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatalf("a write before the cut gives %v", err)
	}
	l.cut()
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after the cut gives %v", err)
	}
	busy.leave()
	if _, kept := l.retiring.Load(busy); kept || !busy.closed.Load() {
		t.Errorf("after the last request the connections are kept: %t, closed: %t", kept, busy.closed.Load())
	}
}

// fill writes until nothing more fits, and returns how many bytes did. That nothing was written in time does not mean it
// at once: the test may have had no time in between.
func fill(t *testing.T, conn net.Conn) int64 {
	t.Helper()
	chunk, written := make([]byte, 1<<20), int64(0)
	for nothing := 0; nothing < 2; {
		if err := conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Write(chunk)
		written += int64(n)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("writing more than fits gives %v", err)
		}
		if nothing++; n > 0 {
			nothing = 0
		}
	}
	return written
}

// TestCutAccountsLeavesOwnConnection cuts: controllers go on over another connection, what
// uses the credentials of the process keeps its own.
func TestCutAccountsLeavesOwnConnection(t *testing.T) {
	s, _, c, _ := acting(t)
	write := func(account string) {
		t.Helper()
		set, err := c.For(Identity{Name: "c", ServiceAccount: account}, NewFence())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap(nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	write("job-controller") // also gets a token with the credentials of the process
	before := s.connections.Load()
	c.CutAccounts()
	write("")
	if got := s.connections.Load() - before; got != 0 {
		t.Errorf("%d further connections of the process, want none", got)
	}
	write("job-controller")
	if got := s.connections.Load() - before; got != 1 {
		t.Errorf("%d further connections of controllers, want 1", got)
	}
}

// A watch on a connection that is broken ends like one that the API server ends: a reflector lists nothing again. Pins
// MGR-267.
func TestCutAllEndsWatchesWithoutAnError(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}}`+"\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c, err := New(Options{Base: &rest.Config{
		Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	set, err := c.For(Identity{Name: "shared-informers"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if first := <-w.ResultChan(); first.Type != watch.Added {
		t.Fatalf("the first event is %v", first)
	}
	c.CutAll()
	if event, open := <-w.ResultChan(); open {
		t.Errorf("it ends with %v", event)
	}
}
