package runtime_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/must"
)

// reasonFarewell is the reason of the event that a controller of the tests records at its end.
const reasonFarewell = "Farewell"

// slowEvent is how long the API server of the test takes to store an event.
const slowEvent = 200 * time.Millisecond

// parting is a controller that records an event when it is stopped.
type parting struct{ env controller.Env }

// Run implements controller.Controller.
func (p *parting) Run(ctx context.Context) error {
	<-ctx.Done()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	p.env.Events.Event(pod, corev1.EventTypeNormal, reasonFarewell, "The work is done.")
	return nil
}

// What controllers have recorded last is delivered before the process ends, whether or not it has a lease. Pins MGR-251.
func TestTheLastEventsAreDelivered(t *testing.T) {
	for name, elect := range map[string]bool{"with a lease": true, "without a lease": false} {
		t.Run(name, func(t *testing.T) {
			s := newLeaseServer(t)
			slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") {
					select {
					case <-time.After(slowEvent):
					case <-r.Context().Done(): // it was given up
						return
					}
				}
				s.ServeHTTP(w, r)
			}))
			t.Cleanup(slow.Close)
			cfg, _ := base(t, &leaseServer{Server: slow})
			cfg.LeaderElection.LeaderElect = ptr.To(elect)
			all := fakes()
			for n, d := range all {
				if d.Name == jobs {
					all[n] = controller.Describe(controller.Descriptor{Name: d.Name, EventSource: d.Name}, func(*plan.Config) opaque { return opaque{} },
						func(env controller.Env, _ opaque) (*parting, error) { return &parting{env}, nil })
				}
			}
			w := &world{file: filepath.Join(t.TempDir(), "config.yaml"), inForce: cfg}
			w.write(t, cfg)
			w.runtime = must.Get(runtime.New(runtime.Options{ConfigFile: w.file, Descriptors: all}))(t)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.runtime.Run(ctx) }()
			w.wait(t, "the process runs", func() error { return goalOf(t, cfg).reached(w.runtime.Status()) })
			stop()
			must.Succeed(t, <-done)
			if got := s.eventsOf(reasonFarewell); len(got) != 1 {
				t.Errorf("%d events were delivered, want one", len(got))
			}
		})
	}
}
