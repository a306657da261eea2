package garbagecollector

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/informers/informerstest"
	"kcmd.dev/test/controllertest"
)

// inherit makes a graph that has a dependent and its owner from a predecessor.
func inherit(t *testing.T, child, parent *metav1.PartialObjectMetadata) *graph {
	t.Helper()
	before := newGraph(clock.RealClock{})
	before.apply(added(newMonitored(configMaps.resource, configMaps.kind), parent))
	before.apply(added(newMonitored(secrets.resource, secrets.kind), child))
	g := newGraph(clock.RealClock{})
	g.adopt(before)
	if len(before.nodes) > 0 || len(before.shown) > 0 {
		t.Error("the predecessor still has the nodes")
	}
	return g
}

// TestHandedOverGraph replays into a graph of a predecessor and says when all has been shown.
// What was not shown is looked up: nothing follows from its absence.
// Pins GC-94.
func TestHandedOverGraph(t *testing.T) {
	child := object("a", "child", owner("ConfigMap", "parent"))
	parent := object("a", "parent")
	for name, c := range map[string]struct {
		replay  []*change
		want    string // when all has been shown
		graph   string
		instant string // after the last replayed object
	}{
		"nothing happened": {
			replay: []*change{added(secrets, child), added(configMaps, parent)},
			graph:  "ConfigMap a/parent <child false; Secret a/child",
		},
		"the owner is not shown": {
			replay: []*change{added(secrets, child)},
			want:   "attempt ConfigMap a/parent",
			graph:  "ConfigMap a/parent unwatched <child false; Secret a/child",
		},
		"neither is shown": {
			want:  "attempt ConfigMap a/parent; attempt Secret a/child",
			graph: "ConfigMap a/parent unwatched <child false; Secret a/child unwatched",
		},
		"the dependent is not shown": {
			replay: []*change{added(configMaps, parent)},
			want:   "attempt Secret a/child",
			graph:  "ConfigMap a/parent <child false; Secret a/child unwatched",
		},
		"the owner was changed": {
			replay:  []*change{added(configMaps, parent), added(secrets, object("a", "child", owner("ConfigMap", "other")))},
			instant: "attempt ConfigMap a/other",
			graph:   "ConfigMap a/other virtual <child false; ConfigMap a/parent; Secret a/child",
		},
		"a foreground deletion began": {
			replay:  []*change{added(secrets, child), added(configMaps, object("a", "parent", deleted(foreground)))},
			instant: "attempt ConfigMap a/parent; attempt Secret a/child",
			graph:   "ConfigMap a/parent foreground <child false; Secret a/child",
		},
		"the owner was made anew under its name": {
			replay: []*change{added(secrets, child), added(configMaps, object("a", "parent", func(m *metav1.ObjectMeta) { m.UID = "new" }))},
			want:   "attempt ConfigMap a/parent",
			graph:  "ConfigMap a/parent; ConfigMap a/parent unwatched <child false; Secret a/child",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := inherit(t, child, parent)
			var last effects
			for _, change := range c.replay {
				last = g.apply(change)
			}
			if got := told(last); got != c.instant {
				t.Errorf("the replay asks for %q, want %q", got, c.instant)
			}
			if got := told(g.apply(shownAll(configMaps, secrets))); got != c.want {
				t.Errorf("the end of it asks for %q, want %q", got, c.want)
			}
			if got := held(g); got != c.graph {
				t.Errorf("the graph is\n%s\nwant\n%s", got, c.graph)
			}
			checkCounts(t, g)
		})
	}
}

func TestWhatIsNotReplayedYetDoesNotCountAsAlive(t *testing.T) {
	g := inherit(t, object("a", "child", owner("ConfigMap", "parent")), object("a", "parent"))
	if got := told(g.apply(shownAll(secrets))); got != "attempt Secret a/child" {
		t.Errorf("looked up are %q", got)
	}
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent"}
	if _, lives := g.lives(ref, id("Secret", "a", "child")); lives {
		t.Error("an owner that only the predecessor saw counts as alive")
	}
	g.apply(added(configMaps, object("a", "parent")))
	if _, lives := g.lives(ref, id("Secret", "a", "child")); !lives {
		t.Error("a replayed owner does not count as alive")
	}
}

