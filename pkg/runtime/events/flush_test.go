package events

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/test/fakeclient"
)

// TestFencedEventsHoldNothingUp records an event that a fence refuses, and another: the
// first is not tried again, and the second is delivered without delay.
func TestFencedEventsHoldNothingUp(t *testing.T) {
	var mu sync.Mutex
	var delivered []string
	client := fakeclient.New()
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		if e.Reason == "Refused" {
			return true, nil, fmt.Errorf("POST events: %w", clients.ErrFenced)
		}
		mu.Lock()
		defer mu.Unlock()
		delivered = append(delivered, e.Reason)
		return true, e, nil
	})
	p := New(t.Context())
	defer p.Close()
	recorder, err := p.Open("one", "one", func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil })
	if err != nil {
		t.Fatal(err)
	}

	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "p", "n"
	recorder.Event(pod, corev1.EventTypeNormal, "Refused", "not in this term")
	recorder.Event(pod, corev1.EventTypeNormal, "Permitted", "in the next term")
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		p.Flush(time.Second, testclock.NewFakeClock(time.Now())) // which never is over
	}()
	select {
	case <-flushed:
	case <-time.After(time.Minute):
		t.Fatal("an event that may not be sent holds up those after it")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"Permitted"}; !slices.Equal(delivered, want) {
		t.Errorf("delivered %q, want %q", delivered, want)
	}
}

// Most sources record nothing: they cost no queues and goroutines, and there is nothing to flush.
func TestAPipelineStartsWithItsFirstEvent(t *testing.T) {
	client := fakeclient.New()
	p := New(t.Context())
	defer p.Close()
	sink := func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil }
	recorder, err := p.Open("used", "used", sink)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open("idle", "idle", sink); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "p", "n"
	recorder.Event(pod, corev1.EventTypeNormal, "First", "")
	p.Flush(time.Minute, testclock.NewFakeClock(time.Now())) // which never is over
	if p.byName["used"].running.Load() == nil || p.byName["idle"].running.Load() != nil {
		t.Error("other pipelines run than those that are used")
	}
	p.Close()
	if recorder, err = p.Open("idle", "idle", sink); err != nil {
		t.Fatal(err)
	}
	recorder.Event(pod, corev1.EventTypeNormal, "Late", "")
	if p.byName["idle"].running.Load() != nil {
		t.Error("a pipeline was started after the end")
	}
	sent := client.Actions()
	if len(sent) == 0 {
		t.Error("the first event was not sent")
	}
	for _, action := range sent {
		if e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event); e.Reason != "First" {
			t.Errorf("event %s was sent", e.Reason)
		}
	}
}

// Cloud loops wait until no goroutine carries their label. A pipeline goes on after them.
func TestAPipelineIsNotTakenForAPartOfTheFirstThatRecords(t *testing.T) {
	client := fakeclient.New()
	p := New(t.Context())
	defer p.Close()
	recorder, err := p.Open("one", "one", func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil })
	if err != nil {
		t.Fatal(err)
	}
	label := pprof.Labels("instance", t.Name())
	pprof.Do(t.Context(), label, func(context.Context) {
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = "p", "n"
		recorder.Event(pod, corev1.EventTypeNormal, "First", "")
		p.Flush(time.Minute, testclock.NewFakeClock(time.Now())) // which never is over
	})
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, t.Name()) && !strings.Contains(stack, "testing.tRunner") {
			t.Errorf("a goroutine of the pipeline carries the label of the instance:\n%s", stack)
		}
	}
}

// A mark that does not arrive in time may never arrive: a broadcaster drops what it has no room for.
func TestNothingIsKeptOfAFlushThatIsOver(t *testing.T) {
	client := fakeclient.New()
	release := make(chan struct{})
	defer close(release)
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		<-release
		return true, action.(clienttesting.CreateAction).GetObject(), nil
	})
	p := New(t.Context())
	defer p.Close()
	recorder, err := p.Open("one", "one", func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil })
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "p", "n"
	recorder.Event(pod, corev1.EventTypeNormal, "Held", "up")
	for range 3 {
		p.Flush(time.Millisecond, clock.RealClock{})
	}
	p.flushing.mu.Lock()
	defer p.flushing.mu.Unlock()
	if left := len(p.flushing.waiting); left != 0 {
		t.Errorf("%d marks are kept", left)
	}
}
