package deployment

import (
	"maps"
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func TestIsScalingEvent(t *testing.T) {
	d := makeDeployment(10)
	for _, tc := range []struct {
		name string
		sets replicaSets
		want bool
	}{
		{"DEP-20: scaled for this number", currentAnd(makeSet(1, 10, scaledFor("10", "13"))), false},
		{"DEP-20: scaled for another number", currentAnd(makeSet(1, 5, scaledFor("5", "7"))), true},
		{"DEP-20: an old set is scaled for another number", currentAnd(makeSet(1, 5, scaledFor("10", "13")), makeSet(2, 5, scaledFor("5", "7"))), true},
		{"DEP-20: an empty set does not count", currentAnd(makeSet(1, 10, scaledFor("10", "13")), makeSet(2, 0, scaledFor("5", "7"))), false},
		{"DEP-20: a missing annotation is no scaling event", currentAnd(makeSet(1, 5)), false},
		{"DEP-20: a bad annotation is no scaling event", currentAnd(makeSet(1, 5, scaledFor("-1", "7"))), false},
		{"the annotated maximum does not count", currentAnd(makeSet(1, 10, scaledFor("10", "99"))), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := isScalingEvent(d, tc.sets); got != tc.want {
				t.Errorf("isScalingEvent() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestScaling(t *testing.T) {
	surge3 := rolling("3", "2")
	none := map[string]int32{}
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		sets replicaSets
		want map[string]int32
	}{
		{"DEP-27a: no set at all", makeDeployment(10), replicaSets{}, none},
		{"DEP-27a: the only active set", makeDeployment(10), currentAnd(makeSet(1, 0), makeSet(2, 5), makeSet(3, 0)), map[string]int32{"web-2": 10}},
		{"DEP-27a: no active set: the new one", makeDeployment(10), currentAnd(makeSet(1, 0), makeSet(2, 0)), map[string]int32{"web-1": 10}},
		{"DEP-27a: no active set and no new one: the newest", makeDeployment(10), oldOf(makeSet(2, 0), makeSet(3, 0)), map[string]int32{"web-3": 10}},
		{"DEP-27b: a saturated new set: the old ones go", makeDeployment(10),
			currentAnd(makeSet(1, 10, scaledFor("10", "13")), makeSet(2, 3), makeSet(3, 0)), map[string]int32{"web-2": 0}},
		{"DEP-27c, DEP-48: e2e: 10 to 30 with surge 3, 8/5 to 20/13", makeDeployment(30, surge3),
			currentAnd(makeSet(1, 5, scaledFor("10", "13")), makeSet(2, 8, scaledFor("10", "13"))), map[string]int32{"web-1": 13, "web-2": 20}},
		{"DEP-27c: down in proportion, rounded up, and the older makes up for it", makeDeployment(5, rolling("0", "1")),
			currentAnd(makeSet(1, 5, scaledFor("10", "10")), makeSet(2, 5, scaledFor("10", "10"))), map[string]int32{"web-1": 2, "web-2": 3}},
		{"DEP-27c: up: of equal sets the newer is first", makeDeployment(21, rolling("0", "1")),
			currentAnd(makeSet(2, 5, scaledFor("10", "10")), makeSet(1, 5, scaledFor("10", "10"))), map[string]int32{"web-2": 11, "web-1": 10}},
		{"DEP-27c: halves are rounded away from zero", makeDeployment(15, rolling("0", "1")),
			// 5*15/10 = 7.5 for both; the second gets what the first left.
			currentAnd(makeSet(1, 5, scaledFor("10", "10")), makeSet(2, 5, scaledFor("10", "10"))), map[string]int32{"web-2": 8, "web-1": 7}},
		{"DEP-27c: leftovers go to the first", makeDeployment(10, rolling("0", "1")),
			currentAnd(makeSet(1, 1, scaledFor("3", "3")), makeSet(2, 1, scaledFor("3", "3")), makeSet(3, 1, scaledFor("3", "3"))),
			map[string]int32{"web-3": 4, "web-2": 3, "web-1": 3}},
		{"DEP-27c: to nothing", makeDeployment(0, surge3),
			currentAnd(makeSet(1, 5, scaledFor("10", "13")), makeSet(2, 8, scaledFor("10", "13"))), map[string]int32{"web-1": 0, "web-2": 0}},
		{"DEP-27c: without the annotation the status has the former number", makeDeployment(20, rolling("0", "1"), counts(10, 5, 10, 10)),
			currentAnd(makeSet(1, 5), makeSet(2, 5)), map[string]int32{"web-1": 10, "web-2": 10}},
		{"DEP-27c: with the annotation 0 the status has the former number", makeDeployment(20, rolling("0", "1"), counts(10, 5, 10, 10)),
			currentAnd(makeSet(1, 5, scaledFor("5", "0")), makeSet(2, 5, scaledFor("5", "0"))), map[string]int32{"web-1": 10, "web-2": 10}},
		{"DEP-27c: without the annotation and the status all goes to the first", makeDeployment(20, rolling("0", "1")),
			currentAnd(makeSet(1, 6), makeSet(2, 5)), map[string]int32{"web-1": 15, "web-2": 5}},
		{"DEP-27c: at the limit only annotations are refreshed", makeDeployment(10, surge3),
			currentAnd(makeSet(1, 5, scaledFor("9", "12")), makeSet(2, 8, scaledFor("9", "12"))), map[string]int32{"web-1": 5, "web-2": 8}},
		{"DEP-43: products beyond 32 bits", makeDeployment(100_000, rolling("0", "1")),
			currentAnd(makeSet(1, 40_000, scaledFor("90000", "90000")), makeSet(2, 50_000, scaledFor("90000", "90000"))),
			map[string]int32{"web-1": 44_444, "web-2": 55_556}},
		{"sums beyond 32 bits", makeDeployment(math.MaxInt32, rolling("100%", "0")),
			currentAnd(makeSet(1, 10, scaledFor("10", "20")), makeSet(2, 10, scaledFor("10", "20"))),
			map[string]int32{"web-1": math.MaxInt32, "web-2": math.MaxInt32}},
		{"DEP-27c: a paused recreation with two active sets is left alone", makeDeployment(10, recreating, paused),
			currentAnd(makeSet(1, 5, scaledFor("5", "5")), makeSet(2, 5, scaledFor("5", "5"))), none},
		{"DEP-55: a recreation with two active sets is not blocked by its annotations", makeDeployment(10, recreating),
			currentAnd(makeSet(1, 5, scaledFor("5", "5")), makeSet(2, 5, scaledFor("5", "5"))), map[string]int32{"web-1": 5, "web-2": 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := sizes(scaling(tc.d, tc.sets)); !maps.Equal(got, tc.want) {
				t.Errorf("scaling() = %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins DEP-27b.
func TestIsSaturated(t *testing.T) {
	d := makeDeployment(10)
	for _, tc := range []struct {
		name string
		rs   *appsv1.ReplicaSet
		want bool
	}{
		{"no set", nil, false},
		{"full", makeSet(1, 10, scaledFor("10", "13")), true},
		{"other size", makeSet(1, 9, scaledFor("10", "13")), false},
		{"scaled for another number", makeSet(1, 10, scaledFor("9", "12")), false},
		{"no annotation", makeSet(1, 10), false},
		{"not all available", makeSet(1, 10, scaledFor("10", "13"), observed(10, 10, 9)), false},
	} {
		if got := isSaturated(d, tc.rs); got != tc.want {
			t.Errorf("%s: isSaturated() = %t, want %t", tc.name, got, tc.want)
		}
	}
}

// After every scaling event its cause must be gone, or no rollout would follow.
// Pins DEP-55.
func TestScalingLeavesNoScalingEventBehind(t *testing.T) {
	for name, sets := range map[string]replicaSets{
		"one set of the right size": currentAnd(makeSet(1, 10, scaledFor("9", "12"))),
		"one set of another size":   currentAnd(makeSet(1, 5, scaledFor("5", "7"))),
		"one old set":               oldOf(makeSet(2, 10, scaledFor("9", "12"))),
		"saturated":                 currentAnd(makeSet(1, 10, scaledFor("10", "13")), makeSet(2, 3, scaledFor("9", "12"))),
		"two sets":                  currentAnd(makeSet(1, 5, scaledFor("9", "12")), makeSet(2, 8, scaledFor("9", "12"))),
	} {
		for strategy, change := range map[string]func(*appsv1.Deployment){"rolling": rolling("3", "2"), "recreate": recreating} {
			t.Run(name+"/"+strategy, func(t *testing.T) {
				d := makeDeployment(10, change)
				if !isScalingEvent(d, sets) {
					t.Fatal("there is no scaling event to begin with")
				}
				after := sets
				for _, step := range scaling(d, sets) {
					if sized := step.apply(d); sized != nil {
						after.replace(sized)
					}
				}
				if isScalingEvent(d, after) {
					t.Error("the scaling event is still there")
				}
			})
		}
	}
}

// Pins DEP-25.
func TestResizeWritesNoMoreThanNeeded(t *testing.T) {
	d := makeDeployment(10) // at most 13
	fresh, stale := scaledFor("10", "13"), scaledFor("9", "12")
	for _, tc := range []struct {
		name   string
		plan   resize
		writes bool
	}{
		{"lazily, the size fits", resize{makeSet(1, 5, stale), 5, false}, false},
		{"lazily, the size differs", resize{makeSet(1, 5, fresh), 6, false}, true},
		{"refreshed, all fits", resize{makeSet(1, 5, fresh), 5, true}, false},
		{"refreshed, an annotation is stale", resize{makeSet(1, 5, stale), 5, true}, true},
		{"refreshed, only the maximum is stale", resize{makeSet(1, 5, scaledFor("10", "12")), 5, true}, true},
		{"refreshed, annotations are missing", resize{makeSet(1, 5, func(rs *appsv1.ReplicaSet) { rs.Annotations = nil }), 5, true}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.plan.rs.DeepCopy()
			sized := tc.plan.apply(d)
			if (sized != nil) != tc.writes {
				t.Fatalf("apply() = %v, want a write: %t", sized, tc.writes)
			}
			if sizeOf(before) != sizeOf(tc.plan.rs) || !maps.Equal(before.Annotations, tc.plan.rs.Annotations) {
				t.Error("the cached ReplicaSet was changed")
			}
			if sized == nil {
				return
			}
			if sizeOf(sized) != tc.plan.size || sized.Annotations[desiredReplicasAnnotation] != "10" || sized.Annotations[maxReplicasAnnotation] != "13" {
				t.Errorf("size %d, annotations %v", sizeOf(sized), sized.Annotations)
			}
		})
	}
}
