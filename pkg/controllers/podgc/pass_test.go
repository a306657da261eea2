package podgc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestPass(t *testing.T) {
	ready := node("node", corev1.ConditionTrue)
	gone := node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService)
	for name, tc := range map[string]struct {
		threshold int
		objects   []runtime.Object
		want      []string
	}{
		"nothing to do": {1, []runtime.Object{ready, pod("runs"), pod("done", phase(corev1.PodSucceeded)), pod("leaves", deleting)}, nil},
		"PODGC-8: excess": {1, []runtime.Object{ready, pod("new", phase(corev1.PodSucceeded)), pod("old", phase(corev1.PodFailed), age(time.Hour))},
			[]string{"delete old with grace 0"}},
		"PODGC-8, PODGC-13: an ended pod without a phase is failed first": {1, []runtime.Object{ready, pod("new", phase(corev1.PodSucceeded)), pod("odd", phase(""), age(time.Hour))},
			[]string{"patch status of odd", "delete odd with grace 0"}},
		"PODGC-2: no threshold": {0, []runtime.Object{ready, pod("done", phase(corev1.PodSucceeded)), pod("done2", phase(corev1.PodSucceeded))}, nil},
		"PODGC-23: a mirror pod is like any other": {1, []runtime.Object{ready, pod("new", phase(corev1.PodSucceeded)), pod("mirror", phase(corev1.PodFailed), age(time.Hour), mirror)},
			[]string{"delete mirror with grace 0"}},
		"PODGC-21: an unscheduled one is on no node": {0, []runtime.Object{node("", corev1.ConditionFalse, corev1.TaintNodeOutOfService), pod("never", on(""), deleting)},
			[]string{"patch status of never", "delete never with grace 0"}},
		"PODGC-7, PODGC-12: a pod in two parts, in their order": {1, []runtime.Object{gone, pod("new", phase(corev1.PodSucceeded), on("")), pod("stuck", on("out"), deleting, phase(corev1.PodFailed), age(time.Hour)), pod("never", on(""), deleting)},
			[]string{"delete stuck with grace 0", "get out", "delete stuck with grace 0", "patch status of never", "delete never with grace 0"}},
		"PODGC-9: out of service":         {1, []runtime.Object{gone, pod("stuck", on("out"), deleting), pod("stays", on("out"))}, []string{"get out", "patch status of stuck", "delete stuck with grace 0"}},
		"PODGC-11, PODGC-22: unscheduled": {0, []runtime.Object{ready, pod("never", on(""), deleting), pod("waits", on(""))}, []string{"patch status of never", "delete never with grace 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, tc.threshold, tc.objects...)
			// The cache may show a deletion before the next part of the pass, or after; here it does not show it.
			env.Fake.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
			if got := pass(env, gc); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// The cache may still show a node that was taken into service again: its pods run, and end by themselves.
func TestPodsOfANodeThatMayBeInServiceAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		live *corev1.Node
		err  error
	}{
		"PODGC-35: the taint is gone": {node("out", corev1.ConditionFalse), nil},
		"PODGC-35: it is ready":       {node("out", corev1.ConditionTrue, corev1.TaintNodeOutOfService), nil},
		"PODGC-35: it cannot be read": {node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService), errors.New("boom")},
		"PODGC-35: nothing is known":  {node("other", corev1.ConditionTrue), nil},
	} {
		t.Run(name, func(t *testing.T) {
			env, gc := fixture(t, 0, tc.live, pod("ends", on("out"), deleting))
			env.Cache(t, node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService))
			if tc.err != nil {
				env.Refuse("get nodes out", tc.err)
			}
			if got, want := pass(env, gc), []string{"get out"}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// With the limits of the client, a pass over many pods takes minutes, and a node may come back meanwhile.
func TestPodsOfANodeThatComesBackDuringAPassAreKept(t *testing.T) {
	out := func(name string) *corev1.Node {
		return node(name, corev1.ConditionFalse, corev1.TaintNodeOutOfService)
	}
	for name, tc := range map[string]struct {
		before []runtime.Object
		back   *corev1.Node
		option podOption
	}{
		"PODGC-36: it is registered again": {nil, node("z", corev1.ConditionFalse), phase(corev1.PodFailed)},
		"PODGC-36: it is ready":            {[]runtime.Object{out("a"), out("z")}, node("z", corev1.ConditionTrue, corev1.TaintNodeOutOfService), deleting},
		"PODGC-36: the taint is gone":      {[]runtime.Object{out("a"), out("z")}, node("z", corev1.ConditionFalse), deleting},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]runtime.Object{pod("last", on("z"), tc.option)}, tc.before...)
			for n := range maxConcurrent {
				objects = append(objects, pod(fmt.Sprintf("first-%02d", n), on("a"), tc.option, age(time.Hour)))
			}
			env, gc := fixture(t, 0, objects...)
			if tc.before == nil {
				pass(env, gc)
				env.Clock.Step(quarantinePeriod)
			}
			var once sync.Once
			env.Fake.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				once.Do(func() { env.Cache(t, tc.back) })
				return true, nil, nil
			})
			got := pass(env, gc)
			if slices.ContainsFunc(got, func(request string) bool { return strings.Contains(request, "last") }) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Workers wait for the caches of pods and of nodes: without its node, a pod would be an orphan.
func TestPassesBeginWithCompleteCaches(t *testing.T) {
	for name, late := range map[string]string{"PODGC-3: pods": "pods", "PODGC-3: nodes": "nodes"} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, node("node", corev1.ConditionTrue), pod("never", on(""), deleting))
			var refused, allowed atomic.Bool
			env.Fake.PrependReactor("list", late, func(clienttesting.Action) (bool, runtime.Object, error) {
				refused.Store(true)
				return !allowed.Load(), nil, errors.New("not yet")
			})
			gc := must.Get(newController(env.Env, config{}))(t)
			env.Informers.StartWithContext(env.Context())
			env.Run(t, gc)
			controllertest.Eventually(t, "the list has failed", refused.Load)
			await.Stays(t, "nothing is deleted", 50*time.Millisecond, func(context.Context) error {
				if sent := env.Writes(); len(sent) > 0 {
					return fmt.Errorf("%v", sent)
				}
				return nil
			})
			allowed.Store(true)
			controllertest.Eventually(t, "the pod is deleted", func() bool { return len(env.Writes()) == 2 })
		})
	}
}

