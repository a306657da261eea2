package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins DEP-4.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if got, want := d.Value(v1beta1.NewDefault()), (config{concurrentSyncs: 5, terminatingReplicas: true}); got != want {
		t.Errorf("by default value is %+v, want %+v", got, want)
	}
	if d.Name != "deployment-controller" || d.ServiceAccount != d.Name || d.EventSource != d.Name || d.Aliases[0] != "deployment" {
		t.Errorf("descriptor is %+v", d)
	}
	cfg := &v1beta1.KubeControllerManagerConfiguration{}
	cfg.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](7)
	if got, want := d.Value(cfg), (config{concurrentSyncs: 7, terminatingReplicas: true}); got != want {
		t.Errorf("value is %+v, want %+v", got, want)
	}
	cfg.FeatureGates = map[string]bool{"DeploymentReplicaSetTerminatingReplicas": false}
	if got := d.Value(cfg).(config); got.terminatingReplicas {
		t.Error("the gate is off, but terminating replicas are reported")
	}
}

// Pins DEP-3.
func TestTheGateHidesTerminatingReplicas(t *testing.T) {
	h := newHarness(t, makeDeployment(10), makeSet(1, 10, current))
	h.c.config.terminatingReplicas = false
	h.reconcile(t)
	if got := h.deployment(t).Status.TerminatingReplicas; got != nil {
		t.Errorf("terminating replicas are %d", *got)
	}
}

// run runs the controller on informers that follow the fake API server.
func (h *harness) run(t *testing.T) {
	t.Helper()
	h.Start(t)
	h.Run(t, h.c)
}

// eventually waits for a condition while the clock of the controller moves on.
func (h *harness) eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("status %+v\nrequests %q", h.deployment(t).Status, h.Requests())
		}
	}()
	h.EventuallyAsTimePasses(t, what, 10*time.Millisecond, condition)
}

// followSets does what the controller of ReplicaSets would: it makes pods available, one
// in each step, and removes surplus ones. Every step is an update of its status.
func (h *harness) followSets(t *testing.T) {
	t.Helper()
	list, err := h.Fake.AppsV1().ReplicaSets(namespace).List(h.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		rs := &list.Items[i]
		want := rs.Status.AvailableReplicas
		switch size := sizeOf(rs); {
		case want < size:
			want++
		case want > size:
			want = size
		case rs.Status.Replicas == size:
			continue
		}
		observed(sizeOf(rs), want, want)(rs)
		_, err := h.Fake.AppsV1().ReplicaSets(namespace).UpdateStatus(h.Context(), rs, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// Pins DEP-21.
func TestARolloutRunsToItsEnd(t *testing.T) {
	for name, strategy := range map[string]func(*appsv1.Deployment){
		"rolling": rolling("25%", "25%"), "one by one": rolling("1", "0"), "recreate": recreating,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(20, image("v2"), strategy), makeSet(1, 20, scaledFor("20", "25")))
			h.run(t)
			h.eventually(t, "the rollout ends", func() bool {
				h.followSets(t)
				d := h.deployment(t)
				return isComplete(d, &d.Status) && progressReason(d) == reasonComplete && sizeOf(h.set(t, "web-1")) == 0
			})
		})
	}
}

func TestABurstOfPodsCostsFewStatusWritesAndTheLastIsNotLost(t *testing.T) {
	h := newHarness(t, makeDeployment(100), makeSet(1, 100, scaledFor("100", "125"), observed(100, 0, 0)))
	h.run(t)
	for ready := int32(1); ready <= 60; ready++ {
		h.changed(t, "web-1", observed(100, ready, ready))
	}
	controllertest.Eventually(t, "the cache shows the last change", func() bool {
		rs, err := h.Informers.Apps().V1().ReplicaSets().Lister().ReplicaSets(namespace).Get("web-1")
		return err == nil && rs.Status.ReadyReplicas == 60
	})
	h.eventually(t, "the last change is written", func() bool { return h.deployment(t).Status.ReadyReplicas == 60 })
	writes := 0
	for _, request := range h.Requests() {
		if request == "update deployments/status web" {
			writes++
		}
	}
	if writes == 0 || writes > 6 {
		t.Errorf("%d status writes for 60 changes of a ReplicaSet, want few", writes)
	}
}

// Pins DEP-35d and DEP-35g.
func TestAStuckRolloutTimesOut(t *testing.T) {
	h := newHarness(t, makeDeployment(3, counts(3, 3, 0, 0)), makeSet(1, 3, scaledFor("3", "4"), observed(3, 0, 0)))
	h.run(t)
	h.eventually(t, "the new ReplicaSet is noted", func() bool { return progressReason(h.deployment(t)) == reasonFound })
	h.eventually(t, "the rollout times out", func() bool {
		h.Clock.Step(100 * time.Second)
		return progressReason(h.deployment(t)) == reasonTimedOut
	})
}

