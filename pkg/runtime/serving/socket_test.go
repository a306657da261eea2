package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// idleProbe is how long the newest connection is idle before the server probes it.
func (s *Server) idleProbe(t *testing.T) time.Duration {
	t.Helper()
	s.connections.mu.Lock()
	defer s.connections.mu.Unlock()
	for _, all := range s.connections.strangers {
		raw := must.Get(all[len(all)-1].Conn.(*net.TCPConn).SyscallConn())(t)
		var enabled, seconds int
		must.Succeed(t, raw.Control(func(fd uintptr) {
			enabled = must.Get(unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE))(t)
			seconds = must.Get(unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE))(t)
		}))
		return time.Duration(enabled*seconds) * time.Second
	}
	t.Fatal("there is no connection")
	return 0
}

// What clients find by default, also after an edit, when another listener serves the same socket. Pins MGR-94.
func TestWhatClientsFind(t *testing.T) {
	s, c := served(t, nil), quick(t)
	ca := pki.CA(t, time.Now())
	c.Authentication.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt")
	pki.WriteFile(t, c.Authentication.ClientCAFile, ca.Cert)
	apply(t, s, c)
	wantWhatClientsFind(t, s, c)
	c.Authentication.CacheTTL.Duration *= 2
	apply(t, s, c)
	wantWhatClientsFind(t, s, c)
}

func wantWhatClientsFind(t *testing.T, s *Server, c v1beta1.Serving) {
	t.Helper()
	asked := false
	of := func(version uint16, protocols ...string) *tls.Config {
		return &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version, NextProtos: protocols,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return &tls.Certificate{}, nil
			},
		}
	}
	dial := func(config *tls.Config) (*tls.Conn, error) {
		asked = false
		dialer := tls.Dialer{Config: config}
		conn, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", *c.Port))
		if err != nil {
			return nil, err
		}
		return conn.(*tls.Conn), nil
	}
	if _, err := dial(of(tls.VersionTLS11)); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	for _, protocol := range []string{"h2", "http/1.1"} {
		conn := must.Get(dial(of(tls.VersionTLS12, protocol)))(t)
		if got := conn.ConnectionState().NegotiatedProtocol; got != protocol || !asked {
			t.Errorf("of %q %q is spoken, a certificate is asked for: %v", protocol, got, asked)
		}
		must.Succeed(t, conn.Close())
	}
	conn := must.Get(dial(of(tls.VersionTLS13, "h2")))(t)
	defer func() { _ = conn.Close() }()
	must.Get(conn.Write([]byte(http2.ClientPreface)))(t)
	framer := http2.NewFramer(conn, conn)
	must.Succeed(t, framer.WriteSettings())
	frame := must.Get(framer.ReadFrame())(t)
	announced, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame is %v", frame)
	}
	if streams, ok := announced.Value(http2.SettingMaxConcurrentStreams); !ok || streams != 100 {
		t.Errorf("%d streams are permitted", streams)
	}
	if got := s.idleProbe(t); got != 3*time.Minute {
		t.Errorf("an idle connection is probed after %v", got)
	}
	wantCode(t, client(t, nil), urlOf(c, "/healthz"), http.StatusOK) // without a certificate
	wantCode(t, client(t, nil), fmt.Sprintf("http://127.0.0.1:%d/healthz", *c.Port), http.StatusBadRequest)
}

// Handshakes that fail are logged for those who look for them. Pins MGR-94.
func TestFailedHandshakesAreLoggedQuietly(t *testing.T) {
	s, c := served(t, nil), quick(t)
	apply(t, s, c)
	fail := func() {
		t.Helper()
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}}
		if conn, err := dialer.DialContext(t.Context(), "tcp", s.address()); err == nil {
			_ = conn.Close()
			t.Fatal("TLS 1.1 is accepted")
		}
	}
	lines := logAt(t, "5")
	fail()
	eventually(t, "the failure is logged", func() error {
		if lines.lineWith("TLS handshake error") == "" {
			return errors.New("it is not")
		}
		return nil
	})
	lines = logAt(t, "4")
	if _, err := (connectionErrors{}).Write([]byte("TLS handshake error")); err != nil || lines.lineWith("handshake") != "" {
		t.Errorf("logged at a lower level: %q, %v", lines.lineWith("handshake"), err)
	}
}
