package deployment

import (
	"errors"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Pins DEP-28a.
func TestScaleUpNew(t *testing.T) {
	for _, tc := range []struct {
		name string
		sets replicaSets
		want int32
	}{
		{"at its size", currentAnd(makeSet(1, 10)), 10},
		{"too large", currentAnd(makeSet(1, 12), makeSet(2, 9)), 10},
		{"room for some", currentAnd(makeSet(1, 3), makeSet(2, 8)), 5},
		{"no room", currentAnd(makeSet(1, 3), makeSet(2, 10)), 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := scaleUpNew(makeDeployment(10), tc.sets); got.size != tc.want || got.rs != tc.sets.current || got.refresh {
				t.Errorf("scaleUpNew() = %+v, want size %d", got, tc.want)
			}
		})
	}
}

func TestScaleDownOld(t *testing.T) {
	none := map[string]int32{}
	available := func(n int32) setChange { return func(rs *appsv1.ReplicaSet) { rs.Status.AvailableReplicas = n } }
	// 10 desired, at most 13, at least 8 available.
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		sets replicaSets
		want map[string]int32
	}{
		{"DEP-28b: no old pods", makeDeployment(10), currentAnd(makeSet(1, 10), makeSet(2, 0)), none},
		{"DEP-28d: healthy pods go down to the minimum", makeDeployment(10),
			currentAnd(makeSet(1, 3, available(0)), makeSet(2, 10)), map[string]int32{"web-2": 8}},
		{"DEP-28d: new pods make room", makeDeployment(10),
			currentAnd(makeSet(1, 3), makeSet(2, 8)), map[string]int32{"web-2": 5}},
		{"DEP-28d: the oldest goes first", makeDeployment(10),
			currentAnd(makeSet(1, 5), makeSet(2, 2), makeSet(3, 6)), map[string]int32{"web-2": 0, "web-3": 3}},
		{"DEP-28b: nothing to spare", makeDeployment(10),
			currentAnd(makeSet(1, 3, available(0)), makeSet(2, 8)), none},
		{"DEP-28b: new pods that are not available count for nothing", makeDeployment(10, rolling("3", "0")),
			currentAnd(makeSet(1, 3, available(0)), makeSet(2, 10)), none},
		{"DEP-28c: unavailable pods go first", makeDeployment(10),
			currentAnd(makeSet(1, 3, available(0)), makeSet(2, 4), makeSet(3, 6, available(4))), map[string]int32{"web-3": 4}},
		{"DEP-28c: unavailable pods go within the budget only", makeDeployment(10),
			currentAnd(makeSet(1, 3, available(0)), makeSet(2, 10, available(0))), map[string]int32{"web-2": 8}},
		{"unavailable and healthy pods of one set go in one write", makeDeployment(10),
			currentAnd(makeSet(1, 7), makeSet(2, 6, available(4))), map[string]int32{"web-2": 1}},
		{"DEP-28c: a set still being scaled down stops what comes after it", makeDeployment(10),
			currentAnd(makeSet(1, 3), makeSet(2, 3, available(2)), makeSet(3, 4, available(5)), makeSet(4, 3, available(1))), map[string]int32{"web-2": 2}},
		{"DEP-68: pods on their way out are not counted on", makeDeployment(10),
			currentAnd(makeSet(1, 5), makeSet(2, 10, available(0)), makeSet(3, 3, available(5))), map[string]int32{"web-2": 0}},
		{"DEP-74: nor are new pods that are", makeDeployment(50, rolling("25%", "0")),
			currentAnd(makeSet(1, 40, available(80)), makeSet(2, 23)), map[string]int32{"web-2": 10}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := sizes(scaleDownOld(tc.d, tc.sets)); !maps.Equal(got, tc.want) {
				t.Errorf("scaleDownOld() = %v, want %v", got, tc.want)
			}
		})
	}
}

// Pods become available one at a time and the rollout is followed to its end: there are
// never more pods than allowed and never fewer available than required.
func TestRollingUpdateKeepsWithinItsLimits(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment){
		"25%/25%": rolling("25%", "25%"), "1/0": rolling("1", "0"), "0/1": rolling("0", "1"), "0/0": rolling("0", "0"),
		"100%/0": rolling("100%", "0"), "0/100%": rolling("0", "100%"),
	} {
		t.Run(name, func(t *testing.T) {
			d := makeDeployment(10, change)
			sets := currentAnd(makeSet(1, 0), makeSet(2, 4, observed(4, 2, 2)), makeSet(3, 6))
			for steps := 0; ; steps++ {
				if steps > 200 {
					t.Fatal("the rollout does not end")
				}
				plan := []resize{scaleUpNew(d, sets)}
				if plan[0].apply(d) == nil {
					plan = scaleDownOld(d, sets)
				}
				for _, step := range plan {
					if sized := step.apply(d); sized != nil {
						sets.replace(sized)
					}
				}
				if most := max(maxReplicas(d), 10); total(sets.all()) > most {
					t.Fatalf("%d pods, at most %d allowed", total(sets.all()), most)
				}
				if left := staying(sets.all()); left < int64(minAvailable(d)) && left < 8 {
					t.Fatalf("%d pods stay available, %d required", left, minAvailable(d))
				}
				if !podsFollow(sets) && sizeOf(sets.current) == 10 && total(sets.old) == 0 {
					return
				}
			}
		})
	}
}

// podsFollow makes one new pod available and removes surplus old ones; false if there is
// nothing left to do.
func podsFollow(sets replicaSets) bool {
	moved := false
	for _, rs := range sets.old {
		size := sizeOf(rs)
		moved = moved || rs.Status.Replicas != size
		observed(size, min(rs.Status.ReadyReplicas, size), min(rs.Status.AvailableReplicas, size))(rs)
	}
	if rs := sets.current; rs.Status.AvailableReplicas < sizeOf(rs) {
		n := rs.Status.AvailableReplicas + 1
		observed(sizeOf(rs), n, n)(rs)
		moved = true
	}
	return moved
}

// Pins DEP-29.
func TestAnyRunning(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		corev1.PodPending: true, corev1.PodRunning: true, corev1.PodUnknown: true, "": true,
		corev1.PodSucceeded: false, corev1.PodFailed: false,
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if got := anyRunning([]*corev1.Pod{{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, pod}); got != want {
			t.Errorf("anyRunning(%q) = %t, want %t", phase, got, want)
		}
	}
}

// An admission webhook protects the oldest one. Pins DEP-77.
func TestAReplicaSetThatIsNotScaledKeepsNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   []string
	}{
		"rolling":    {rolling("0", "4"), []string{"update replicasets web-1", "update replicasets web-2"}},
		"recreating": {recreating, []string{"update replicasets web-1", "update replicasets web-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, makeDeployment(4, image("v3"), test.change), makeSet(1, 2), makeSet(2, 2), makeSet(3, 0, current))
			no := errors.New("no")
			h.Refuse("update replicasets web-1", no)
			h.CatchUp(t)
			if err := h.Reconcile(); !errors.Is(err, no) {
				t.Errorf("the error is %v", err)
			}
			sent := slices.DeleteFunc(h.Requests(), func(r string) bool { return !slices.Contains(test.want, r) })
			if !slices.Equal(sent, test.want) {
				t.Errorf("requests are %q, want %q", sent, test.want)
			}
			if got := sizeOf(h.set(t, "web-2")); got != 0 {
				t.Errorf("the other one has %d", got)
			}
		})
	}
}
