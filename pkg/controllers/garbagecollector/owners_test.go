package garbagecollector

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

func refs(uids ...string) []metav1.OwnerReference {
	var all []metav1.OwnerReference
	for _, uid := range uids {
		all = append(all, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: uid, UID: types.UID(uid)})
	}
	return all
}

func TestJudge(t *testing.T) {
	parents := state{dependents: 1}
	cycle := state{dependents: 1, deletingDependent: true}
	for name, c := range map[string]struct {
		owners     ownership
		state      state
		finalizers []string
		want       verdict
	}{
		"GC-44g: a live owner":                 {owners: ownership{solid: refs("a")}, want: verdict{action: keep}},
		"GC-44i: no live owner":                {owners: ownership{dangling: refs("a")}, want: verdict{action: discard, policy: "Background"}},
		"GC-44g: one is gone":                  {owners: ownership{solid: refs("a"), dangling: refs("b")}, want: verdict{action: disown, disowned: []types.UID{"b"}}},
		"GC-44g: one waits":                    {owners: ownership{solid: refs("a"), waiting: refs("b")}, state: parents, want: verdict{action: disown, disowned: []types.UID{"b"}}},
		"GC-44g: one is gone, one waits":       {owners: ownership{solid: refs("a"), dangling: refs("b"), waiting: refs("c", "b")}, want: verdict{action: disown, disowned: []types.UID{"b", "c"}}},
		"GC-44h: waits, has dependents":        {owners: ownership{waiting: refs("a")}, state: parents, want: verdict{action: discard, policy: "Foreground"}},
		"GC-44i: waits, has none":              {owners: ownership{waiting: refs("a")}, want: verdict{action: discard, policy: "Background"}},
		"GC-44h: waits, in a cycle":            {owners: ownership{waiting: refs("a")}, state: cycle, want: verdict{action: unblock, policy: "Foreground"}},
		"GC-44i: gone, in a cycle":             {owners: ownership{dangling: refs("a")}, state: cycle, want: verdict{action: discard, policy: "Background"}},
		"GC-44i: asks to orphan":               {owners: ownership{dangling: refs("a")}, finalizers: []string{foreground, orphan}, want: verdict{action: discard, policy: "Orphan"}},
		"GC-44i: asks for foreground deletion": {owners: ownership{dangling: refs("a")}, finalizers: []string{foreground}, want: verdict{action: discard, policy: "Foreground"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(c.owners, c.state, c.finalizers); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Pins GC-49, GC-50 and GC-52.
func TestPatches(t *testing.T) {
	blocks := refs("a", "b")
	blocks[0].BlockOwnerDeletion = ptr.To(true)
	held := object("a", "x", deleted("f", foreground))
	for want, got := range map[string][]byte{
		`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"a"},{"$patch":"delete","uid":"b"}],"uid":"x"}}`:                                                  disownStrategic("x", []types.UID{"a", "b"}),
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"a","blockOwnerDeletion":false}],"resourceVersion":"7","uid":"x"}}`: unblockStrategic(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "x", ResourceVersion: "7", OwnerReferences: blocks}}),
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"b"}],"resourceVersion":"7"}}`:                                      ownersMerge("7", withoutOwners(blocks, []types.UID{"a"})),
		`{"metadata":{"ownerReferences":null,"resourceVersion":"8"}}`:                                                                                               ownersMerge("8", withoutOwners(blocks, []types.UID{"a", "b"})),
		`{"metadata":{"finalizers":["f"],"resourceVersion":"1"}}`:                                                                                                   finalizersMerge(held, foreground),
		`{"metadata":{"finalizers":null,"resourceVersion":"1"}}`:                                                                                                    finalizersMerge(object("a", "x", deleted(orphan)), orphan),
	} {
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if !*blocks[0].BlockOwnerDeletion {
		t.Error("the references of the object were changed")
	}
}

// Pins GC-9.
func TestConfig(t *testing.T) {
	c := v1beta1.NewDefault()
	if got, want := configOf(c), (config{concurrentSyncs: 20, ignored: "events events.events.k8s.io"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c.Controllers.GarbageCollector.IgnoredResources = []v1beta1.GroupResource{{Group: "apps", Resource: "deployments"}, {Resource: "pods"}, {Resource: "pods"}}
	reversed := c.DeepCopy()
	ignored := reversed.Controllers.GarbageCollector.IgnoredResources
	ignored[0], ignored[1] = ignored[1], ignored[0]
	if configOf(c) != configOf(reversed) {
		t.Error("the order of ignored resources matters")
	}
	decoded := decode(configOf(c).ignored)
	if len(decoded) != 2 || !decoded[schema.GroupResource{Resource: "pods"}] || !decoded[schema.GroupResource{Group: "apps", Resource: "deployments"}] || len(decode("")) != 0 {
		t.Errorf("decoded %v", decoded)
	}
}
