package clients

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestPacedConnectionsAreReadInBatches sends 100 small messages per second over a paced connection
// and counts how many reads it takes to receive those of one second. As in all tests of this file, the
// time is that of a synctest bubble: nothing waits.
func TestPacedConnectionsAreReadInBatches(t *testing.T) {
	tests := map[string]struct {
		age   time.Duration // of the connection
		hurry bool
		reads int
	}{
		"a new connection":                 {reads: 100},
		"a connection that filled caches":  {age: time.Minute, reads: 4},
		"somebody waits for a cache":       {age: time.Minute, hurry: true, reads: 100},
		"nobody has waited for some while": {age: hurryTime + paceAfter, reads: 4},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pace{}
				p.hurry()
				conn := &pacedConn{Conn: newPacedTestConn(), pace: p, began: time.Now()}
				read := func() {
					if _, err := conn.Read(make([]byte, 1<<20)); err != nil {
						t.Fatal(err)
					}
				}
				read()
				time.Sleep(tc.age)
				read()
				if tc.hurry {
					p.hurry()
				}
				reads := 0
				for end := time.Now().Add(time.Second); time.Now().Before(end); reads++ {
					read()
				}
				if reads != tc.reads {
					t.Errorf("%d reads in a second, want %d", reads, tc.reads)
				}
			})
		})
	}
}

// TestHurryEndsAPause waits for a paced read, which has a pause of its own to wait for.
func TestHurryEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{}
		began := time.Now()
		go func() {
			time.Sleep(time.Millisecond)
			p.hurry()
		}()
		p.pause(time.Hour)
		if waited := time.Since(began); waited != time.Millisecond {
			t.Errorf("paused for %v after the pauses were ended", waited)
		}
	})
}

// TestAFullReadIsFollowedByAnother reads what has arrived in buffers that are smaller than that.
func TestAFullReadIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &pacedConn{Conn: newPacedTestConn(), pace: &pace{}, began: time.Now()}
		time.Sleep(time.Minute)
		if _, err := conn.Read(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		time.Sleep(paceInterval)
		for range 3 {
			if _, err := conn.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began) - paceInterval; waited != 0 {
			t.Errorf("waited %v between buffers of what had arrived", waited)
		}
	})
}

func TestWatchesOfLeasesArePaced(t *testing.T) {
	for path, want := range map[string]bool{
		"/apis/coordination.k8s.io/v1/leases?watch=true":                                                                              true,
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?watch=true":                                                   true,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?fieldSelector=metadata.name%3Dkube-controller-manager&watch=true": false,

		"/api/v1/pods?watch=true":                                      false,
		"/apis/example.com/v1/leases?watch=true":                       false,
		"/apis/coordination.k8s.io/v1beta1/leasecandidates?watch=true": false,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := isPaced(req); got != want {
			t.Errorf("%s is paced: %v, want %v", path, got, want)
		}
	}
}

// pacedTestConn is a connection on which a byte arrives every ten milliseconds.
type pacedTestConn struct {
	net.Conn
	began time.Time
	taken int
}

func newPacedTestConn() *pacedTestConn { return &pacedTestConn{began: time.Now()} }

func (c *pacedTestConn) Read(p []byte) (int, error) {
	const every = 10 * time.Millisecond
	for {
		arrived := int(time.Since(c.began) / every)
		if n := min(arrived-c.taken, len(p)); n > 0 {
			c.taken += n
			return n, nil
		}
		time.Sleep(time.Until(c.began.Add(time.Duration(arrived+1) * every)))
	}
}
