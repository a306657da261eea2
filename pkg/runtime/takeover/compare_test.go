package takeover

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func pod(name string, uid types.UID, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: version}}
}

func storeOf(t *testing.T, pods ...*corev1.Pod) cache.Indexer {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, p := range pods {
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestWhatACacheLacksOfARead(t *testing.T) {
	read := func(pods ...*corev1.Pod) snapshot {
		s := snapshot{version: "100", objects: map[string]object{}}
		for _, p := range pods {
			s.add(p)
		}
		return s
	}
	for _, test := range []struct {
		name  string
		read  snapshot
		cache []*corev1.Pod
		want  string
	}{
		{"nothing", read(pod("a", "1", "10")), []*corev1.Pod{pod("a", "1", "10")}, ""},
		{"an object", read(pod("a", "1", "10")), nil, "ns/a at version 10"},
		{"an update", read(pod("a", "1", "10")), []*corev1.Pod{pod("a", "1", "9")}, "ns/a at version 10"},
		{"nothing: it is newer", read(pod("a", "1", "10")), []*corev1.Pod{pod("a", "1", "101")}, ""},
		{"a deletion", read(), []*corev1.Pod{pod("a", "1", "10")}, "the deletion of ns/a"},
		{"nothing: it was created since", read(), []*corev1.Pod{pod("a", "1", "101")}, ""},
		{"nothing: it was replaced since", read(pod("a", "1", "10")), []*corev1.Pod{pod("a", "2", "101")}, ""},
		{"a replacement", read(pod("a", "2", "20")), []*corev1.Pod{pod("a", "1", "10")}, "ns/a at version 20, the deletion of ns/a"},
		{"versions that cannot be compared", read(pod("a", "1", "x")), []*corev1.Pod{pod("a", "1", "y")}, "ns/a at version x"},
		{"nothing: equal versions that cannot be compared", read(pod("a", "1", "x")), []*corev1.Pod{pod("a", "1", "x")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := describe(test.read.missingFrom(storeOf(t, test.cache...))); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestADifferenceGoesAwayWithTheEventThatWasMissing(t *testing.T) {
	for _, test := range []struct {
		name string
		d    difference
		now  []*corev1.Pod
		want bool
	}{
		{"the object came", difference{key: "ns/a", want: object{"1", "10"}}, []*corev1.Pod{pod("a", "1", "10")}, true},
		{"an older state came", difference{key: "ns/a", want: object{"1", "10"}}, []*corev1.Pod{pod("a", "1", "9")}, false},
		{"it was replaced", difference{key: "ns/a", want: object{"1", "10"}}, []*corev1.Pod{pod("a", "2", "11")}, true},
		{"its predecessor is still there", difference{key: "ns/a", want: object{"2", "10"}}, []*corev1.Pod{pod("a", "1", "9")}, false},
		{"it went", difference{key: "ns/a", was: "1"}, nil, true},
		{"a namesake came", difference{key: "ns/a", was: "1"}, []*corev1.Pod{pod("a", "2", "11")}, true},
		{"it is still there", difference{key: "ns/a", was: "1"}, []*corev1.Pod{pod("a", "1", "12")}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.d.shownBy(storeOf(t, test.now...)); got != test.want {
				t.Errorf("shown: %v", got)
			}
		})
	}
}