// A pass over a healthy cluster reads what the indexes have, and lists no pod. Pins PODGC-26 and PODGC-28.
func TestAPassOverAHealthyClusterLooksAtNoPod(t *testing.T) {
	env, gc := fixture(t, 1, node("node", corev1.ConditionTrue), pod("a"), pod("b"), pod("c", phase(corev1.PodPending)))
	gc.pods = indexOnly{gc.pods, t}
	if got := pass(env, gc); got != nil {
		t.Errorf("sent %q", got)
	}
}

// indexOnly is an indexer that must not be listed, nor asked for the pods of a node.
type indexOnly struct {
	cache.Indexer
	t *testing.T
}

func (i indexOnly) List() []any {
	i.t.Error("all pods were listed")
	return nil
}

func (i indexOnly) ByIndex(name, key string) ([]any, error) {
	found, err := i.Indexer.ByIndex(name, key)
	if len(found) > 0 {
		i.t.Errorf("%d pods of %s %s were looked at", len(found), name, key)
	}
	return found, err
}

// Pins PODGC-31.
func TestAStopEndsAPassBetweenPods(t *testing.T) {
	env, gc := fixture(t, 0, pod("never", on(""), deleting))
	stopped, stop := context.WithCancel(env.Context())
	stop()
	gc.pass(stopped, env.Context())
	if requests := env.Fake.Actions(); len(requests) != 0 {
		t.Errorf("requests: %v", requests)
	}
}

// Pins PODGC-6.
func TestRunPassesAgainAndAgainAndHandsOver(t *testing.T) {
	env, gc := fixture(t, 0, pod("lost", on("missing")))
	stop := env.Run(t, gc)
	env.EventuallyAsTimePasses(t, "the orphan is deleted", passPeriod, func() bool {
		_, err := env.Fake.CoreV1().Pods("ns").Get(t.Context(), "lost", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	stop()
	if left, ok := env.Succession.HandOver().(handover); !ok {
		t.Errorf("handed over: %T", left)
	}
}

// A pod costs a deletion, and a patch if it has not ended. Pins PODGC-25.
func TestRequestsForADeadNode(t *testing.T) {
	var objects []runtime.Object
	for n := range 30 {
		objects = append(objects, pod(fmt.Sprint("running-", n), on("missing")), pod(fmt.Sprint("failed-", n), on("missing"), phase(corev1.PodFailed)))
	}
	env, gc := fixture(t, 0, objects...)
	pass(env, gc)
	env.Clock.Step(quarantinePeriod)
	sent := map[string]int{}
	for _, request := range pass(env, gc) {
		verb, _, _ := strings.Cut(request, " ")
		sent[verb]++
	}
	if want := map[string]int{"get": 1, "patch": 30, "delete": 60}; !maps.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

func BenchmarkPass(b *testing.B) {
	for _, pods := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			objects := []runtime.Object{node("node", corev1.ConditionTrue)}
			for n := range pods {
				objects = append(objects, pod(fmt.Sprint("pod-", n)))
			}
			env, gc := fixture(b, 12500, objects...)
			b.ReportAllocs()
			for b.Loop() {
				gc.pass(env.Context(), env.Context())
			}
		})
	}
}
