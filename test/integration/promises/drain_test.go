package promises

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

// doneBy is the annotation in which an instance signs the config maps it has worked on.
const doneBy = "promises.kcmd.dev/done-by"

// publishedCA is the config map that another controller makes in every namespace.
const publishedCA = "kube-root-ca.crt"

// signers builds controllers that sign the config maps of a namespace. Work on the name
// "slow" waits, in the middle, until the test lets it go on.
type signers struct {
	namespace string
	entered   chan int      // number of the instance that works on slow
	leave     chan struct{} // lets it go on

	mu      sync.Mutex
	runs    int
	working map[int]bool // instances whose Run has begun and not returned
	most    int          // of them at the same time
	log     []string     // what began and ended, in order
}

func newSigners(namespace string) *signers {
	return &signers{namespace: namespace, entered: make(chan int, 1), leave: make(chan struct{}), working: map[int]bool{}}
}

// signer is one instance.
type signer struct {
	*signers
	number int // set by Run, before anything is reconciled
	client kubernetes.Interface
	loop   *reconcile.Loop[string]
}

func (s *signers) build(env controller.Env, v fakeValue) (controller.Controller, error) {
	one := &signer{signers: s, client: env.Client}
	one.loop = reconcile.New(env, reconcile.Options[string]{Queue: "signer", Workers: int(v.workers)}, one.reconcile)
	mine := env.Informers.Filtered(controller.Filter{Namespace: s.namespace}).Core().V1().ConfigMaps()
	watch.Objects(mine.Informer(), watch.Funcs[*corev1.ConfigMap]{
		Add: func(lane reconcile.Lane, cm *corev1.ConfigMap) {
			if cm.Annotations[doneBy] == "" && cm.Name != publishedCA {
				one.loop.Enqueue(lane, cm.Name)
			}
		},
	})
	return one, nil
}

func (s *signers) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *signers) history() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *signer) Run(ctx context.Context) error {
	s.mu.Lock()
	s.runs++
	s.number = s.runs // not when built: what is built need not run
	s.working[s.number] = true
	s.most = max(s.most, len(s.working))
	s.note("run %d", s.number)
	s.mu.Unlock()
	err := s.loop.Run(ctx)
	s.mu.Lock()
	delete(s.working, s.number)
	s.note("end %d", s.number)
	s.mu.Unlock()
	return err
}