// TestWhatASuccessorIsNotShownIsLookedUp has the caches of the successor list from an API
// server that is behind: owner and dependent of the predecessor are missing from them.
// Pins GC-94.
func TestWhatASuccessorIsNotShownIsLookedUp(t *testing.T) {
	first := newWorld(t,
		typed(configMaps, object("a", "owner")),
		typed(secrets, object("a", "of-owner", owner("ConfigMap", "owner"))),
		typed(configMaps, object("a", "leaves")),
		typed(secrets, object("a", "of-leaves", owner("ConfigMap", "leaves"))),
	)
	stop := first.env.Run(t, first.collector)
	first.settle(t)
	stop()
	left := first.HandOver()

	behind := func(hidden string) clienttesting.ReactionFunc {
		return func(a clienttesting.Action) (bool, runtime.Object, error) {
			all, err := first.server.Tracker().List(a.GetResource(), a.(clienttesting.ListActionImpl).Kind, a.GetNamespace())
			if err != nil {
				return true, nil, err
			}
			list := all.(*metav1.List)
			list.Items = slices.DeleteFunc(list.Items, func(raw runtime.RawExtension) bool {
				return raw.Object.(*metav1.PartialObjectMetadata).Name == hidden
			})
			return true, list, nil
		}
	}
	first.server.PrependReactor("list", "configmaps", behind("owner"))
	first.server.PrependReactor("list", "secrets", behind("of-leaves"))
	env := first.env.Env
	env.Succession = &controller.Succession{}
	env.Succession.Leave(left)
	env.Informers = informerstest.NewScopeWithMetadata(t, first.env.Fake, first.server)
	env.Metrics = controllertest.New(t).Metrics
	second := *first
	second.collector = newCollector(env, config{concurrentSyncs: 2})
	first.server.ClearActions()
	second.env.Run(t, second.collector)
	controllertest.Eventually(t, "what is not shown has been looked up", func() bool {
		found := map[string]bool{}
		for _, action := range first.server.Actions() {
			if get, ok := action.(clienttesting.GetAction); ok {
				found[get.GetName()] = true
			}
		}
		return second.startWorker.isOpen() && (found["owner"] && found["of-leaves"] || len(second.writes()) > 0)
	})
	if got := second.writes(); len(got) > 0 {
		t.Fatalf("something followed from an absence: %q", got)
	}
	if err := second.attemptToDelete(t.Context(), second.node("of-owner")); err != nil || len(second.writes()) > 0 {
		t.Errorf("%v, or something followed from an absence: %q", err, second.writes())
	}

	leaves := typed(configMaps, object("a", "leaves", deleted(orphan)))
	if err := first.server.Tracker().Update(configMaps.resource, leaves, "a"); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "the owner is let go", func() bool {
		return slices.Contains(second.writes(), `patch leaves {"metadata":{"finalizers":null,"resourceVersion":"1"}}`)
	})
	if want := `patch of-leaves {"metadata":{"ownerReferences":[{"$patch":"delete","uid":"leaves"}],"uid":"of-leaves"}}`; !slices.Contains(second.writes(), want) {
		t.Errorf("its dependent keeps it: %q", second.writes())
	}
}

// TestAbsentOwnersAreRememberedForAWhile because a backup that is restored brings them back.
// Pins GC-87.
func TestAbsentOwnersAreRememberedForAWhile(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Now())
	absent := newAbsentOwners(c)
	absent.add(id("ConfigMap", "a", "parent"))
	c.SetTime(c.Now().Add(absentTTL - time.Second))
	if !absent.has(id("ConfigMap", "a", "parent")) || absent.has(id("Secret", "a", "parent")) {
		t.Error("it is not remembered")
	}
	c.SetTime(c.Now().Add(time.Second))
	if absent.has(id("ConfigMap", "a", "parent")) {
		t.Error("it is remembered for good, although it is looked at all the time")
	}
}
