package clients

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// TestPacedConnectionsAreReadInBatches sends 100 small messages per second over a paced connection
// and counts how many reads it takes to receive those of the first and of the next second. As in all tests of this
// file, the time is that of a synctest bubble: nothing waits.
func TestPacedConnectionsAreReadInBatches(t *testing.T) {
	tests := map[string]struct {
		rhythm      *rhythm
		age         time.Duration // of the connection
		hurry       bool
		first, next int
	}{
		"a new connection":                 {rhythm: renewals, first: 100, next: 100},
		"a connection that filled caches":  {rhythm: renewals, age: time.Minute, first: 4, next: 4},
		"somebody waits for a cache":       {rhythm: renewals, age: time.Minute, hurry: true, first: 100, next: 100},
		"nobody has waited for some while": {rhythm: renewals, age: hurryTime + paceAfter, first: 4, next: 4},
		"changes of pods":                  {rhythm: pods, age: time.Minute, first: 74, next: 50},
		"and somebody waits for a cache":   {rhythm: pods, age: time.Minute, hurry: true, first: 100, next: 100},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pace{}
				p.hurry()
				conn := newPacedConn(newPacedTestConn(), tc.rhythm, p)
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
				for n, want := range []int{tc.first, tc.next} {
					reads := 0
					for end := time.Now().Add(time.Second); time.Now().Before(end); reads++ {
						read()
					}
					if reads != want {
						t.Errorf("%d reads in second %d, want %d", reads, n, want)
					}
				}
			})
		})
	}
}

// After a hurry, the pauses are as long as before: what was read meanwhile does not count.
func TestAHurryIsNotPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{}
		conn := newPacedConn(newPacedTestConn(), pods, p)
		time.Sleep(time.Minute)
		p.hurry()
		for end := time.Now().Add(hurryTime); time.Now().Before(end); {
			if _, err := conn.Read(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			began := time.Now()
			if _, err := conn.Read(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited > 20*time.Millisecond {
				t.Errorf("a read took %v", waited)
			}
		}
	})
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
		reads := rate.NewLimiter(rate.Every(time.Hour), 1)
		reads.Allow()
		p.pause(reads)
		if waited := time.Since(began); waited != time.Millisecond {
			t.Errorf("paused for %v after the pauses were ended", waited)
		}
	})
}

// TestAFullReadIsFollowedByAnother reads what has arrived in buffers that are smaller than that.
func TestAFullReadIsFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newPacedConn(newPacedTestConn(), renewals, &pace{})
		time.Sleep(time.Minute)
		if _, err := conn.Read(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		for range 3 {
			if _, err := conn.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v between buffers of what had arrived", waited)
		}
	})
}

func TestWatchesHaveARhythm(t *testing.T) {
	for path, want := range map[string]*rhythm{
		"/apis/coordination.k8s.io/v1/leases?watch=true":                                                                              renewals,
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?watch=true":                                                   renewals,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?fieldSelector=metadata.name%3Dkube-controller-manager&watch=true": nil,

		"/api/v1/nodes?watch=true":                                                     nil,
		"/apis/metrics.k8s.io/v1beta1/pods?watch=true":                                 nil,
		"/api/v1/namespaces/ns/pods?watch=true":                                        pods,
		"/api/v1/pods?watch=true":                                                      pods,
		"/api/v1/namespaces/ns/pods?fieldSelector=metadata.name%3Drecycler&watch=true": nil,
		"/api/v1/pods?fieldSelector=spec.nodeName%3Dn&watch=true":                      pods,
		"/apis/example.com/v1/leases?watch=true":                                       nil,
		"/apis/coordination.k8s.io/v1beta1/leasecandidates?watch=true":                 nil,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := rhythmOf(req); got != want {
			t.Errorf("%s has the rhythm %+v, want %+v", path, got, want)
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
