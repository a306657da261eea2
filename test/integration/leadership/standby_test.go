package leadership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// A standby fills its caches before it leads, or keeps none. That is switched live, and
// costs what is logged: memory, and time until the controllers work.
func TestWarmAndColdStandby(t *testing.T) {
	leader := manager.StartProcess(t, plane, quick)
	const pods = 2000
	namespace := ballast(t, pods)
	work(t, namespace)
	begin := func(standby string) *manager.Process {
		return manager.JoinProcess(t, plane, harness.All(quick, func(c *manager.Config) { c.LeaderElection.Standby = standby }))
	}
	cold := begin(v1beta1.StandbyCold)
	harness.Wait(t, cold, "it stands by without caches", standsBy(0))
	inMemory := resident(t, cold.PID())
	harness.Edit(t, cold, func(c *manager.Config) { c.LeaderElection.Standby = v1beta1.StandbyWarm })
	harness.Wait(t, cold, "it stands by with caches", standsBy(pods))
	t.Logf("a standby with %d pods holds %d MiB cold, %d MiB warm", pods, inMemory>>20, resident(t, cold.PID())>>20)
	harness.Edit(t, cold, func(c *manager.Config) { c.LeaderElection.Standby = v1beta1.StandbyCold })
	harness.Wait(t, cold, "the caches are gone", standsBy(0))
	harness.Edit(t, cold, func(c *manager.Config) { c.LeaderElection.Standby = v1beta1.StandbyWarm })
	harness.Wait(t, cold, "the caches are back", standsBy(pods))
	warm := cold

	takeover := func(from, to *manager.Process) time.Duration {
		t.Helper()
		must.Succeed(t, from.Signal(syscall.SIGTERM))
		must.Succeed(t, from.WaitExit(t.Context()))
		ended := time.Now()
		var first time.Time
		harness.Wait(t, to, "it reconciles", func(s *runtime.Status) error {
			for _, c := range s.Controllers {
				if c.Name == replicaSets && len(c.Loops) > 0 && !c.Loops[0].FirstReconcile.IsZero() {
					first = c.Loops[0].FirstReconcile
					return nil
				}
			}
			return errNotYet
		})
		return max(first.Sub(ended), 0)
	}
	fromWarm := takeover(leader, warm)
	next := begin(v1beta1.StandbyCold)
	harness.Wait(t, next, "it stands by without caches", standsBy(0))
	fromCold := takeover(warm, next)
	t.Logf("first reconcile after the end of the leader: warm %v, cold %v", fromWarm.Round(time.Millisecond), fromCold.Round(time.Millisecond))
}

// standsBy checks that a process stands by, with at least so many objects cached, or none.
func standsBy(objects int) func(*runtime.Status) error {
	return func(s *runtime.Status) error {
		if s.Leadership.Leading || s.Leadership.Lease == nil || s.Leadership.Lease.Holder == "" {
			return errors.New("it leads, or nobody does")
		}
		for _, c := range s.Controllers {
			if c.State != supervisor.Standby && c.State != supervisor.Disabled || c.Pending {
				return fmt.Errorf("%s is %s: %s", c.Name, c.State, c.Reason)
			}
		}
		cached, unsynced, running := 0, 0, 0
		for _, i := range s.Informers {
			cached += i.Objects
			if i.Running {
				running++
			}
			if !i.Synced {
				unsynced++
			}
		}
		switch {
		case objects == 0 && running > 0:
			return fmt.Errorf("it has %d caches", running)
		case objects == 0:
			return nil
		case cached < objects || unsynced > 0:
			return fmt.Errorf("%d objects are cached, %d caches are not filled", cached, unsynced)
		}
		return nil
	}
}

// ballast makes pods that nobody schedules or owns.
func ballast(t *testing.T, pods int) (namespace string) {
	t.Helper()
	namespace = plane.Namespace(t)
	await.That(t, "the default service account exists", func(context.Context) error {
		_, err := plane.AdminClient().CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(32)
	for n := range pods {
		group.Go(func() error { return pod(ctx, namespace, n) })
	}
	must.Succeed(t, group.Wait())
	return namespace
}

// work makes something for the ReplicaSet controller to look at.
func work(t *testing.T, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "work"}
	_, err := plane.AdminClient().AppsV1().ReplicaSets(namespace).Create(t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "work"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
			},
		},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
}

func pod(ctx context.Context, namespace string, n int) error {
	_, err := plane.AdminClient().CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("ballast-%d", n)},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}, metav1.CreateOptions{})
	return err
}

// resident is the memory of a process that is in use, in bytes.
func resident(t *testing.T, pid int) uint64 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.Succeed(t, err)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			must.Succeed(t, err)
			return n << 10
		}
	}
	t.Fatal("no VmRSS in the status of the process")
	return 0
}

// A standby caches what the garbage collector reads as kinds come and go: one that is added
// has not to be listed when the lease is won, and one that is gone is not asked for any more.
// What is served is asked for every half minute, by a clock that runs fast here.
func TestStandbyFollowsWhatIsServed(t *testing.T) {
	onlyCollector := harness.All(
		harness.Only(func(c *manager.Config) []**bool { return []**bool{&c.Controllers.GarbageCollector.Enabled} }),
		harness.Settle(time.Millisecond),
		// Long enough by the clock of the standby, too.
		harness.Lease(30*time.Second, 20*time.Second, retryPeriod),
	)
	manager.Start(t, plane, onlyCollector)
	m := manager.Join(t, plane, runtime.Options{Clock: harness.FastClock()}, onlyCollector)
	harness.Wait(t, m, "it stands by with caches", standsBy(1))

	const group = "standby.test.kcmd.dev"
	definitions := dynamic.NewForConfigOrDie(plane.AdminConfig()).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := definitions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}, metav1.CreateOptions{})
	must.Succeed(t, err)
	gadgets := func(s *runtime.Status) (found, synced bool) {
		for _, i := range s.Informers {
			if i.Group == group {
				found, synced = true, i.Synced
			}
		}
		return found, synced
	}
	harness.Wait(t, m, "the new kind is cached", func(s *runtime.Status) error {
		if _, synced := gadgets(s); !synced {
			return errNotYet
		}
		return standsBy(1)(s)
	})
	must.Succeed(t, definitions.Delete(t.Context(), "gadgets."+group, metav1.DeleteOptions{}))
	harness.Wait(t, m, "the kind is not asked for any more", func(s *runtime.Status) error {
		if found, _ := gadgets(s); found {
			return errNotYet
		}
		return standsBy(1)(s)
	})
}
