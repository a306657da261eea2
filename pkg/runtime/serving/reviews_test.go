package serving

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/pod"
)

// open counts the connections to a server.
type open struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

func (o *open) count(conn net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[net.Conn]bool{}
	}
	if state == http.StateClosed {
		delete(o.all, conn)
		return
	}
	o.all[conn] = true
}

func (o *open) number() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

// TestReviewsLeaveNoConnection to the API server when the listener ends that asks it.
func TestReviewsLeaveNoConnection(t *testing.T) {
	var connections open
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	api.Config.ConnState = connections.count
	api.EnableHTTP2 = true
	api.StartTLS()
	defer api.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: api.URL, InsecureSkipTLSVerify: true}
	config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "c"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}

	c := settings(t)
	c.Authentication.Kubeconfig, c.Authorization.Kubeconfig = kubeconfig, kubeconfig
	c.Authentication.SkipLookup = ptr.To(false)
	s := served(t, nil)
	apply(t, s, c)
	eventually(t, "the API server is asked", func() error {
		if connections.number() == 0 {
			return errors.New("no connection is open")
		}
		return nil
	})
	s.Shutdown()
	eventually(t, "no connection is open", func() error {
		if n := connections.number(); n > 0 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

func TestClosedReviewsOpenNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	r := newReviews()
	conn, err := r.dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading from a connection that was open gives %v", err)
	}
	if _, err := r.dial(t.Context(), "tcp", listener.Addr().String()); !errors.Is(err, errReviewsClosed) {
		t.Errorf("dialling afterwards gives %v", err)
	}
}

// The API server of the pod that the process runs in reviews no requests instead of the one that a kubeconfig is to
// name. Pins MGR-243.
func TestNoReviewsByTheAPIServerOfThePodInstead(t *testing.T) {
	pod.Inside(t, map[string]string{"/empty": "", "/bare": "apiVersion: v1\nkind: Config\n"}, func() {
		for path, refused := range map[string]bool{"/empty": true, "/bare": true, "": false} {
			r := newReviews()
			if client, err := r.client(path, 0); (err != nil) != refused || (client != nil) == refused {
				t.Errorf("with the kubeconfig %q there is a client: %t, error %v", path, client != nil, err)
			}
			r.close()
		}
	})
}
