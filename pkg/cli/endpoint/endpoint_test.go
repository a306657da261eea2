package endpoint

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/status"
)

// process stands for a running one: it serves, over TLS, to whoever has the token "good".
type process struct {
	*httptest.Server
	handler http.HandlerFunc
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			p.handler(w, r)
		case "Bearer expired":
			refuse(w, http.StatusUnauthorized, "Unauthorized")
		case "Bearer weak":
			refuse(w, http.StatusForbidden, `forbidden: User "system:serviceaccount:default:viewer" cannot get path "`+r.URL.Path+`"`)
		case "Bearer person":
			refuse(w, http.StatusForbidden, `forbidden: User "jane doe" cannot get path "`+r.URL.Path+`"`)
		default:
			refuse(w, http.StatusForbidden, `forbidden: User "system:anonymous" cannot get path "`+r.URL.Path+`"`)
		}
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust the certificate
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Message: message, Code: int32(code)})
}

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
}

// write puts content into a new file.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// trusting is a connection with a token that trusts the process.
func (p *process) trusting(t *testing.T, token string) Connection {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	c := Connection{Server: p.URL, CAFile: write(t, string(ca))}
	if token != "" {
		c.TokenFile = write(t, token+"\n")
	}
	return c
}

func open(t *testing.T, c Connection) *Client {
	t.Helper()
	client, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestStatusAndConfig(t *testing.T) {
	p := startProcess(t)
	p.handler = func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.String() {
		case "/statusz?format=json":
			answer(status.Status{Version: "v1", Configuration: status.Configuration{Hash: "abc", Generation: 3}})(w, r)
		case "/configz":
			cfg := v1beta1.NewDefault()
			cfg.Serving.Port = ptr.To[int32](1234)
			answer(map[string]any{"config.kcmd.dev": cfg, "other": 1})(w, r)
		}
	}
	client := open(t, p.trusting(t, "good"))
	status, raw, err := client.Status(t.Context())
	if err != nil || status.Configuration.Generation != 3 || !strings.Contains(string(raw), `"hash":"abc"`) {
		t.Errorf("the status is %+v, %s, %v", status, raw, err)
	}
	cfg, err := client.Config(t.Context())
	if err != nil || *cfg.Serving.Port != 1234 {
		t.Errorf("the configuration is %+v, %v", cfg, err)
	}
}

// Credentials of a kubeconfig are used, and its server is not.
func TestCredentialsOfAKubeconfig(t *testing.T) {
	p := startProcess(t)
	p.handler = answer(status.Status{Configuration: status.Configuration{Hash: "abc"}})
	c := p.trusting(t, "")
	c.Kubeconfig = write(t, `
kind: Config
apiVersion: v1
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: good, user: {token: good}}, {name: weak, user: {token: weak}}]
contexts: [{name: good, context: {cluster: c, user: good}}, {name: weak, context: {cluster: c, user: weak}}]
current-context: weak
`)
	if _, _, err := open(t, c).Status(t.Context()); err == nil || !strings.Contains(err.Error(), "--serviceaccount=default:viewer") {
		t.Errorf("with the current context the error is %v", err)
	}
	c.Context = "good"
	if _, _, err := open(t, c).Status(t.Context()); err != nil {
		t.Errorf("with another context: %v", err)
	}
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	c.Kubeconfig = ""
	if _, _, err := open(t, c).Status(t.Context()); err != nil {
		t.Errorf("with $KUBECONFIG: %v", err)
	}
	c.Context = "none"
	if _, err := c.Open(); err == nil || !strings.Contains(err.Error(), `context "none" does not exist`) {
		t.Errorf("error is %v", err)
	}
}

