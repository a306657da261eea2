package deployment

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
)

func TestSyncedAnnotations(t *testing.T) {
	for _, tc := range []struct {
		name   string
		d, rs  []string
		target int64
		want   map[string]string // nil: nothing to change
	}{
		{"nothing to do", []string{"a", "1"}, []string{"a", "1", revisionAnnotation, "2"}, 2, nil},
		{"DEP-23a: copies and overwrites", []string{"a", "1", "b", "2"}, []string{"a", "0", revisionAnnotation, "2"}, 2,
			map[string]string{"a": "1", "b": "2", revisionAnnotation: "2"}},
		{"DEP-23a: keeps what the Deployment lost", nil, []string{"a", "1", revisionAnnotation, "2"}, 2, nil},
		{"DEP-23a: copies none of its own", []string{
			"kubectl.kubernetes.io/last-applied-configuration", "x",
			"deployment.kubernetes.io/revision", "x",
			"deployment.kubernetes.io/revision-history", "x",
			"deployment.kubernetes.io/desired-replicas", "x",
			"deployment.kubernetes.io/max-replicas", "x",
			"deprecated.deployment.rollback.to", "x",
		}, []string{revisionAnnotation, "2"}, 2, nil},
		{"DEP-23b: raises the revision and notes the old one", nil, []string{revisionAnnotation, "2"}, 5,
			map[string]string{revisionAnnotation: "5", revisionHistoryAnnotation: "2"}},
		{"DEP-23b: appends to the history", nil, []string{revisionAnnotation, "4", revisionHistoryAnnotation, "1,2"}, 5,
			map[string]string{revisionAnnotation: "5", revisionHistoryAnnotation: "1,2,4"}},
		{"DEP-23b: first revision has no history", nil, nil, 1, map[string]string{revisionAnnotation: "1"}},
		{"DEP-23b: never lowers the revision", nil, []string{revisionAnnotation, "7"}, 5, nil},
		{"DEP-23b: leaves a set with a bad revision alone", []string{"a", "1"}, []string{revisionAnnotation, "x"}, 5, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := makeDeployment(1, annotated(tc.d...))
			rs := makeSet(1, 1)
			rs.Annotations = nil
			noted(tc.rs...)(rs)
			before := maps.Clone(rs.Annotations)
			if got := syncedAnnotations(d, rs, tc.target); !maps.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
				t.Errorf("syncedAnnotations() = %v, want %v", got, tc.want)
			}
			if !maps.Equal(before, rs.Annotations) {
				t.Error("the cached ReplicaSet was changed")
			}
		})
	}
}

// Pins DEP-23b.
func TestRevisionHistoryDropsTheOldestBeyond2000Characters(t *testing.T) {
	full := "11111,22222," + strings.Repeat("9", 1988) // 2000 characters
	for _, tc := range []struct{ name, history, former, want string }{
		{"fits exactly", strings.Repeat("9", 1988), "12345678901", strings.Repeat("9", 1988) + ",12345678901"},
		{"one goes", full, "7", full[6:] + ",7"},
		{"two go", full, "7777777", full[12:] + ",7777777"},
		{"all go", strings.Repeat("9", 2000), "7", "7"},
		{"room for the last character", strings.Repeat("9", 1998), "7", strings.Repeat("9", 1998) + ",7"},
		{"no room for the last character", strings.Repeat("9", 1999), "7", "7"},
		{"too long itself is not noted", "", strings.Repeat("0", 2001), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string]string{revisionHistoryAnnotation: tc.history}
			appendHistory(got, tc.former)
			if got[revisionHistoryAnnotation] != tc.want {
				t.Errorf("history has %d characters, want %d", len(got[revisionHistoryAnnotation]), len(tc.want))
			}
		})
	}
}

// Pins DEP-20.
func TestAnnotatedReplicas(t *testing.T) {
	for text, want := range map[string]*int32{
		"5": ptr.To[int32](5), "0": ptr.To[int32](0), "2147483647": ptr.To[int32](2147483647),
		"": nil, "x": nil, "-1": nil, "2147483648": nil, "4294967296": nil,
	} {
		got, ok := annotatedReplicas(makeSet(1, 1, noted(desiredReplicasAnnotation, text)), desiredReplicasAnnotation)
		if ok != (want != nil) || (ok && got != *want) {
			t.Errorf("annotatedReplicas(%q) = %d, %t", text, got, ok)
		}
	}
}

// Pins DEP-22.
func TestMaxRevisionIgnoresWhatIsNoNumber(t *testing.T) {
	sets := oldOf(makeSet(3, 0), makeSet(1, 0), makeSet(9, 0, noted(revisionAnnotation, "x"))).old
	if got := maxRevision(sets); got != 3 {
		t.Errorf("maxRevision() = %d, want 3", got)
	}
	if got := maxRevision(nil); got != 0 {
		t.Errorf("maxRevision() of none = %d, want 0", got)
	}
}
