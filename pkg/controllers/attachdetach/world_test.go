package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pins ATT-27 and ATT-28d.
func TestWhatIsWanted(t *testing.T) {
	w := newWorld(newCounts())
	at := place{volumeName("v"), "a"}
	one, two := migrated(specOf(aVolume("v", once))), migrated(specOf(aVolume("v")))
	first, again := podRef{UID: "1", NamespacedName: types.NamespacedName{Name: "first"}}, podRef{UID: "1", NamespacedName: types.NamespacedName{Name: "again"}}
	if !w.want(at, one, first) || w.want(at, two, again) || w.want(at, two, podRef{UID: "2"}) {
		t.Error("not only the first pod is the first")
	}
	l := w.links[at]
	if l.wanted.PV != one.PV || l.pods["1"] != first || len(l.pods) != 2 {
		t.Errorf("the link is %+v", l)
	}
	w.markAttached(at, one, "")
	l.multiAttach = true
	for _, step := range []struct {
		uid  types.UID
		last bool
	}{{"1", false}, {"1", false}, {"2", true}, {"2", false}} {
		if last := w.unwant(at, step.uid); last != step.last {
			t.Errorf("pod %s is the last: %v", step.uid, last)
		}
	}
	if l.isWanted() || l.multiAttach || w.links[at] == nil {
		t.Errorf("the link is %+v", l)
	}
	w.markDetached(l)
	if len(w.links)+len(w.volumes)+len(w.nodes)+len(w.byVA) > 0 {
		t.Errorf("left is %+v", w)
	}
}

// Pins ATT-28, ATT-28a, ATT-28b, ATT-28c, ATT-28e and ATT-28f.
func TestWhatIsAttached(t *testing.T) {
	w := newWorld(newCounts())
	a, b := place{volumeName("v"), "a"}, place{volumeName("v"), "b"}
	what, since := migrated(specOf(aVolume("v"))), time.Unix(1, 0)
	want := func(at place, state attachState, listed, inUse bool, device string) {
		t.Helper()
		l := w.links[at]
		if l.state != state || l.listed != listed || w.nodes[at.node].inUse[at.volume] != inUse || w.volumes[at.volume].devicePath != device {
			t.Errorf("%s: %+v, in use %v, device %q", at.node, l, w.nodes[at.node].inUse, w.volumes[at.volume].devicePath)
		}
	}
	w.markAttached(a, what, "/dev/a")
	want(a, attached, true, true, "/dev/a")
	w.nodes["a"].setInUse(nil)
	want(a, attached, true, false, "/dev/a")
	w.links[a].unwantedSince = since
	w.markAttached(b, what, "/dev/b")
	want(a, attached, true, false, "/dev/b")
	w.markUncertain(a, what)
	want(a, uncertain, false, false, "")
	if w.links[a].unwantedSince != since {
		t.Error("the time is another one")
	}
	w.markAttached(a, what, "/dev/c")
	want(a, attached, true, false, "/dev/c")
	w.nodes["b"].setInUse([]corev1.UniqueVolumeName{"w"})
	want(b, attached, true, false, "/dev/c")
}
