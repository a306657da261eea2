package monitoring

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// collecting is held by the test that runs a garbage collector: that of another one would delete its
// objects.
var collecting sync.Mutex

// startCollector runs a manager with a garbage collector, which may delete one object of a kind.
func startCollector(t *testing.T, mode string, o runtime.Options) *manager.Manager {
	t.Helper()
	collecting.Lock()
	t.Cleanup(collecting.Unlock)
	return startWith(t, o, harness.All(harness.WithoutLease, harness.Settle(0),
		harness.Only(func(c *manager.Config) []**bool { return []**bool{&c.Controllers.GarbageCollector.Enabled} }),
		func(c *manager.Config) {
			c.DeletionBreaker = v1beta1.DeletionBreaker{
				Mode: mode, Share: ptr.To(int32(1)), Minimum: ptr.To(int32(1)), Window: &metav1.Duration{Duration: time.Hour},
			}
		}))
}

// loseOwners creates objects whose owners do not exist.
func loseOwners(t *testing.T) {
	t.Helper()
	namespace := plane.Namespace(t)
	for i := range 5 {
		lost := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("lost-", i), UID: uuid.NewUUID()}
		must.Get(plane.AdminClient().CoreV1().PodTemplates(namespace).Create(t.Context(), &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("t-", i), OwnerReferences: []metav1.OwnerReference{lost}},
			Template:   harness.PodTemplate("app", "image"),
		}, metav1.CreateOptions{}))(t)
	}
}

// Owners are lost, the breaker stops, and an edit lets deletions go on.
func deletionsStopped(t *testing.T) scenario {
	m := startCollector(t, v1beta1.DeletionsStop, runtime.Options{})
	return scenario{
		targets: []string{m.URL()},
		fire:    func(t *testing.T, _ *prometheus) { loseOwners(t) },
		resolve: func(t *testing.T, _ *prometheus) {
			harness.Edit(t, m, func(c *manager.Config) {
				c.DeletionBreaker.AllowUntil = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
			})
		},
	}
}

// Owners are lost, and the breaker only warns. That was almost a quarter of an hour ago, by the clock
// of the manager, and soon is longer ago.
func deletionsExceeded(t *testing.T) scenario {
	const seen = 30 * time.Second
	m := startCollector(t, v1beta1.DeletionsWarn, runtime.Options{Clock: harness.ShiftedClock(seen - 15*time.Minute)})
	return scenario{
		targets: []string{m.URL()},
		fire:    func(t *testing.T, _ *prometheus) { loseOwners(t) },
		resolve: func(*testing.T, *prometheus) {},
	}
}
