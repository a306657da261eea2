package serving

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/ports"
)

// What is prepared has no effect: whoever uses the endpoint meanwhile notices nothing, and
// neither when it is given up.
func TestWhatIsPreparedIsNotServed(t *testing.T) {
	certFile, keyFile := pair(t, t.TempDir(), "localhost") // or each address has one generated, which takes long
	for name, edit := range map[string]func(*v1beta1.Serving){
		"another port":           func(c *v1beta1.Serving) { c.Port = ptr.To(ports.FreeFor(t)) },
		"all addresses":          func(c *v1beta1.Serving) { c.BindAddress = "0.0.0.0" },
		"all addresses, by IPv6": func(c *v1beta1.Serving) { c.BindAddress = "::" },
		"another address":        func(c *v1beta1.Serving) { c.BindAddress = "127.0.0.2" },
		"no endpoint":            func(c *v1beta1.Serving) { c.Port = ptr.To(int32(0)) },
		"another TLS version":    func(c *v1beta1.Serving) { c.TLS.MinVersion = "VersionTLS13" },
		"a shared port":          func(c *v1beta1.Serving) { c.PermitPortSharing = ptr.To(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := served(t, nil), settings(t)
			c.TLS.CertFile, c.TLS.PrivateKeyFile = certFile, keyFile
			apply(t, s, c)
			next := c
			edit(&next)
			discardedUnnoticed(t, s, c, next)
			apply(t, s, next) // and it can still be had
			if *next.Port != 0 {
				wantAnswer(t, next)
			}
		})
	}
	t.Run("one address instead of all", func(t *testing.T) {
		s, c := served(t, nil), settings(t)
		c.TLS.CertFile, c.TLS.PrivateKeyFile = certFile, keyFile
		c.BindAddress = "0.0.0.0"
		apply(t, s, c)
		next := c
		next.BindAddress = "127.0.0.1"
		discardedUnnoticed(t, s, c, next)
		apply(t, s, next)
		wantAnswer(t, next)
		if conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.2:%d", *c.Port), time.Second); err == nil {
			_ = conn.Close()
			t.Error("another address is still served")
		}
	})
}

// discardedUnnoticed prepares a configuration and gives it up, while clients of the current
// one are answered.
func discardedUnnoticed(t *testing.T, s *Server, c, next v1beta1.Serving) {
	t.Helper()
	before, stop := s.address(), make(chan struct{})
	knocking := knock(t, urlOf(c, "/healthz"), stop)
	change, err := s.Prepare(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, c)
	if next.Port != nil && *next.Port != *c.Port && *next.Port != 0 {
		if _, err := presentedWithin(next, 200*time.Millisecond); err == nil {
			t.Error("what is prepared is served")
		}
	}
	change.Discard()
	for range 3 {
		wantAnswer(t, c)
	}
	close(stop)
	if err := <-knocking; err != nil {
		t.Error(err)
	}
	if s.address() != before {
		t.Errorf("serving on %s, before on %s", s.address(), before)
	}
}

// presentedWithin is the address of who completes a TLS handshake in time.
func presentedWithin(c v1beta1.Serving, limit time.Duration) (string, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", *c.Port), limit)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		return "", err
	}
	_, err = conn.Read(make([]byte, 1))
	return conn.RemoteAddr().String(), err
}

func wantAnswer(t *testing.T, c v1beta1.Serving) {
	t.Helper()
	host := c.BindAddress
	if host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	wantCode(t, client(t, nil), fmt.Sprintf("https://%s:%d/healthz", host, *c.Port), 200)
}

// The port of somebody else is refused also where the current listener shares it.
func TestAnAddressThatSomebodyElseServesIsRefused(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.3:%d", *c.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for address, field := range map[string]string{"0.0.0.0": "serving.port", "127.0.0.3": "serving.port", "192.0.2.1": "serving.bindAddress"} {
		next := c
		next.BindAddress = address
		if err := try(t, s, next); err == nil || !strings.Contains(err.Error(), "opening the port") || fieldOf(err) != field {
			t.Errorf("%s: got %v, the field to blame is %q", address, err, fieldOf(err))
		}
		wantAnswer(t, c)
	}
}

// followsCertificate starts a worker and a timer in goroutines, after the port is served.
const followsCertificate = "k8s.io/apiserver/pkg/server/dynamiccertificates.(*DynamicServingCertificateController).Run "

