package owners

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Pins WL-15.
func TestResolve(t *testing.T) {
	owner := object("owner", "o")
	for _, test := range []struct {
		name string
		ref  *metav1.OwnerReference
		err  error
		want bool
	}{
		{"no reference", nil, nil, false},
		{"another kind", &metav1.OwnerReference{Kind: "Job", Name: "owner", UID: "o"}, nil, false},
		{"unknown owner", &metav1.OwnerReference{Kind: "ReplicaSet", Name: "owner", UID: "o"}, errors.New("not found"), false},
		{"recreated owner", &metav1.OwnerReference{Kind: "ReplicaSet", Name: "owner", UID: "old"}, nil, false},
		{"match", &metav1.OwnerReference{Kind: "ReplicaSet", Name: "owner", UID: "o"}, nil, true},
		{"group is not compared", &metav1.OwnerReference{APIVersion: "x/v9", Kind: "ReplicaSet", Name: "owner", UID: "o"}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := Resolve(test.ref, "ReplicaSet", func(string) (*corev1.Pod, error) { return owner, test.err })
			if ok != test.want || ok && got != owner {
				t.Errorf("got %v, %v, want %v", got, ok, test.want)
			}
		})
	}
}

func TestSameController(t *testing.T) {
	a, b, none := object("p", "1", controlledBy("a")), object("p", "1", controlledBy("b")), object("p", "1")
	for _, test := range []struct {
		name     string
		old, new *corev1.Pod
		want     bool
	}{
		{"same", a, a.DeepCopy(), true},
		{"none", none, none.DeepCopy(), true},
		{"changed", a, b, false},
		{"lost", a, none, false},
		{"gained", none, a, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := SameController(test.old, test.new); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// selecting is an owner whose selector is its annotation.
func selecting(name string, uid types.UID, generation int64, selector string) *corev1.Pod {
	return object(name, uid, func(p *corev1.Pod) {
		p.Generation = generation
		p.Annotations = map[string]string{"selector": selector}
	})
}

func parseAnnotation(parses *int) func(*corev1.Pod) (labels.Selector, error) {
	return func(p *corev1.Pod) (labels.Selector, error) {
		*parses++
		return labels.Parse(p.Annotations["selector"])
	}
}

// Pins WL-15.
func TestMatching(t *testing.T) {
	var parses int
	owners := []*corev1.Pod{
		selecting("a", "1", 1, "app=a"),
		selecting("empty", "2", 1, ""),
		selecting("invalid", "3", 1, "!!"),
		selecting("exists", "4", 1, "app"),
		selecting("absent", "5", 1, "!other"),
	}
	selectors := NewSelectors(parseAnnotation(&parses))
	for _, test := range []struct {
		name   string
		orphan *corev1.Pod
		want   []string
	}{
		{"every match", object("p", "p", labeled("a")), []string{"a", "exists", "absent"}},
		{"other label", object("p", "p", labeled("b")), []string{"exists", "absent"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []*corev1.Pod
			for _, owner := range owners {
				if selectors.match(owner, test.orphan.Labels) {
					got = append(got, owner)
				}
			}
			if got := names(got); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if parses != len(owners) {
		t.Errorf("parsed %d selectors, want each of %d once", parses, len(owners))
	}
}

// Pins WL-95 and WL-127.
func TestSelectorsParseAgainOnlyWhatChanged(t *testing.T) {
	var parses int
	selectors := NewSelectors(parseAnnotation(&parses))
	check := func(owner *corev1.Pod, wantSelector string, wantParses int) {
		t.Helper()
		selector, err := selectors.Of(owner)
		if err != nil || selector.String() != wantSelector || parses != wantParses {
			t.Errorf("got %v, %v after %d parses, want %q after %d", selector, err, parses, wantSelector, wantParses)
		}
	}
	check(selecting("a", "1", 1, "x=1"), "x=1", 1)
	check(selecting("a", "1", 1, "x=1"), "x=1", 1)
	check(selecting("a", "1", 2, "x=2"), "x=2", 2)
	check(selecting("a", "2", 2, "x=3"), "x=3", 3)
	selectors.Forget(types.NamespacedName{Namespace: "ns", Name: "a"})
	if len(selectors.parsed) != 0 {
		t.Errorf("remembers %v", selectors.parsed)
	}
	check(selecting("a", "2", 2, "x=3"), "x=3", 4)
	restored := selecting("a", "2", 2, "x=4")
	restored.ResourceVersion = "7"
	check(restored, "x=4", 5)
	check(restored, "x=4", 5)
}
