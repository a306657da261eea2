package deployment

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
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
			known := newWrites(clocktesting.NewFakePassiveClock(time.Unix(1, 0))).take(cache.ObjectName{Name: "web"})
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
		known := &written{clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}
		known.wroteDeployment(tc.wrote)
		got := known.newestDeployment(tc.cached)
		if (got == tc.wrote) != tc.ours || (known.deployment != nil) != tc.ours {
			t.Errorf("%s: got version %s, remembered %t", tc.name, got.ResourceVersion, known.deployment != nil)
		}
	}
}

func TestWritesForgetWhatIsEmpty(t *testing.T) {
	key := cache.ObjectName{Namespace: namespace, Name: "web"}
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w := newWrites(clk)
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

// TestWritesGiveWayToACacheThatStaysOlder: the cluster was restored from a backup, and its
// versions went back.
func TestWritesGiveWayToACacheThatStaysOlder(t *testing.T) {
	key := cache.ObjectName{Namespace: namespace, Name: "web"}
	cached := makeDeployment(1, func(d *appsv1.Deployment) { d.ResourceVersion = "5" })
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w := newWrites(clk)
	write := func() *written {
		known := w.take(key)
		known.wroteDeployment(makeDeployment(2, func(d *appsv1.Deployment) { d.ResourceVersion = "1000" }))
		known.wroteReplicaSet(makeSet(1, 0, version("1001")))
		w.put(key, known)
		return known
	}
	remembered := func() (any, int) {
		known := w.take(key)
		return known.newestDeployment(cached).ResourceVersion, len(known.newestReplicaSets(nil, "5"))
	}
	write()
	clk.SetTime(clk.Now().Add(writtenTime - 1))
	if d, sets := remembered(); d != "1000" || sets != 1 {
		t.Errorf("before the time is over: %v, %d", d, sets)
	}
	clk.SetTime(clk.Now().Add(1))
	if d, sets := remembered(); d != "5" || sets != 0 {
		t.Errorf("after it: %v, %d", d, sets)
	}

	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, err := range []error{
		apierrors.NewConflict(resource, "web", errors.New("newer")),
		errors.Join(nil, fmt.Errorf("updating: %w", apierrors.NewNotFound(resource, "web"))),
	} {
		write().answered(errors.New("something else"))
		if d, sets := remembered(); d != "1000" || sets != 1 {
			t.Errorf("after an error that says nothing: %v, %d", d, sets)
		}
		write().answered(err)
		if d, sets := remembered(); d != "5" || sets != 0 {
			t.Errorf("after %v: %v, %d", err, d, sets)
		}
	}
}