// What follows files and objects has goroutines from the moment it is made. That it is not followed is no error of it.
func TestAConfigurationThatIsRefusedLeavesNothingBehind(t *testing.T) {
	s, c := served(t, nil), settings(t)
	apply(t, s, c)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	folder := t.TempDir()
	certFile, keyFile := pair(t, folder, "a.example")
	missing := filepath.Join(folder, "missing")
	lookup := func(c *v1beta1.Serving) {
		c.Authentication.Kubeconfig, c.Authentication.SkipLookup = kubeconfigFor(t, "http://127.0.0.1:1"), ptr.To(false)
	}
	await.True(t, "the library has started what follows the certificate", func() bool {
		var stacks bytes.Buffer
		err := pprof.Lookup("goroutine").WriteTo(&stacks, 2)
		return err == nil && strings.Count(stacks.String(), "created by "+followsCertificate) == 2
	})
	before, log := goleak.IgnoreCurrent(), logAt(t, "0")
	for name, edit := range map[string]func(c *v1beta1.Serving){
		"a port that is taken": func(c *v1beta1.Serving) {
			c.Port = ptr.To(int32(taken.Addr().(*net.TCPAddr).Port))
			c.TLS.CertFile, c.TLS.PrivateKeyFile = certFile, keyFile
			c.TLS.SNICertificates = []v1beta1.SNICertificate{{CertFile: certFile, PrivateKeyFile: keyFile}}
			lookup(c)
		},
		"a certificate for names that is missing": func(c *v1beta1.Serving) {
			c.TLS.CertFile, c.TLS.PrivateKeyFile = certFile, keyFile
			c.TLS.SNICertificates = []v1beta1.SNICertificate{{CertFile: certFile, PrivateKeyFile: keyFile}, {CertFile: missing, PrivateKeyFile: missing}}
		},
		"a CA of the proxy that is missing": func(c *v1beta1.Serving) {
			c.Authentication.ClientCAFile, c.Authentication.RequestHeader.ClientCAFile = certFile, missing
		},
		"a kubeconfig that is missing": func(c *v1beta1.Serving) {
			lookup(c)
			c.Authorization.Kubeconfig = missing
		},
	} {
		next := c
		edit(&next)
		if err := try(t, s, next); err == nil {
			t.Errorf("%s: it is served", name)
		}
		if err := goleak.Find(before); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if line := log.lineWith("Unable to sync caches"); line != "" {
		t.Errorf("it is logged: %s", line)
	}
	wantAnswer(t, c)
}

// To open a named pipe for reading blocks until somebody writes to it: the process would do nothing else any more.
// Pins MGR-211.
func TestANamedPipeIsRefusedAtOnce(t *testing.T) {
	folder := t.TempDir()
	certFile, keyFile := pair(t, folder, "a.example")
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(folder, "directory")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	pipedKey := filepath.Join(directory, component+".key")
	err := errors.Join(os.Link(certFile, filepath.Join(directory, component+".crt")), syscall.Mkfifo(pipedKey, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	names := kubeconfigFor(t, "https://127.0.0.1:1")
	loaded, err := clientcmd.LoadFromFile(names)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Clusters["c"].CertificateAuthority = pipe
	if err := clientcmd.WriteToFile(*loaded, names); err != nil {
		t.Fatal(err)
	}
	for field, edit := range map[string]func(c *v1beta1.Serving){
		"serving.tls.certFile": func(c *v1beta1.Serving) { c.TLS.CertFile, c.TLS.PrivateKeyFile = certFile, pipe },
		"serving.tls.certDirectory": func(c *v1beta1.Serving) {
			c.TLS.CertFile, c.TLS.PrivateKeyFile, c.TLS.CertDirectory = "", "", directory
		},
		"serving.tls.sniCertificates[0].certFile": func(c *v1beta1.Serving) {
			c.TLS.SNICertificates = []v1beta1.SNICertificate{{CertFile: pipe, PrivateKeyFile: keyFile}}
		},
		"serving.authentication.clientCAFile": func(c *v1beta1.Serving) { c.Authentication.ClientCAFile = pipe },
		"serving.authentication.requestHeader.clientCAFile": func(c *v1beta1.Serving) {
			c.Authentication.RequestHeader.ClientCAFile = pipe
		},
		"serving.authentication.kubeconfig": func(c *v1beta1.Serving) { c.Authentication.Kubeconfig = pipe },
		"serving.authorization.kubeconfig":  func(c *v1beta1.Serving) { c.Authorization.Kubeconfig = names },
	} {
		t.Run(field, func(t *testing.T) {
			c := settings(t)
			c.TLS.CertFile, c.TLS.PrivateKeyFile = certFile, keyFile
			edit(&c)
			s, refused := served(t, nil), make(chan error, 1)
			go func() { refused <- try(t, s, c) }()
			select {
			case err := <-refused:
				var of *FieldError
				if !errors.As(err, &of) || of.Field != field || !strings.Contains(err.Error(), "not a regular file") {
					t.Errorf("refused with %v", err)
				}
			case <-time.After(patience):
				t.Error("it is waited for the pipe")
				release(refused, pipe, pipedKey)
			}
		})
	}
}

// release ends the wait of whoever reads pipes.
func release(done <-chan error, pipes ...string) {
	for ended := false; !ended; {
		for _, pipe := range pipes {
			if writer, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // somebody reads it
				_ = writer.Close()
			}
		}
		select {
		case _, ended = <-done:
		case <-time.After(time.Millisecond):
		}
	}
}
