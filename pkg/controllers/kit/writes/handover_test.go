package writes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Pins WL-104.
func TestHandOver(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("5")
	f.store(t, pod("p", "1", "6"))
	f.Wrote(owner, podResource, "10")
	f.Deleting(owner, podResource, pod("p", "1", "6"))
	held, heldToo := pod("held", "h", "1"), pod("held", "h2", "1")
	f.Hold(held, Timeout)
	state := f.HandOver()

	successor := fixture{Memory: New(f.clock, f.stores), clock: f.clock, pods: f.pods, sets: f.sets}
	successor.Hold(heldToo, Timeout)
	successor.TakeOver(state)
	f.Forget(owner) // what the predecessor does afterwards changes nothing
	successor.wantFresh(t, "read version: 6 is not as new as written version: 10 for group resource pods")
	successor.wantSettled(t, false, time.Second)
	if settled, _ := successor.Settled(heldToo); settled {
		t.Error("what the successor knows itself was lost")
	}
	f.pods.Bookmark("10")
	successor.wantFresh(t, "")
	successor.wantSettled(t, false, Timeout)
	if err := f.pods.Delete(pod("p", "1", "6")); err != nil {
		t.Fatal(err)
	}
	successor.wantSettled(t, true, 0)
}

// What a successor takes over of status writes and returned objects holds as long as it
// would have for the predecessor.
func TestStatusesAndObjectsAreHandedOver(t *testing.T) {
	f := newFixture()
	f.WroteStatus(owner, "11")
	f.clock.Step(Window / 2)
	other := pod("other", "x", "12")
	f.WroteStatus(other, "12")
	f.CountsChange(other)
	ObjectsOf[*corev1.Pod](f.Memory, podResource).Wrote(owner, pod("p", "1", "20"))
	successor := New(f.clock, f.stores)
	successor.TakeOver(f.HandOver())

	objects := ObjectsOf[*corev1.Pod](successor, podResource)
	if got := objects.Newest(owner, pod("p", "1", "19")); got.ResourceVersion != "20" {
		t.Errorf("the object is of version %s", got.ResourceVersion)
	}
	if got := objects.Newest(recreated, pod("p", "1", "19")); got.ResourceVersion != "19" {
		t.Errorf("a recreated owner gets the object of version %s", got.ResourceVersion)
	}
	successor.TakeOver(f.HandOver()) // what the question after the recreated owner dropped
	if got := successor.StatusDelay(owner); got != Window/2 {
		t.Errorf("the delay is %v", got)
	}
	if successor.CountsDelay(other, 1, CountsWindow) == 0 || !successor.CountsChanging(other) {
		t.Error("that counts change is not known")
	}
	if !successor.IsEcho(pod("rs", "o", "11")) || !successor.IsEcho(other) {
		t.Error("the echoes are not recognised")
	}
	f.clock.Step(echoTime + 1)
	successor.WroteStatus(pod("last", "l", "1"), "1")
	if len(successor.statuses) != 1 || len(successor.owners) != 2 {
		t.Errorf("remembers %d status writes and %d owners, one of them for its object", len(successor.statuses), len(successor.owners))
	}
}

// An owner may have gone between two instances: nobody asks for its objects any more.
func TestObjectsThatTheStoreShowsAreNotTakenOver(t *testing.T) {
	f := newFixture()
	f.pods.Bookmark("9")
	other := pod("other", "x", "1")
	f.objects().Wrote(owner, pod("p", "1", "20"))
	f.objects().Wrote(owner, pod("q", "2", "21"))
	f.objects().Wrote(other, pod("r", "3", "20"))
	f.Hold(pod("held", "h", "1"), Timeout)
	left := f.HandOver()
	f.pods.Bookmark("20")
	successor := fixture{Memory: New(f.clock, f.stores), clock: f.clock, pods: f.pods, sets: f.sets}
	successor.TakeOver(left)
	if successor.kept() != 1 || len(successor.owners) != 2 {
		t.Errorf("%d objects and %d owners are kept, want the one object that is not shown, and its owner and the held one",
			successor.kept(), len(successor.owners))
	}
	if f.kept() != 3 {
		t.Error("the predecessor has lost something")
	}
}
