package takeover

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

var (
	pods = schema.GroupResource{Resource: "pods"}
	jobs = schema.GroupResource{Group: "batch", Resource: "jobs"}
)

// released is a lease that was given back.
func released(transitions int32, annotation string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{Annotation: annotation}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(""), LeaseTransitions: &transitions},
	}
}

func TestVersionsTravelOnTheLease(t *testing.T) {
	left := Versions{ByResource: map[schema.GroupResource]string{jobs: Unknown, pods: "1234"}, Rest: "0"}
	l := released(7, "")
	text := Leave(l, left)
	if want := "7 jobs.batch=? pods=1234 *=0"; text != want {
		t.Fatalf("left %q, want %q", text, want)
	}
	found := LeftOn(released(7, text))
	if found.String() != left.String() {
		t.Errorf("found %q, want %q", found, left)
	}
	for resource, want := range map[schema.GroupResource]string{pods: "1234", {Resource: "nodes"}: "0"} {
		if version, known := found.of(resource); !known || version != want {
			t.Errorf("%s: %q, %v, want %q", resource, version, known, want)
		}
	}
	if _, known := found.of(jobs); known {
		t.Error("a write without a version counts as known")
	}
}

func TestNothingIsKnownOfAPredecessorThatLeftNothing(t *testing.T) {
	held := released(7, "7 pods=1 *=0")
	held.Spec.HolderIdentity = ptr.To("somebody")
	for name, lease := range map[string]*coordinationv1.Lease{
		"there was no lease":                   nil,
		"it did not give the lease back":       held,
		"another one has held the lease since": released(8, "7 pods=1 *=0"),
		"there is no annotation":               released(7, ""),
		"no version of the rest":               released(7, "7 pods=1"),
		"a version that is no number":          released(7, "7 pods=x *=0"),
		"a word without a version":             released(7, "7 pods *=0"),
		"a version without a resource":         released(7, "7 =1 *=0"),
		"a version of the rest":                released(7, "7 pods=1 *=5"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, known := LeftOn(lease).of(pods); known {
				t.Errorf("known from %v", lease)
			}
		})
	}
}

// A value that the API server refuses would keep the lease from being given back. Whoever writes that many resources leaves
// nothing, and its successor compares everything; what that leaves is short again. Pins MGR-175.
func TestWhatIsLeftStaysShort(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	ledger := NewLedger(clock)
	ledger.Inherit(NothingWritten(), clock.Now())
	for n := range 10_000 {
		ledger.Stored(schema.GroupResource{Group: fmt.Sprintf("group-%d.example.com", n), Resource: "things"}, "123456789", clock.Now())
	}
	text := Leave(released(7, ""), ledger.Versions())
	if len(text) > maxLeft {
		t.Errorf("left %d bytes", len(text))
	}
	left := LeftOn(released(7, text))
	if version, known := left.of(pods); known {
		t.Errorf("the successor waits for version %q of pods, want to compare them", version)
	}
	successor := NewLedger(clock)
	successor.Inherit(left, clock.Now())
	successor.Stored(pods, "5", clock.Now())
	if got := successor.Versions().String(); got != "pods=5 *=?" {
		t.Errorf("the successor leaves %.60q", got)
	}
}