func (s *signer) reconcile(ctx context.Context, name string) error {
	cm, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || cm.Annotations[doneBy] != "" {
		return err
	}
	if name == "slow" {
		s.entered <- s.number
		select {
		case <-s.leave:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	cm.Annotations = map[string]string{doneBy: fmt.Sprint(s.number)}
	if _, err := s.client.CoreV1().ConfigMaps(s.namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("signed %s by %d", name, s.number)
	return nil
}

func (s *signers) create(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := plane.AdminClient().CoreV1().ConfigMaps(s.namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// wantSigned waits until an instance has signed the config maps.
func (s *signers) wantSigned(t *testing.T, number int, names ...string) {
	t.Helper()
	for _, name := range names {
		await.That(t, fmt.Sprintf("%s is signed by %d", name, number), func(context.Context) error {
			cm, err := plane.AdminClient().CoreV1().ConfigMaps(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil && cm.Annotations[doneBy] != fmt.Sprint(number) {
				err = fmt.Errorf("it is signed by %q", cm.Annotations[doneBy])
			}
			return err
		})
	}
}

// startSigners runs a manager with a signer that is in the middle of its work on slow.
func startSigners(t *testing.T) (*manager.Manager, *signers) {
	t.Helper()
	allow(t)
	s := newSigners(plane.Namespace(t))
	m := begin(t, runtime.Options{Descriptors: withFake(s.build)}, func(c *manager.Config) { harness.Settle(time.Millisecond)(c) })
	waitRunning(t, m)
	s.create(t, "warm-up") // rights that were just granted take a moment
	s.wantSigned(t, 1, "warm-up")
	s.create(t, "slow")
	if n := <-s.entered; n != 1 {
		t.Fatalf("instance %d works on slow, want 1", n)
	}
	return m, s
}

// Promise 2: a controller whose value did not change keeps its instance, its queue and its
// in-flight work across any reload.
func TestReloadOfOthersLeavesWorkInFlightAlone(t *testing.T) {
	m, s := startSigners(t)
	before := harness.Status(t, m)
	inFlight := harness.ControllerOf(&before, deployment).Loops[0].InFlight
	for n := range int32(5) {
		harness.Edit(t, m, func(c *manager.Config) {
			*c.Controllers.ReplicaSet.ConcurrentSyncs = 20 + n
			c.Resync.MinPeriod = duration(time.Duration(n+1) * time.Hour)
		})
		waitRunning(t, m) // the next edit would replace a restart that has not begun
	}
	after := harness.Status(t, m)
	if got := harness.ControllerOf(&after, deployment).Loops[0].InFlight; len(got) != 1 || got[0].Key != "slow" || !got[0].Since.Equal(inFlight[0].Since) {
		t.Errorf("in flight is %v, before the reloads %v", got, inFlight)
	}
	if got, want := harness.ControllerOf(&after, deployment).Generation, harness.ControllerOf(&before, deployment).Generation; got != want {
		t.Errorf("instance %d, before the reloads %d", got, want)
	}
	if got, want := harness.ControllerOf(&after, replicaSet).Generation, harness.ControllerOf(&before, replicaSet).Generation+5; got != want {
		t.Errorf("%s is instance %d, want %d: the reloads did nothing", replicaSet, got, want)
	}
	s.leave <- struct{}{}
	s.wantSigned(t, 1, "slow")
	s.create(t, "later")
	s.wantSigned(t, 1, "later")
}

// Promise 3: two instances of one controller never run at once; a key in flight is finished
// before the new instance starts, and nothing that was queued is lost.
func TestKeyInFlightIsFinishedBeforeTheSuccessorStarts(t *testing.T) {
	m, s := startSigners(t)
	harness.Edit(t, m, workers(7))
	harness.Wait(t, m, "the instance is asked to stop", func(s *runtime.Status) error {
		if c := harness.ControllerOf(s, deployment); c.State != supervisor.Stopping {
			return fmt.Errorf("it is %s", c.State)
		}
		return nil
	})
	s.create(t, "a", "b", "c") // while nobody takes new keys
	others := harness.Status(t, m)
	if err := othersRun(&others); err != nil {
		t.Errorf("while one controller drains: %v", err)
	}
	if got, want := s.history(), []string{"run 1", "signed warm-up by 1"}; !slices.Equal(got, want) {
		t.Errorf("before the key in flight is finished: %q, want %q", got, want)
	}
	s.leave <- struct{}{}
	s.wantSigned(t, 1, "slow")
	s.wantSigned(t, 2, "a", "b", "c")
	if got, want := s.history()[:5], []string{"run 1", "signed warm-up by 1", "signed slow by 1", "end 1", "run 2"}; !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most != 1 {
		t.Errorf("%d instances ran at the same time", s.most)
	}
}

// The same under many reloads that come faster than instances can drain.
func TestInstancesNeverOverlapUnderReloads(t *testing.T) {
	m, s := startSigners(t)
	s.leave <- struct{}{}
	for n := range int32(30) {
		s.create(t, fmt.Sprintf("object-%d", n))
		harness.Edit(t, m, workers(10+n))
	}
	await.That(t, "every config map is signed", func(context.Context) error {
		list, err := plane.AdminClient().CoreV1().ConfigMaps(s.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, cm := range list.Items {
			if cm.Name != publishedCA && cm.Annotations[doneBy] == "" {
				return fmt.Errorf("%s is not signed", cm.Name)
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most != 1 {
		t.Errorf("%d instances ran at the same time", s.most)
	}
}