// Errors have advice on how to fix them.
func TestErrorsSayWhatToDo(t *testing.T) {
	p := startProcess(t)
	tests := []struct {
		name    string
		handler http.HandlerFunc
		change  func(*Connection)
		want    []string
	}{
		{"expired", nil, func(c *Connection) { c.TokenFile = write(t, "expired") },
			[]string{"could not authenticate the request: 401 Unauthorized", "The token may have expired", "does not reach the API server", "system:masters"}},
		{"a service account without rights", nil, func(c *Connection) { c.TokenFile = write(t, "weak") },
			[]string{`/statusz returned 403 Forbidden: forbidden: User "system:serviceaccount:default:viewer" cannot get path "/statusz"`,
				"kubectl create clusterrole kube-controller-manager-viewer --verb=get --non-resource-url=/statusz --non-resource-url=/configz",
				"--clusterrole=kube-controller-manager-viewer --serviceaccount=default:viewer"}},
		{"a person without rights", nil, func(c *Connection) { c.TokenFile = write(t, "person") }, []string{"--user='jane doe'"}},
		{"anonymous", nil, func(c *Connection) { c.TokenFile = "" }, []string{"403 Forbidden", "The request had no credentials. Set them with --kubeconfig or --token-file."}},
		{"credentials that are not accepted", nil, func(c *Connection) { c.TokenFile = write(t, "foreign") }, []string{"403", "treated the request as anonymous", "serving.authentication.kubeconfig"}},
		{"an unknown authority", nil, func(c *Connection) { c.CAFile = "" }, []string{"signed by an unknown authority", "--ca-file", "--insecure-skip-tls-verify"}},
		{"another name", nil, func(c *Connection) { c.Server = strings.Replace(p.URL, "127.0.0.1", "localhost", 1) },
			[]string{"is for another name", "Use --server"}},
		{"something else", answer("hello"), nil, []string{"did not return a status that this program can read"}},
		{"upstream", answer(map[string]string{"kind": "Statusz"}), nil, []string{"did not return a status that this program can read"}},
		{"an API server", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "only the following media types are accepted: application/json", http.StatusNotAcceptable)
		}, nil, []string{"406 Not Acceptable: only the following", "Is it kcmd? The API server is another process: --server is the address of the kube-controller-manager."}},
		{"not there", http.NotFound, nil, []string{"404 Not Found: 404 page not found", "Is it kcmd? The API server is another process"}},
		{"broken", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 1000), http.StatusInternalServerError)
		}, nil, []string{"500 Internal Server Error: xxx", "x…"}},
		{"without an API server", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `Internal Server Error: "/statusz": Post "https://10.0.0.1:6443/apis/authorization.k8s.io/v1/subjectaccessreviews": connection refused`,
				http.StatusInternalServerError)
		}, nil, []string{"connection refused", "asks the API server of serving.authorization.kubeconfig", "system:masters", "serving.authentication.clientCAFile"}},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(c *Connection) { c.Timeout = 20 * time.Millisecond },
			[]string{"did not respond in time", "--timeout"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p.handler = test.handler
			c := p.trusting(t, "good")
			if test.change != nil {
				test.change(&c)
			}
			_, _, err := open(t, c).Status(t.Context())
			if err == nil {
				t.Fatal("there is no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not contain %q:\n%v", part, err)
				}
			}
		})
	}
}

// An error is safe to show on a terminal.
func TestErrorsHaveNoControlCharacters(t *testing.T) {
	for body, want := range map[string]string{
		"no \x1b[2J": "no \uFFFD[2J",
		`{"kind":"Status","message":"no \u001b[2J"}`: "no \uFFFD[2J",
	} {
		if got := reason([]byte(body)); got != want {
			t.Errorf("%q is shown as %q, want %q", body, got, want)
		}
	}
}

