package events

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// Events of all namespaces go through one pipeline to the core API, with the name of their source, and are logged at
// level 3. Pins MGR-34, MGR-187 and WL-7.
func TestWhereEventsGo(t *testing.T) {
	for verbosity, logged := range map[int]bool{2: false, 3: true} {
		synctest.Test(t, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(verbosity), ktesting.BufferLogs(true)))
			if sent, want := sentFromTwoNamespaces(klog.NewContext(t.Context(), logger), t), []string{
				"a one-controller Warning Happened in a", "b one-controller Warning Happened in b",
			}; !slices.Equal(sent, want) {
				t.Errorf("sent %q, want %q", sent, want)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if got := strings.Contains(log, `Event occurred object="a/p"`); got != logged {
				t.Errorf("at level %d, the log is %q", verbosity, log)
			}
			if strings.Contains(log, reasonFlush) {
				t.Errorf("what is no event is logged as one: %q", log)
			}
		})
	}
}

// sentFromTwoNamespaces records an event in each of two namespaces, and returns what is sent.
func sentFromTwoNamespaces(ctx context.Context, t *testing.T) (sent []string) {
	t.Helper()
	client := fakeclient.New()
	p := New(ctx)
	defer p.Close()
	recorder := must.Get(p.Open("one", "one-controller", func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil }))(t)
	for _, namespace := range []string{"a", "b"} {
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = "p", namespace
		recorder.Event(pod, corev1.EventTypeWarning, "Happened", "in "+namespace)
	}
	p.Flush(time.Minute, clock.RealClock{})
	synctest.Wait()
	for _, action := range client.Actions() {
		e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		sent = append(sent, strings.Join([]string{action.GetNamespace(), e.Source.Component, e.Type, e.Reason, e.Message}, " "))
	}
	return sent
}
