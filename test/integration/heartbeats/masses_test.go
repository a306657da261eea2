package heartbeats

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// scale is how long things take in TestMassFailure.
type scale struct {
	grace, renewal      time.Duration
	rate, disruptedRate float32
	window              time.Duration // for which rates are observed
}

// scaleOf is short, and with KCMD_MASS_FAILURE, with any value, that of the defaults.
func scaleOf() scale {
	if os.Getenv("KCMD_MASS_FAILURE") != "" {
		return scale{grace: grace, renewal: 10 * time.Second, rate: 0.1, disruptedRate: 0.01, window: 4 * time.Minute}
	}
	return scale{grace: 40 * time.Second, renewal: 15 * time.Second, rate: 0.5, disruptedRate: 0.05, window: 50 * time.Second}
}

// sample is what there was at a time.
type sample struct {
	// Seconds is when, by the clock of the manager, since the beginning.
	Seconds float64 `json:"seconds"`
	// Unknown and Tainted are the numbers of nodes whose Ready is Unknown, and that have a taint
	// which evicts pods. Evicted is the number of pods that were.
	Unknown int `json:"unknown"`
	Tainted int `json:"tainted"`
	Evicted int `json:"evicted"`
}

// phase is a part of the test.
type phase struct {
	Seconds float64 `json:"seconds"`
	Name    string  `json:"name"`
}

// observer follows what becomes of nodes and pods, by watches of its own.
type observer struct {
	t     *testing.T
	began time.Time

	mu      sync.Mutex
	nodes   map[string]*corev1.Node
	evicted int
	Samples []sample `json:"samples"`
	Phases  []phase  `json:"phases"`
}

func observe(t *testing.T, namespace string) *observer {
	t.Helper()
	o := &observer{t: t, began: clk.Now(), nodes: map[string]*corev1.Node{}}
	list := must.Get(admin.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		o.nodes[list.Items[i].Name] = &list.Items[i]
	}
	nodes, err := admin.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	harness.Follow(t, nodes, err, func(_ watch.EventType, n *corev1.Node) error {
		o.change(func() { o.nodes[n.Name] = n })
		return nil
	})
	pods, err := admin.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	harness.Follow(t, pods, err, func(e watch.EventType, _ *corev1.Pod) error {
		if e == watch.Deleted {
			o.change(func() { o.evicted++ })
		}
		return nil
	})
	return o
}

func (o *observer) change(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	s := sample{Seconds: o.seconds(), Evicted: o.evicted}
	for _, n := range o.nodes {
		if isUnknown(n) {
			s.Unknown++
		}
		if evicts(n) {
			s.Tainted++
		}
	}
	o.Samples = append(o.Samples, s)
}

func (o *observer) seconds() float64 { return clk.Since(o.began).Seconds() }

// begin begins a phase.
func (o *observer) begin(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.t.Logf("%4.0fs %s", o.seconds(), name)
	o.Phases = append(o.Phases, phase{o.seconds(), name})
}

func evicts(n *corev1.Node) bool {
	return hasTaint(n, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute) || hasTaint(n, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
}

// count counts nodes of a zone, all if it is empty.
func (o *observer) count(zone string, is func(*corev1.Node) bool) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, node := range o.nodes {
		if strings.HasPrefix(name, zone) && is(node) {
			n++
		}
	}
	return n
}

