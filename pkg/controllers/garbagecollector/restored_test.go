package garbagecollector

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// TestAnOwnerThatABackupRestores has an object kept although its owner was deleted, since its own deletion is refused
// until the owner is back. When the owner is deleted once more, the object goes, too. Pins GC-113.
func TestAnOwnerThatABackupRestores(t *testing.T) {
	parent := func() runtime.Object { return typed(configMaps, object("a", "parent")) }
	w := newWorld(t, parent(), typed(secrets, object("a", "child", owner("ConfigMap", "parent"))))
	var allowed atomic.Bool
	w.server.PrependReactor("delete", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !allowed.Load(), nil, apierrors.NewForbidden(secrets.resource.GroupResource(), "child", errors.New("no"))
	})
	w.env.Run(t, w.collector)
	w.settle(t)
	must.Succeed(t, w.server.Tracker().Delete(configMaps.resource, "a", "parent"))
	controllertest.Eventually(t, "its deletion is refused", func() bool { return len(w.writes()) > 0 })
	must.Succeed(t, w.server.Tracker().Create(configMaps.resource, parent(), "a"))
	controllertest.Eventually(t, "the owner is back", func() bool { return w.node("parent") != nil })
	allowed.Store(true)
	w.env.EventuallyAsTimePasses(t, "it is examined", time.Second, func() bool { return len(w.attempt.left()) == 0 })
	if !w.exists(t, secrets, "a", "child") {
		t.Fatal("an object whose owner exists is deleted")
	}
	must.Succeed(t, w.server.Tracker().Delete(configMaps.resource, "a", "parent"))
	w.env.EventuallyAsTimePasses(t, "it goes with its owner", time.Second, func() bool { return !w.exists(t, secrets, "a", "child") })
}

// TestRelink compares what follows from an owner that a live read has found, and the graph then. Pins GC-113.
func TestRelink(t *testing.T) {
	child := func(edits ...func(*metav1.ObjectMeta)) *metav1.PartialObjectMetadata {
		return object("a", "child", append(edits, owner("ConfigMap", "parent", blocking))...)
	}
	absent := refuted(id("ConfigMap", "a", "parent"))
	claim := child().OwnerReferences[0]
	for name, c := range map[string]struct {
		before []*change
		claim  metav1.OwnerReference
		want   string
		graph  string
	}{
		"it is shown": {
			before: []*change{added(secrets, child()), absent, added(configMaps, object("a", "parent"))},
			graph:  "ConfigMap a/parent <child true; Secret a/child",
		},
		"it is not shown yet": {
			before: []*change{added(secrets, child()), absent},
			want:   "attempt ConfigMap a/parent",
			graph:  "ConfigMap a/parent virtual <child true; Secret a/child",
		},
		"it is deleted in the foreground": {
			before: []*change{added(secrets, child()), absent, added(configMaps, object("a", "parent", deleted(foreground)))},
			want:   "attempt Secret a/child",
			graph:  "ConfigMap a/parent foreground <child true; Secret a/child",
		},
		"they are linked": {
			before: []*change{added(secrets, child()), added(configMaps, object("a", "parent"))},
			graph:  "ConfigMap a/parent <child true; Secret a/child",
		},
		"the object has another owner by now": {
			before: []*change{added(secrets, child()), absent, added(configMaps, object("a", "parent"))},
			claim:  metav1.OwnerReference{UID: "parent"},
			graph:  "ConfigMap a/parent; Secret a/child",
		},
		"the object is gone": {
			before: []*change{added(configMaps, object("a", "parent"))},
			graph:  "ConfigMap a/parent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraph(clock.RealClock{})
			for _, before := range c.before {
				g.apply(before)
			}
			if c.claim.UID == "" {
				c.claim = claim
			}
			got := told(g.apply(&change{kind: changeOwned, identity: id("Secret", "a", "child"), claim: c.claim}))
			if got != c.want {
				t.Errorf("it asks for %q, want %q", got, c.want)
			}
			if got := held(g); got != c.graph {
				t.Errorf("the graph is\n%s\nwant\n%s", got, c.graph)
			}
			checkCounts(t, g)
		})
	}
}
