package runtime_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A process that may hold a lease in another namespace, but may not find out what others run, keeps the lease that it
// has, and moves as soon as it may. Pins MGR-196.
func TestALeaseIsKeptUnlessTheNextOneIsOfUse(t *testing.T) {
	server := newLeaseServer(t)
	var forbidden atomic.Value
	forbidden.Store("")
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method+" "+r.URL.Path == forbidden.Load() {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		server.ServeHTTP(w, r)
	})
	cfg, _ := base(t, server)
	w := begin(t, changed(t, cfg, fields{"leaderElection.leaderElect": true}))
	const in = "/apis/coordination.k8s.io/v1/namespaces/"
	for namespace, what := range map[string]string{
		"a": "GET " + in + "kube-system/leases",
		"b": "GET " + in + "b/leases",
		"c": "POST " + in + "kube-system/leases",
	} {
		before := leases(w.runtime.Status())
		forbidden.Store(what)
		next := changed(t, w.inForce, fields{"leaderElection.resourceNamespace": namespace})
		w.write(t, next)
		w.wait(t, "the edit is rejected: "+what, func() error {
			if s := w.runtime.Status(); !strings.Contains(s.Configuration.Rejected, "leaderElection.resourceNamespace: the API server") {
				return fmt.Errorf("it is not: %q", s.Configuration.Rejected)
			}
			return nil
		})
		for lock, term := range before {
			if leases(w.runtime.Status())[lock] != term {
				t.Errorf("%s: the lease of lock %s was given up", what, lock)
			}
		}
		forbidden.Store("")
		w.inForce = next
		w.wait(t, "the edit is in force", func() error { return goalOf(t, next).reached(w.runtime.Status()) })
	}
}
