package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// burst makes requests that are all under way at the same time, and returns how many connections were opened for them.
func burst(t *testing.T, s *server, n int, request func(ctx context.Context) error) int {
	t.Helper()
	before := s.connections.Load()
	var arrived sync.WaitGroup
	arrived.Add(n)
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		arrived.Done()
		arrived.Wait()
		emptyObject(w, r)
	})
	var requests sync.WaitGroup
	for range n {
		requests.Go(func() {
			if err := request(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	requests.Wait()
	return int(s.connections.Load() - before)
}

// openerOf returns the opener among the layers of a transport.
func openerOf(t *testing.T, transport http.RoundTripper) *opener {
	t.Helper()
	for {
		switch layer := transport.(type) {
		case *opener:
			return layer
		case utilnet.RoundTripperWrapper:
			transport = layer.WrappedRoundTripper()
		default:
			t.Fatal("connections are opened without an opener")
		}
	}
}

// Pins MGR-242.
func TestABurstOpensNoMoreConnectionsThanItNeeds(t *testing.T) {
	const n, needed = 550, 6
	s := newServer(t)
	c := s.clients(nil)
	openerOf(t, c.own.current.next).patience = time.Minute
	for _, paced := range c.own.current.paced {
		openerOf(t, paced)
	}
	set, err := c.For(Identity{Name: "burst"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context) error {
		_, err := set.Kubernetes.CoreV1().ConfigMaps("ns").Create(ctx, configMap(nil), metav1.CreateOptions{})
		return err
	}
	if got := burst(t, s, n, create); got != needed {
		t.Errorf("%d connections for the first burst, %d are needed", got, needed)
	}
	if got := burst(t, s, n, create); got != 0 {
		t.Errorf("%d more connections for the next burst", got)
	}
	s.CloseClientConnections()
	noticed := func(context.Context) (none bool, _ error) {
		none = true
		c.own.current.open.Range(func(any, any) bool {
			none = false
			return none
		})
		return none, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, noticed); err != nil {
		t.Fatal("the client has not noticed that its connections are closed")
	}
	if got := burst(t, s, n, create); got != needed {
		t.Errorf("%d connections for a burst after all were closed, %d are needed", got, needed)
	}
	for _, r := range s.seen() {
		if !bytes.Contains(r.body, []byte("ConfigMap")) {
			t.Fatalf("a request arrived with the body %q", r.body)
		}
	}
}

// Pins MGR-242.
func TestARequestDoesNotWaitForAConnectionForLong(t *testing.T) {
	errOpened := errors.New("opened")
	for name, test := range map[string]struct {
		opening time.Duration // how long the first request takes to open a connection, in vain
		ends    time.Duration // when the context of the other one ends
		waits   time.Duration
	}{
		"nothing comes of the first": {opening: time.Minute, ends: time.Minute, waits: time.Second},
		"its context ends":           {opening: time.Minute, ends: 300 * time.Millisecond, waits: 300 * time.Millisecond},
		"the first fails":            {opening: 100 * time.Millisecond, ends: time.Minute, waits: 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				sent := map[string]time.Duration{}
				o := newOpener(roundTripper(func(req *http.Request) (*http.Response, error) {
					if req.Context().Value(permission{}) == nil {
						return nil, fmt.Errorf("dialling: %w", errNoRoom)
					}
					sent[req.URL.Path] = time.Since(began)
					if req.URL.Path == "/first" {
						time.Sleep(test.opening)
					}
					return nil, errOpened
				}))
				send := func(path string, timeout time.Duration) {
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					defer cancel()
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server"+path, http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := o.RoundTrip(req); !errors.Is(err, errOpened) {
						t.Errorf("%s: %v", path, err)
					}
				}
				go send("/first", time.Hour)
				synctest.Wait()
				send("/second", test.ends)
				time.Sleep(time.Minute)
				if want := map[string]time.Duration{"/first": 0, "/second": test.waits}; !maps.Equal(sent, want) {
					t.Errorf("sent after %v, want %v", sent, want)
				}
			})
		})
	}
}

func TestABodyThatCannotBeSentAgainIsSentAtOnce(t *testing.T) {
	o := newOpener(roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Context().Value(permission{}) == nil {
			t.Error("sent without being permitted to open a connection")
		}
		return nil, io.EOF
	}))
	o.turn <- struct{}{} // somebody else's
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://server/", io.MultiReader(strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.RoundTrip(req); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