// await waits until a number of nodes of a zone are something.
func (o *observer) await(zone, what string, is func(*corev1.Node) bool, want int) {
	o.t.Helper()
	await.Within(o.t, 15*time.Minute, fmt.Sprintf("%d nodes of zone %q are %s", want, zone, what), func(context.Context) error {
		if n := o.count(zone, is); n != want {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

// want fails the test unless so many nodes of a zone are tainted.
func (o *observer) want(zone string, least, most int) int {
	o.t.Helper()
	n := o.count(zone, evicts)
	if n < least || n > most {
		o.t.Errorf("%d nodes of zone %q are tainted, want %d to %d", n, zone, least, most)
	}
	return n
}

// numbered are names of nodes of a zone.
func numbered(zone string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("%s-%03d", zone, i))
	}
	return all
}

// The zones of TestMassFailure. The third is a small one.
const sizeA, sizeB, sizeC = 150, 110, 40

// TestMassFailure has one node, a part of two zones, a zone, all zones, and the manager itself
// fall. With KCMD_MASS_FAILURE_DATA it writes what it saw into that file: make mass-failure.
//
// Pins NLC-9, NLC-10, NLC-60, NLC-61, NLC-64, NLC-65 and NLC-84.
func TestMassFailure(t *testing.T) {
	s := scaleOf()
	proxy := faultproxy.Start(t, plane)
	k := play(t, s.renewal)
	k.join("a", numbered("a", 0, sizeA)...)
	k.join("b", numbered("b", 0, sizeB)...)
	k.join("c", numbered("c", 0, sizeC)...)
	start(t, proxy, func(c *manager.Config) {
		l := &c.Controllers.NodeLifecycle
		l.NodeMonitorGracePeriod = &metav1.Duration{Duration: s.grace}
		l.NodeEvictionRate, l.SecondaryNodeEvictionRate = &s.rate, &s.disruptedRate
	})
	namespace := plane.Namespace(t)
	o := observe(t, namespace)
	o.await("", "free of taints", isUntainted, sizeA+sizeB+sizeC)
	each(t, append(numbered("b", 0, sizeB), numbered("c", 0, sizeC)...), func(node string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "on-" + node}, Spec: harness.PodSpec("web")}
		pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = node, ptr.To[int64](0)
		pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](10)}}
		_, err := admin.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})

	o.begin("one node")
	k.fall("a-000")
	o.await("", "tainted", evicts, 1)
	k.rise("a-000")
	o.await("", "tainted", evicts, 0)

	o.begin("eight nodes of a zone")
	k.fall(numbered("b", 0, 8)...)
	o.wantRate("b", 8, s.rate)
	k.rise(numbered("b", 0, 8)...)
	o.await("", "tainted", evicts, 0)

	o.begin("most of a large zone, most of a small one")
	k.fall(append(numbered("b", 0, 75), numbered("c", 0, 28)...)...)
	o.await("b", "unknown", isUnknown, 75)
	o.await("c", "unknown", isUnknown, 28)
	elapse(t, clk.Now(), period)
	from, b, c := clk.Now(), o.count("b", evicts), o.count("c", evicts)
	elapse(t, from, s.window)
	expected := int(float64(s.disruptedRate) * clk.Since(from).Seconds())
	o.want("b", b+expected-1, b+expected+1)
	o.want("c", c, c)

	o.begin("all of the small zone")
	k.fall(numbered("c", 0, sizeC)...)
	o.await("c", "unknown", isUnknown, sizeC)
	o.wantRate("c", min(sizeC, c+10), s.rate)

	o.begin("all")
	k.fall(append(append(numbered("a", 0, sizeA), numbered("b", 0, sizeB)...), numbered("c", 0, sizeC)...)...)
	o.await("", "unknown", isUnknown, sizeA+sizeB+sizeC)
	o.await("", "tainted", evicts, 0)
	elapse(t, clk.Now(), s.window/2)
	o.want("", 0, 0)

	o.begin("all are back")
	k.rise(append(append(numbered("a", 0, sizeA), numbered("b", 0, sizeB)...), numbered("c", 0, sizeC)...)...)
	o.await("", "free of taints", isUntainted, sizeA+sizeB+sizeC)

	k.settle()
	o.begin("the manager hears nothing")
	before := o.quiet(0)
	fault := proxy.Pause()
	elapse(t, clk.Now(), s.grace+3*period)
	fault.Lift()
	o.begin("the manager is back")
	elapse(t, clk.Now(), s.grace-period)
	o.await("", "free of taints", isUntainted, sizeA+sizeB+sizeC)
	o.quiet(before)
	o.begin("the end")
	o.save()
}

// quiet fails the test if any node was Unknown or tainted after a number of samples. It returns how
// many there are.
func (o *observer) quiet(after int) int {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.Samples[after:] {
		if after > 0 && s.Unknown+s.Tainted > 0 {
			o.t.Errorf("after %.0fs %d nodes are unknown and %d tainted", s.Seconds, s.Unknown, s.Tainted)
		}
	}
	return len(o.Samples)
}

// wantRate waits until a number of nodes of a zone are tainted, and compares how fast with a rate.
// The first of them is tainted at once.
func (o *observer) wantRate(zone string, nodes int, rate float32) {
	o.t.Helper()
	await.Within(o.t, 15*time.Minute, "one is tainted", func(context.Context) error {
		if o.count(zone, evicts) == 0 {
			return fmt.Errorf("none is")
		}
		return nil
	})
	from, first := clk.Now(), o.count(zone, evicts)
	o.await(zone, "tainted", evicts, nodes)
	took, wants := clk.Since(from).Seconds(), float64(nodes-first)/float64(rate)
	o.t.Logf("zone %s: %d to %d nodes in %.0fs, at the rate it were %.0fs", zone, first, nodes, took, wants)
	if took < wants*0.7-2 || took > wants*1.5+10 {
		o.t.Errorf("%d nodes of zone %s were tainted in %.0fs, want about %.0fs", nodes-first, zone, took, wants)
	}
}

// save writes what was seen, if somebody wants it.
func (o *observer) save() {
	o.t.Helper()
	path := os.Getenv("KCMD_MASS_FAILURE_DATA")
	if path == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Samples = thinned(o.Samples)
	data := must.Get(json.MarshalIndent(o, "", " "))(o.t)
	must.Succeed(o.t, os.WriteFile(path, append(data, '\n'), 0o644)) //nolint:gosec // everybody may read it
}

// thinned leaves the last sample of each second.
func thinned(samples []sample) (all []sample) {
	for i, s := range samples {
		if i+1 == len(samples) || int(samples[i+1].Seconds) != int(s.Seconds) {
			s.Seconds = float64(int(s.Seconds))
			all = append(all, s)
		}
	}
	return all
}