// A process that is asked too often says when to ask again.
func TestTooManyRequestsAreRepeated(t *testing.T) {
	p := startProcess(t)
	for name, test := range map[string]struct {
		refusals   int
		retryAfter string
		asked      int
		takes      time.Duration // at least
		want       string
	}{
		"a few":                    {2, "0", 3, 0, ""},
		"one, for a second":        {1, "1", 2, time.Second, ""},
		"all":                      {100, "0", attempts, 0, "429 Too Many Requests: too many"},
		"for too long":             {1, "3600", 1, 0, "429 Too Many Requests: too many"},
		"without a time":           {1, "", 1, 0, "429 Too Many Requests: too many"},
		"with what is not seconds": {1, "soon", 1, 0, "429 Too Many Requests: too many"},
		"in the past":              {1, "-1", 1, 0, "429 Too Many Requests: too many"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			p.handler = func(w http.ResponseWriter, r *http.Request) {
				if asked++; asked <= test.refusals {
					w.Header().Set("Retry-After", test.retryAfter)
					http.Error(w, "too many", http.StatusTooManyRequests)
					return
				}
				answer(status.Status{Configuration: status.Configuration{Hash: "abc"}})(w, r)
			}
			began := time.Now()
			_, _, err := open(t, p.trusting(t, "good")).Status(t.Context())
			if took := time.Since(began); took < test.takes {
				t.Errorf("asked again within %v", took)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if asked != test.asked {
				t.Errorf("asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

func TestAnInsecureConnectionIsAsked(t *testing.T) {
	p := startProcess(t)
	p.handler = answer(status.Status{Configuration: status.Configuration{Hash: "abc"}})
	c := p.trusting(t, "good")
	c.CAFile, c.Insecure = "", true
	if _, _, err := open(t, c).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	_, _, err = open(t, Connection{Server: address}).Status(t.Context())
	var explained *Error
	if !errors.As(err, &explained) || explained.Refused || explained.What != "nothing listens on https://"+address+": connection refused" {
		t.Errorf("error is %v", err)
	}
}

func TestAProcessWithoutTLS(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	_, _, err := open(t, Connection{Server: plain.Listener.Addr().String()}).Status(t.Context())
	if err == nil || !strings.Contains(err.Error(), "does not serve TLS") {
		t.Errorf("error is %v", err)
	}
}

// A configuration of another version is not taken for what it is not.
func TestAConfigurationThatIsNotUnderstood(t *testing.T) {
	p := startProcess(t)
	client := open(t, p.trusting(t, "good"))
	for _, test := range []struct {
		answer any
		want   string
	}{
		{map[string]any{"kubecontrollermanager.config.k8s.io": 1}, "has no config.kcmd.dev"},
		{map[string]any{"config.kcmd.dev": map[string]any{"apiVersion": v1beta1.APIVersion, "kind": v1beta1.Kind, "news": 1}}, "may have another version"},
	} {
		p.handler = answer(test.answer)
		if _, err := client.Config(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want %s", err, test.want)
		}
	}
}

func TestServer(t *testing.T) {
	serving := func(address string, port int32) *v1beta1.Serving {
		return &v1beta1.Serving{BindAddress: address, Port: &port}
	}
	tests := []struct {
		c       Connection
		want    string
		problem string
	}{
		{Connection{}, DefaultServer, ""},
		{Connection{Serving: serving("0.0.0.0", 1)}, "https://127.0.0.1:1", ""},
		{Connection{Serving: serving("::", 1)}, "https://[::1]:1", ""},
		{Connection{Serving: serving("10.0.0.5", 1)}, "https://10.0.0.5:1", ""},
		{Connection{Serving: serving("0.0.0.0", 0)}, "", "serving.port is 0"},
		{Connection{Server: "host:1", Serving: serving("::", 2)}, "https://host:1", ""},
		{Connection{Server: "https://host:1/statusz"}, "https://host:1", ""},
		{Connection{Server: "http://host:1"}, "", "must use https"},
		{Connection{Server: "https://"}, "", "is not a URL"},
	}
	for _, test := range tests {
		got, err := test.c.server()
		if got != test.want || (err == nil) != (test.problem == "") || (err != nil && !strings.Contains(err.Error(), test.problem)) {
			t.Errorf("%+v: %q, %v, want %q, %s", test.c, got, err, test.want, test.problem)
		}
	}
}

func TestBadFiles(t *testing.T) {
	for _, test := range []struct {
		c    Connection
		want string
	}{
		{Connection{TokenFile: "/none"}, "reading the token: open /none"},
		{Connection{TokenFile: write(t, " \n")}, "does not contain a token"},
		{Connection{Kubeconfig: "/none"}, "reading the kubeconfig: "},
		{Connection{CAFile: "/none", TokenFile: write(t, "x")}, "preparing the connection to https://127.0.0.1:10257"},
	} {
		if _, err := test.c.Open(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want %s", err, test.want)
		}
	}
}

func TestTheEndOfTheContextEndsTheQuestion(t *testing.T) {
	p := startProcess(t)
	p.handler = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := open(t, p.trusting(t, "good")).Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}
