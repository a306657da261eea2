package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var epoch = controllertest.Epoch

var podKey = types.NamespacedName{Namespace: "ns", Name: "pod"}

func taint(key string, added ...time.Time) corev1.Taint {
	t := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
	for _, at := range added {
		t.TimeAdded = &metav1.Time{Time: at}
	}
	return t
}

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: corev1.NodeSpec{Taints: taints}}
}

// tolerates is a toleration for some seconds, without a limit if there are none.
func tolerates(key string, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	for _, s := range seconds {
		t.TolerationSeconds = ptr.To(s)
	}
	return t
}

// tolerating makes a pod of generation 1, an hour old, with tolerations.
func tolerating(tolerations ...corev1.Toleration) *corev1.Pod {
	return controllertest.Pod("ns", "pod", func(p *corev1.Pod) {
		p.Generation, p.CreationTimestamp = 1, metav1.NewTime(epoch.Add(-time.Hour))
		p.Spec.Tolerations = tolerations
	})
}

// fixture is a controller that has begun, whose loops do not run. Tests change its caches.
func fixture(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *evictionController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	return env, begun(t, env, objects...)
}

// running is a controller whose loops run, and have nothing to do for now.
func running(t *testing.T, env *controllertest.Env) *evictionController {
	t.Helper()
	c := must.Get(newController(env.Env, config{separate: true}))(t)
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
	return c
}

func begun(t testing.TB, env *controllertest.Env, objects ...runtime.Object) *evictionController {
	t.Helper()
	c := must.Get(newController(env.Env, config{separate: true}))(t)
	env.Cache(t, objects...)
	if err := c.begin(env.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// nodeChanged has the cache show a node and its pods judged.
func nodeChanged(t *testing.T, env *controllertest.Env, c *evictionController, n *corev1.Node) {
	t.Helper()
	env.Cache(t, n)
	if err := c.reconcileNode(env.Context(), n.Name); err != nil {
		t.Fatal(err)
	}
}

// podChanged has the cache show a pod and the pod judged.
func podChanged(t *testing.T, env *controllertest.Env, c *evictionController, p *corev1.Pod) {
	t.Helper()
	env.Cache(t, p)
	if err := c.reconcilePod(env.Context(), podKey); err != nil {
		t.Fatal(err)
	}
}

// pending returns in how long the pod is evicted, and whether it is at all.
func pending(env *controllertest.Env, c *evictionController) (in time.Duration, ok bool) {
	made, ok := c.appointments.state()[podKey]
	return made.due.Sub(env.Clock.Now()), ok
}

func wantPending(t *testing.T, env *controllertest.Env, c *evictionController, want time.Duration) {
	t.Helper()
	if in, ok := pending(env, c); !ok || in != want {
		t.Errorf("pending is %v in %v, want in %v", ok, in, want)
	}
}

func wantNothingPending(t *testing.T, env *controllertest.Env, c *evictionController) {
	t.Helper()
	if in, ok := pending(env, c); ok || len(c.appointments.onNode) != 0 {
		t.Errorf("pending in %v, by node %v", in, c.appointments.onNode)
	}
}

const (
	marking    = "Normal TaintManagerEviction Marking for deletion Pod ns/pod"
	cancelling = "Normal TaintManagerEviction Cancelling deletion of Pod ns/pod"
)
