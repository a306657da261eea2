package deployment

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func version(rv string) setChange { return func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = rv } }

func TestNewestReplicaSets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		wrote  []*appsv1.ReplicaSet
		cached []*appsv1.ReplicaSet
		shown  string
		want   []string // names and versions
		kept   int
	}{
		{"nothing written", nil, []*appsv1.ReplicaSet{makeSet(1, 0, version("5"))}, "9", []string{"web-1@5"}, 0},
		{"the cache is older", []*appsv1.ReplicaSet{makeSet(1, 0, version("10"))},
			[]*appsv1.ReplicaSet{makeSet(1, 0, version("9"))}, "9", []string{"web-1@10"}, 1},
		{"the cache has caught up", []*appsv1.ReplicaSet{makeSet(1, 0, version("10"))},
			[]*appsv1.ReplicaSet{makeSet(1, 0, version("10"))}, "10", []string{"web-1@10"}, 0},
		{"the cache is newer", []*appsv1.ReplicaSet{makeSet(1, 0, version("10"))},
			[]*appsv1.ReplicaSet{makeSet(1, 0, version("11"))}, "11", []string{"web-1@11"}, 0},
		{"not in the cache yet", []*appsv1.ReplicaSet{makeSet(1, 0, version("10"))}, nil, "9", []string{"web-1@10"}, 1},
		{"not in the cache any more", []*appsv1.ReplicaSet{makeSet(1, 0, version("10"))}, nil, "11", nil, 0},
		{"a namesake", []*appsv1.ReplicaSet{makeSet(1, 0, version("10"))},
			[]*appsv1.ReplicaSet{makeSet(1, 0, version("12"), func(rs *appsv1.ReplicaSet) { rs.UID = "other" })}, "12", []string{"web-1@12"}, 0},
		{"versions that cannot be compared", []*appsv1.ReplicaSet{makeSet(1, 0, version("x"))},
			[]*appsv1.ReplicaSet{makeSet(1, 0, version("y"))}, "", []string{"web-1@y"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			known := newWrites().take(cache.ObjectName{Name: "web"})
			for _, rs := range tc.wrote {
				known.wroteReplicaSet(rs)
			}
			var got []string
			for _, rs := range known.newestReplicaSets(tc.cached, tc.shown) {
				got = append(got, rs.Name+"@"+rs.ResourceVersion)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("newestReplicaSets() = %v, want %v", got, tc.want)
			}
			if len(known.replicaSets) != tc.kept {
				t.Errorf("%d are remembered, want %d", len(known.replicaSets), tc.kept)
			}
		})
	}
}

func TestNewestDeployment(t *testing.T) {
	at := func(uid types.UID, rv string) *appsv1.Deployment {
		return makeDeployment(1, func(d *appsv1.Deployment) { d.UID, d.ResourceVersion = uid, rv })
	}
	for _, tc := range []struct {
		name          string
		wrote, cached *appsv1.Deployment
		ours          bool
	}{
		{"older cache", at("a", "10"), at("a", "9"), true},
		{"same", at("a", "10"), at("a", "10"), false},
		{"newer cache", at("a", "10"), at("a", "11"), false},
		{"recreated", at("a", "10"), at("b", "9"), false},
	} {
		known := &written{}
		known.wroteDeployment(tc.wrote)
		got := known.newestDeployment(tc.cached)
		if (got == tc.wrote) != tc.ours || (known.deployment != nil) != tc.ours {
			t.Errorf("%s: got version %s, remembered %t", tc.name, got.ResourceVersion, known.deployment != nil)
		}
	}
}

func TestWritesForgetWhatIsEmpty(t *testing.T) {
	key := cache.ObjectName{Namespace: namespace, Name: "web"}
	w := newWrites()
	known := w.take(key)
	w.put(key, known)
	if len(w.byKey) != 0 {
		t.Error("nothing was written, but something is remembered")
	}
	known.wroteReplicaSet(makeSet(1, 0))
	w.put(key, known)
	if again := w.take(key); again != known {
		t.Error("what was written is not remembered")
	}
	known.deletedReplicaSet(makeSet(1, 0))
	w.put(key, known)
	if len(w.byKey) != 0 {
		t.Error("what was deleted is remembered")
	}
}
