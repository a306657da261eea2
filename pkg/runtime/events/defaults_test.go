package events

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/fakeclient"
)

// creations are the messages of events that were created since the last question.
func creations(client *fake.Clientset) (messages []string) {
	synctest.Wait()
	for _, action := range client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok {
			messages = append(messages, create.GetObject().(*corev1.Event).Message)
		}
	}
	client.ClearActions()
	return messages
}

// Each source has its own client and limits of client-go: what is said too often of an object is said once, and what is
// said of an object about which much was said is dropped for a while. Pins MGR-117 and WL-7.
func TestSourcesHaveTheLimitsOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(t.Context())
		defer p.Close()
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = "p", "n"
		type source struct {
			client *fake.Clientset
			record func(reason, message string)
		}
		open := func(name string) source {
			client := fakeclient.New()
			recorder, err := p.Open(name, name, func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil })
			if err != nil {
				t.Fatal(err)
			}
			return source{client, func(reason, message string) { recorder.Event(pod, corev1.EventTypeNormal, reason, message) }}
		}
		one, other := open("one"), open("other")
		for n := range 12 {
			one.record("Similar", fmt.Sprint(n))
		}
		got := creations(one.client)
		if len(got) != 10 || got[8] != "8" || got[9] != "(combined from similar events): 9" {
			t.Errorf("of twelve similar events these were created: %q, want ten, of which the last one is for all that follow", got)
		}
		for n := range 40 {
			one.record(fmt.Sprintf("Different%d", n), "")
		}
		if got := len(creations(one.client)); got != 25-12 {
			t.Errorf("%d more events of the object were created, want %d", got, 25-12)
		}
		other.record("Another", "source")
		if got := creations(other.client); !slices.Equal(got, []string{"source"}) {
			t.Errorf("of another source: %q", got)
		}
		time.Sleep(5*time.Minute + time.Second)
		one.record("Later", "first")
		one.record("Later", "second")
		if got := creations(one.client); !slices.Equal(got, []string{"first"}) {
			t.Errorf("five minutes later: %q", got)
		}
	})
}

// An event without an answer is tried twelve times, ten seconds apart. Those that are recorded meanwhile wait.
// Pins MGR-117.
func TestAnEventWithoutAnAnswerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		refused := errors.New("connection refused")
		s.refuse(func(string) error { return refused })
		began := time.Now()
		happen("Lost")
		time.Sleep(10*time.Second + 9*10*time.Second)
		s.expect(t, "at most this long later", slices.Repeat([]string{"create Lost 1"}, 11)...)
		happen("Next")
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		tries := s.requests
		s.requests, s.refuses = nil, nil
		s.mu.Unlock()
		if len(tries) < 1 || tries[0] != "create Lost 1" || slices.Contains(tries[1:], "create Lost 1") {
			t.Errorf("after %v: %q", time.Since(began), tries)
		}
		time.Sleep(10 * time.Second)
		s.expect(t, "there are answers", "create Next 1")
	})
}

// What waits for its next try when everything ends is not tried again, and what is recorded later is dropped.
// Pins MGR-151.
func TestEventsAreDroppedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		s.refuse(func(string) error { return errors.New("connection refused") })
		happen("Refused")
		s.expect(t, "at once", "create Refused 1")
		s.Close()
		happen("Late")
		time.Sleep(time.Hour)
		s.expect(t, "after the end")
	})
}
