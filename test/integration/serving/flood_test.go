package serving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
)

// What a flood of connections may cost the process: memory for the TLS states of as many
// as may be open, and a few goroutines for each of them.
const (
	floodConnections    = 2000
	maxFloodKilobytes   = 64 << 10
	maxFloodGoroutines  = 2000
	connectionsPerThird = 3 // of these, one says nothing, one greets and stops, one asks
)

// flood opens many connections of strangers, of several kinds, and looks at what the
// process needs, and whether the others are still served.
func flood(t *testing.T, m *manager.Process) {
	address := strings.TrimPrefix(m.URL(), "https://")
	memory, goroutines := residentKilobytes(t, m), countGoroutines(t, m)
	for n := range floodConnections {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, byte(1+n%8))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		switch n % connectionsPerThird {
		case 1: // the beginning of a handshake that never goes on
			_, _ = conn.Write([]byte{22, 3, 1, 2, 0, 1})
		case 2: // no TLS at all
			_, _ = io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	probe := from(t, 501)
	for range 20 {
		got, err := ask(t, probe, http.MethodGet, m.URL()+"/livez", "", nil)
		if err != nil || got.code != http.StatusOK {
			t.Fatalf("a probe gets %d, %v", got.code, err)
		}
	}
	// Who was authorized before keeps the connection and its rights.
	grown, more := residentKilobytes(t, m)-memory, countGoroutines(t, m)-goroutines
	t.Logf("%d connections: %d KiB of memory and %d goroutines more (%d KiB, %d before)", floodConnections, grown, more, memory, goroutines)
	if grown > maxFloodKilobytes || more > maxFloodGoroutines {
		t.Errorf("%d KiB of memory and %d goroutines more, want at most %d and %d", grown, more, maxFloodKilobytes, maxFloodGoroutines)
	}
}

// residentKilobytes is the memory of the process, as Linux counts it.
func residentKilobytes(t *testing.T, m *manager.Process) int {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", m.PID()))
	if err != nil {
		t.Skip("there is no /proc: ", err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes
		}
	}
	t.Fatal("the memory of the process is not known")
	return 0
}

func countGoroutines(t *testing.T, m *manager.Process) int {
	t.Helper()
	body, err := m.Get(t.Context(), "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	var count int
	if _, err := fmt.Sscanf(string(body), "goroutine profile: total %d", &count); err != nil {
		t.Fatal(err)
	}
	return count
}

// logLevel sets the level of the log while the process runs.
func logLevel(t *testing.T, m *manager.Process) {
	put := func(level string) answer {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, m.URL()+"/debug/flags/v", strings.NewReader(level))
		if err != nil {
			t.Fatal(err)
		}
		response, err := m.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return answer{code: response.StatusCode, body: string(body)}
	}
	if got := put("much"); got.code != http.StatusBadRequest {
		t.Errorf("a level that is none is answered with %d %s", got.code, got.body)
	}
	if got := put("6"); got.code != http.StatusOK || got.body != "successfully set klog.logging.verbosity to 6\n" {
		t.Fatalf("the level is answered with %d %s", got.code, got.body)
	}
	// Requests are logged from level 3 on.
	await.That(t, "requests are logged", func(context.Context) error {
		if _, err := m.Get(t.Context(), "/healthz"); err != nil {
			return err
		}
		log, err := os.ReadFile(m.LogFile())
		if err == nil && !strings.Contains(string(log), `verb="GET" URI="/healthz"`) {
			err = errors.New("they are not")
		}
		return err
	})
	if got := put("0"); got.code != http.StatusOK {
		t.Errorf("the level is answered with %d %s", got.code, got.body)
	}
}
