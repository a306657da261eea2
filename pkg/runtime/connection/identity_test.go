package connection

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// visitors are who an API server was asked by, and what for.
type visitors struct {
	mu     sync.Mutex
	asked  map[string]string // a path, by the end of the user agent
	others []string          // requests with other credentials than those of the process
	events []*corev1.Event
}

func (v *visitors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	agent := strings.Split(r.UserAgent(), "/")
	v.mu.Lock()
	v.asked[agent[len(agent)-1]] = r.URL.Path
	if r.Header.Get("Authorization") != "Bearer own" || strings.HasSuffix(r.URL.Path, "/token") {
		v.others = append(v.others, r.Method+" "+r.URL.Path)
	}
	v.mu.Unlock()
	switch {
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodPost:
		v.take(r)
		answer(http.StatusCreated, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"x","namespace":"kube-system"}}`)(w, r)
	default:
		refusal(http.StatusNotFound, "NotFound")(w, r)
	}
}

func (v *visitors) take(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if e, ok := object.(*corev1.Event); ok && err == nil {
		v.mu.Lock()
		v.events = append(v.events, e)
		v.mu.Unlock()
	}
}

// What all controllers share acts as the process, also if each of them has an account of its own.
// Pins MGR-1, MGR-29 and MGR-54.
func TestWhatIsSharedActsAsTheProcess(t *testing.T) {
	v := &visitors{asked: map[string]string{}}
	server := httptest.NewTLSServer(v)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := v1beta1.NewDefault().ClientConnection
	c.UseServiceAccountCredentials = ptr.To(true)
	c.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.Succeed(t, os.WriteFile(c.Kubeconfig, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: x\n"+
		"clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: u, user: {token: own}}]\n"+
		"contexts: [{name: x, context: {cluster: c, user: u}}]\n", server.URL, base64.StdEncoding.EncodeToString(ca)), 0o600))
	conn := must.Get(New(t.Context(), 1, c, func(schema.GroupVersionResource) bool { return false }, clock.RealClock{}))(t)
	t.Cleanup(func() {
		conn.Retire()
		server.CloseClientConnections()
		select {
		case <-conn.closed:
		case <-time.After(time.Minute):
			t.Error("the connection is not closed")
		}
	})

	conn.Begin()
	scope := conn.Informers().NewScope(informers.ScopeOptions{Name: "x"})
	t.Cleanup(scope.Close)
	scope.Core().V1().Nodes().Informer()
	scope.MetadataFor(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Informer()
	scope.StartWithContext(t.Context())
	if _, err := cache.NewInformerName("kube-controller-manager"); err == nil {
		t.Error("the caches have another name in metrics")
	}
	electing := must.Get(conn.ElectionClients())(t)
	_, _ = electing.Kubernetes.CoordinationV1().Leases("kube-system").Get(t.Context(), "x", metav1.GetOptions{}) // there is none
	recorder := must.Get(conn.ProcessEvents())(t)
	recorder.Event(&corev1.ObjectReference{Kind: "Lease", Namespace: "kube-system", Name: "x"}, corev1.EventTypeNormal, "LeaderElection", "")

	const events = "/api/v1/namespaces/kube-system/events"
	await.That(t, "everything is asked for", func(context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		for who, path := range map[string]string{
			"shared-informers": "/api/v1/nodes", "metadata-informers": "/apis/example.com/v1/widgets", "controller-discovery": "/api",
			"leader-election": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x", "kube-controller-manager": events,
		} {
			if asked := v.asked[who]; !strings.HasPrefix(asked, path) {
				return fmt.Errorf("%s asked for %q, of %v", who, asked, v.asked)
			}
		}
		if len(v.events) == 0 {
			return errors.New("there is no event")
		}
		return nil
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.others) > 0 || len(v.asked) != 5 {
		t.Errorf("with other credentials: %q, all: %v", v.others, v.asked)
	}
	if len(v.events) != 1 || v.events[0].Source.Component != "kube-controller-manager" {
		t.Errorf("the events are %v", v.events)
	}
}
