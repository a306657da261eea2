package leadership

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/takeover"
	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// behind is a connection to the API server behind an address.
type behind struct {
	electing
	clients *clients.Clients
}

func (b behind) ElectionClients() (*clients.Set, error) {
	return b.clients.For(clients.Identity{Name: "leader-election", ClientName: "leader-election"}, nil)
}

func (b behind) CutAll() { b.clients.CutAll() }

// keeper is an API server that keeps leases, as JSON.
type keeper struct {
	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	k.mu.Lock()
	defer k.mu.Unlock()
	lease := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}}
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		if err := json.NewDecoder(r.Body).Decode(lease); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		k.version++
		lease.ResourceVersion = strconv.Itoa(k.version)
		k.leases[lease.Name] = lease
	default:
		stored, found := k.leases[path.Base(r.URL.Path)]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		lease = stored
	}
	_ = json.NewEncoder(w).Encode(lease) // the client notices
}

// overHTTP2 serves requests as API servers do.
func overHTTP2(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// balancer is an address whose new connections lead to a server, while those that are open stay where they are. It returns
// the address, and says where the next ones lead.
func balancer(t *testing.T, first *httptest.Server) (string, *atomic.Pointer[httptest.Server]) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	next := &atomic.Pointer[httptest.Server]{}
	next.Store(first)
	var piping sync.WaitGroup
	piping.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", next.Load().Listener.Addr().String())
			if err != nil {
				_ = conn.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{conn, to}, {to, conn}} {
				piping.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one of them ends
					_, _ = pair[0].Close(), pair[1].Close()
				})
			}
		}
	})
	t.Cleanup(piping.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String(), next
}

// One of the API servers behind an address has lost etcd: it answers pings on the connections that it has, and no request. A
// process that stayed on them could not lead before that one is gone, even if it is the only one. Pins MGR-267.
func TestAnAPIServerThatStaysSilentIsLeftForAnother(t *testing.T) {
	cfg := v1beta1.NewDefault()
	e := &cfg.LeaderElection
	e.LeaseDuration, e.RenewDeadline = &metav1.Duration{Duration: 2 * time.Second}, &metav1.Duration{Duration: time.Second}
	e.RetryPeriod = &metav1.Duration{Duration: 100 * time.Millisecond}
	good := &keeper{leases: map[string]*coordinationv1.Lease{}}
	asked := make(chan struct{}, 1000)
	silent := overHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	address, next := balancer(t, silent)
	all := must.Get(clients.New(clients.Options{
		Base: &rest.Config{
			Host: address, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
			ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
		},
	}))(t)
	t.Cleanup(all.Close)
	conn := behind{electing{remembering: remembering{ledger: takeover.NewLedger(clock.RealClock{})}}, all}
	l := New(Options{Identity: must.Get(NewIdentity())(t), Runner: &runner{}, Tasks: tasks(t), Clock: clock.RealClock{}})
	enabled := func(string) []string { return nil }
	locks := must.Get(l.Prepare(conn, cfg, enabled))(t)
	l.Adopt(t.Context(), locks, cfg, enabled)
	t.Cleanup(func() { _ = locks[0].resign(context.Background()) })
	<-asked
	next.Store(overHTTP2(t, good.ServeHTTP))
	await.True(t, "it leads by another API server", func() bool { return locks[0].valid() != nil })
}
