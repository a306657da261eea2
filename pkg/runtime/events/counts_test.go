package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/test/fakeclient"
)

var eventsResource = schema.GroupResource{Resource: "events"}

// sent is a pipeline whose requests are recorded, as "create" or "patch" and the count of the event.
type sent struct {
	*Pipelines

	mu       sync.Mutex
	requests []string
	refuses  func(request string) error // nil: everything is stored
}

func newSent(t *testing.T) (*sent, func(reason string)) {
	t.Helper()
	client := fakeclient.New()
	s := &sent{Pipelines: New(t.Context())}
	note := func(verb string, e *corev1.Event) (bool, k8sruntime.Object, error) {
		request := fmt.Sprintf("%s %s %d", verb, e.Reason, e.Count)
		s.mu.Lock()
		s.requests = append(s.requests, request)
		refuses := s.refuses
		s.mu.Unlock()
		if refuses != nil {
			return true, e, refuses(request)
		}
		return true, e, nil
	}
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		return note("create", action.(clienttesting.CreateAction).GetObject().(*corev1.Event))
	})
	client.PrependReactor("patch", "events", func(action clienttesting.Action) (bool, k8sruntime.Object, error) {
		var e corev1.Event
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &e); err != nil {
			t.Error(err)
		}
		return note("patch", &e)
	})
	recorder, err := s.Open("one", "one", func() (corev1client.EventsGetter, error) { return client.CoreV1(), nil })
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "p", "n"
	return s, func(reason string) { recorder.Event(pod, corev1.EventTypeNormal, reason, "") }
}

// refuse has requests fail from now on with what a function returns.
func (s *sent) refuse(with func(request string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = with
}

func (s *sent) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.requests, want) {
		t.Errorf("%s: sent %q, want %q", when, s.requests, want)
	}
	s.requests = nil
}

func times(n int, do func(string), reason string) {
	for range n {
		do(reason)
	}
}

// Pins MGR-186.
func TestRepeatedEventsAreCountedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		times(5, happen, "Often")
		happen("Once")
		s.expect(t, "at once", "create Often 1", "create Once 1")
		time.Sleep(gathered - time.Millisecond)
		s.expect(t, "shortly before the time is over")
		time.Sleep(time.Millisecond)
		s.expect(t, "when it is over", "patch  5")
		times(2, happen, "Often")
		time.Sleep(gathered)
		s.expect(t, "next time", "patch  7")
		time.Sleep(time.Hour)
		s.expect(t, "later")
	})
}

// An event of an instance that has stopped is still sent, and what its successor repeats is counted in it. Pins WL-110.
func TestEventsOutliveTheInstanceThatRecordsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		s.refuse(func(string) error { return errors.New("connection refused") })
		happen("Often")
		s.expect(t, "before the instance has stopped", "create Often 1")
		s.refuse(nil)
		time.Sleep(10 * time.Second)
		s.expect(t, "after that", "create Often 1")
		successor, err := s.Open("one", "one", func() (corev1client.EventsGetter, error) { return nil, errors.New("a second client") })
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = "p", "n"
		successor.Event(pod, corev1.EventTypeNormal, "Often", "")
		time.Sleep(gathered)
		s.expect(t, "when the successor repeats it", "patch  2")
	})
}

// What was counted is delivered before a lease is given back.
func TestAFlushDeliversCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		times(3, happen, "Often")
		began := time.Now()
		s.Flush(time.Minute, clock.RealClock{})
		if took := time.Since(began); took != 0 {
			t.Errorf("the flush took %s", took)
		}
		s.expect(t, "after the flush", "create Often 1", "patch  3")
		time.Sleep(time.Hour)
		s.expect(t, "later")
	})
}

func TestAnEventThatExpiredIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		times(2, happen, "Often")
		s.expect(t, "at once", "create Often 1")
		s.refuse(func(request string) error {
			if request == "patch  2" {
				return apierrors.NewNotFound(eventsResource, "p")
			}
			return nil
		})
		time.Sleep(gathered)
		s.expect(t, "later", "patch  2", "create Often 2")
	})
}

// The pipeline may still read an event whose update it has handed over.
func TestAnUpdateHasItsOwnEvent(t *testing.T) {
	s := newDeliverable(gone{}, New(t.Context()))
	e := &corev1.Event{}
	e.ResourceVersion = "7"
	if _, err := s.Patch(e, nil); err != nil {
		t.Fatal(err)
	}
	s.counts.deliver()
	if e.ResourceVersion != "7" {
		t.Error("the event of the pipeline was changed")
	}
}

// gone is a sink whose events have expired.
type gone struct{ record.EventSink }

func (gone) Create(e *corev1.Event) (*corev1.Event, error) { return e, nil }

func (gone) Patch(*corev1.Event, []byte) (*corev1.Event, error) {
	return nil, apierrors.NewNotFound(eventsResource, "p")
}

func TestFailedCounts(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		tries int
	}{
		{"without an answer", errors.New("connection refused"), updateTries},
		{"refused by the API server", apierrors.NewForbidden(eventsResource, "p", errors.New("no")), 1},
		{"that cannot be sent", &restclient.RequestConstructionError{Err: errors.New("no URL")}, 1},
		{"without the lease", fmt.Errorf("PATCH events: %w", clients.ErrFenced), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, happen := newSent(t)
				defer s.Close()
				times(2, happen, "Often")
				s.expect(t, "at once", "create Often 1")
				s.refuse(func(string) error { return test.err })
				time.Sleep(gathered + (updateTries+1)*updateAgain)
				s.expect(t, "later", slices.Repeat([]string{"patch  2"}, test.tries)...)
			})
		})
	}
}

func TestANewerCountReplacesOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		times(2, happen, "Often")
		s.expect(t, "at once", "create Often 1")
		s.refuse(func(string) error {
			s.refuse(nil)
			happen("Often") // while the request is under way
			time.Sleep(time.Millisecond)
			return errors.New("connection refused")
		})
		time.Sleep(gathered + updateAgain)
		s.expect(t, "later", "patch  2", "patch  3")
	})
}

// An update that failed is tried again at its own time: what is counted meanwhile is sent after two seconds, and only that.
// Pins MGR-186.
func TestACountDoesNotWaitForOneThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		defer s.Close()
		happen("Other")
		time.Sleep(time.Millisecond) // the names of events are the times of the first
		times(2, happen, "Failed")
		s.expect(t, "at once", "create Other 1", "create Failed 1")
		s.refuse(func(string) error { return errors.New("connection refused") })
		time.Sleep(gathered)
		s.expect(t, "when the API server does not answer", "patch  2")
		s.refuse(nil)
		times(2, happen, "Other")
		time.Sleep(gathered)
		s.expect(t, "two seconds later", "patch  3")
		time.Sleep(updateAgain - gathered)
		s.expect(t, "when it is tried again", "patch  2")
		time.Sleep(time.Hour)
		s.expect(t, "later")
	})
}

func TestNothingIsSentAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, happen := newSent(t)
		times(2, happen, "Often")
		s.expect(t, "at once", "create Often 1")
		s.Close()
		time.Sleep(time.Hour)
		s.expect(t, "later")
	})
}