func TestWritesAreHandedOver(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	h.reconcile(t)
	h.Succeed(h.c.owners.HandOver())
	successor := must.Get(newController(h.Env.Env, config{concurrentSyncs: 1, terminatingReplicas: true}))(t)
	ended, cancel := context.WithCancel(h.Context())
	cancel()
	if err := successor.Run(ended); err != nil {
		t.Fatal(err)
	}
	h.Fake.ClearActions()
	// The caches are still those before the predecessor wrote.
	if err := successor.owners.Reconcile(h.Context(), key); err != nil {
		t.Errorf("reconcile: %v", err)
	}
	h.WantRequests(t)
}

func TestAPredecessorOfAnotherTypeIsIgnored(t *testing.T) {
	h := newHarness(t)
	h.Succession.Leave(7)
	h.c.owners.Writes.Hold(makeDeployment(1), time.Minute)
	ended, cancel := context.WithCancel(h.Context())
	cancel()
	if err := h.c.Run(ended); err != nil {
		t.Errorf("Run() = %v", err)
	}
	if own := h.c.owners.HandOver(); len(own) != 1 {
		t.Errorf("own memory is %v", own)
	}
}

// Pins DEP-10 and DEP-38.
func TestAFailingKeyIsDroppedAfter15Retries(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	var creations atomic.Int32
	h.Intercept("create replicasets", func(clienttesting.Action) error {
		creations.Add(1)
		return errors.New("boom")
	})
	h.run(t)
	h.eventually(t, "the key is dropped after its last retry", func() bool {
		h.Clock.Step(10 * time.Second)
		return creations.Load() == 16 && h.c.owners.Loop.Retries(key) == 0
	})
}

// succeed replaces the controller by an instance that has not run yet.
func (h *harness) succeed(t *testing.T) {
	t.Helper()
	h.Succeed(h.Succession.HandOver())
	h.c = must.Get(newController(h.Env.Env, config{concurrentSyncs: 1, terminatingReplicas: true}))(t)
}

// Pins DEP-49.
func TestTheSuccessorTriesAgainWhatWasDropped(t *testing.T) {
	h := newHarness(t, makeDeployment(10))
	var creations atomic.Int32
	h.Intercept("create replicasets", func(clienttesting.Action) error {
		creations.Add(1)
		return errors.New("boom")
	})
	h.Start(t)
	stop := h.Run(t, h.c)
	h.eventually(t, "the key is dropped after its last retry", func() bool {
		h.Clock.Step(10 * time.Second)
		return creations.Load() == 16 && h.c.owners.Loop.Retries(key) == 0
	})
	stop()
	h.succeed(t)
	h.Run(t, h.c)
	controllertest.Eventually(t, "there is another attempt", func() bool { return creations.Load() == 17 })
}

// Nothing changes after the successor has begun but the time. Pins DEP-49.
func TestTheSuccessorWatchesTheDeadline(t *testing.T) {
	h := newHarness(t, makeDeployment(3, counts(3, 3, 0, 0)), makeSet(1, 3, scaledFor("3", "4"), observed(3, 0, 0)))
	h.Start(t)
	stop := h.Run(t, h.c)
	h.eventually(t, "the new ReplicaSet is noted", func() bool { return progressReason(h.deployment(t)) == reasonFound && h.Idle() })
	stop()
	h.succeed(t)
	h.Run(t, h.c)
	h.AwaitIdle(t)
	h.Clock.Step(590 * time.Second)
	h.AwaitIdle(t)
	h.wantProgress(t, reasonFound)
	h.eventually(t, "the rollout times out", func() bool {
		h.Clock.Step(time.Second)
		return progressReason(h.deployment(t)) == reasonTimedOut
	})
}

// Pins DEP-37.
func TestTheOnlyMetricsAreThoseOfTheQueue(t *testing.T) {
	h := newHarness(t, makeDeployment(3))
	h.c.owners.Loop.Add(key)
	h.reconcile(t)
	h.WantOnlyQueueMetrics(t)
	if got := h.Series(t, "workqueue_depth"); !slices.Equal(got, []string{"name=deployment 1"}) {
		t.Errorf("series are %q", got)
	}
}

// BenchmarkReconcile reconciles one Deployment beside many others in its namespace. It
// must not take longer than it takes alone.
func BenchmarkReconcile(b *testing.B) {
	for _, others := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("beside-%d", others), func(b *testing.B) {
			objects := []runtime.Object{makeDeployment(10, image("v11"))}
			for revision := 1; revision <= 10; revision++ {
				objects = append(objects, makeSet(revision, 0))
			}
			objects = append(objects, makeSet(11, 10, current))
			h := newHarness(b, objects...)
			h.reconcile(b)
			h.reconcile(b)
			h.CatchUp(b)
			for i := range others {
				name := fmt.Sprintf("beside-%d", i)
				d := makeDeployment(10, func(d *appsv1.Deployment) { d.Name, d.UID = name, types.UID(name) })
				rs := makeSet(1, 10, func(rs *appsv1.ReplicaSet) {
					rs.Name, rs.UID = name, types.UID("rs-"+name)
					rs.OwnerReferences[0].UID = d.UID
				})
				h.Cache(b, d, rs)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := h.c.owners.Reconcile(h.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
			if got := h.Requests(); len(got) != 0 {
				b.Fatalf("requests were made: %q", got)
			}
		})
	}
}
