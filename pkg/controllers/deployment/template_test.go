package deployment

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
)

// Pins DEP-24a.
func TestNewReplicaSet(t *testing.T) {
	d := makeDeployment(10, annotated("team", "shop", revisionAnnotation, "1"), func(d *appsv1.Deployment) {
		d.Spec.MinReadySeconds = 7
		d.Status.CollisionCount = ptr.To[int32](2)
		d.Spec.Template.Labels["tier"] = "front"
	})
	stored := d.DeepCopy()
	rs := newReplicaSet(d, oldOf(makeSet(2, 4), makeSet(5, 0)).old)

	hash := podtemplate.Hash(&d.Spec.Template, ptr.To[int32](2))
	if rs.Name != "web-"+hash || rs.Namespace != namespace {
		t.Errorf("name is %s/%s, want the hash %s at the end", rs.Namespace, rs.Name, hash)
	}
	labels := map[string]string{"app": "web", "tier": "front", "pod-template-hash": hash}
	if !maps.Equal(rs.Labels, labels) || !maps.Equal(rs.Spec.Template.Labels, labels) {
		t.Errorf("labels are %v and %v, want %v", rs.Labels, rs.Spec.Template.Labels, labels)
	}
	if want := map[string]string{"app": "web", "pod-template-hash": hash}; !maps.Equal(rs.Spec.Selector.MatchLabels, want) {
		t.Errorf("selector is %v, want %v", rs.Spec.Selector.MatchLabels, want)
	}
	want := map[string]string{"team": "shop", revisionAnnotation: "6", desiredReplicasAnnotation: "10", maxReplicasAnnotation: "13"}
	if !maps.Equal(rs.Annotations, want) {
		t.Errorf("annotations are %v, want %v", rs.Annotations, want)
	}
	if !metav1.IsControlledBy(rs, d) || !*rs.OwnerReferences[0].BlockOwnerDeletion || rs.OwnerReferences[0].Kind != "Deployment" {
		t.Errorf("owner references are %v", rs.OwnerReferences)
	}
	if rs.Spec.MinReadySeconds != 7 {
		t.Errorf("minReadySeconds is %d, want 7", rs.Spec.MinReadySeconds)
	}
	if got := sizeOf(rs); got != 9 {
		t.Errorf("size is %d, want the 9 that 4 old pods leave of 13", got)
	}
	if !maps.Equal(d.Spec.Template.Labels, stored.Spec.Template.Labels) || !maps.Equal(d.Spec.Selector.MatchLabels, stored.Spec.Selector.MatchLabels) {
		t.Error("the Deployment was changed")
	}
}

func TestNewReplicaSetWithoutLabelsOrAnnotations(t *testing.T) {
	d := makeDeployment(1, func(d *appsv1.Deployment) {
		d.Spec.Template.Labels = nil
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	})
	rs := newReplicaSet(d, nil)
	if rs.Spec.Selector.MatchLabels["pod-template-hash"] == "" || len(rs.Spec.Selector.MatchExpressions) != 1 || rs.Annotations[revisionAnnotation] != "1" {
		t.Errorf("selector is %v, annotations are %v", rs.Spec.Selector, rs.Annotations)
	}
}

func TestReplicaSetNameIsCutTo253Characters(t *testing.T) {
	for name, d := range map[string]*appsv1.Deployment{
		"DEP-24a: it is long":            makeDeployment(1, func(d *appsv1.Deployment) { d.Name = strings.Repeat("x", 253) }),
		"WL-126: it is cut before a dot": makeDeployment(1, func(d *appsv1.Deployment) { d.Name = strings.Repeat("x.", 126) + "x" }),
		"WL-126: it is cut after a dot":  makeDeployment(1, func(d *appsv1.Deployment) { d.Name = "x" + strings.Repeat("x.", 125) + "xx" }),
	} {
		rs := newReplicaSet(d, nil)
		if problems := validation.NameIsDNSSubdomain(rs.Name, false); len(problems) > 0 || !strings.HasPrefix(rs.Name, d.Name[:240]) {
			t.Errorf("%s: the ReplicaSet is called %s: %q", name, rs.Name, problems)
		}
	}
}

// Pins DEP-24b and DEP-28a.
func TestGrownSize(t *testing.T) {
	for _, tc := range []struct {
		name string
		d    *appsv1.Deployment
		sets replicaSets
		want int32
	}{
		{"alone it takes all", makeDeployment(10), replicaSets{}, 10},
		{"beside a full old set it takes the surge", makeDeployment(10), oldOf(makeSet(2, 10)), 3},
		{"nothing is left at the limit", makeDeployment(10), oldOf(makeSet(2, 13)), 0},
		{"nothing is left above the limit", makeDeployment(10), oldOf(makeSet(2, 10), makeSet(3, 10)), 0},
		{"no more than desired", makeDeployment(10), oldOf(makeSet(2, 1)), 10},
		{"DEP-44: no surge, no room", makeDeployment(10, rolling("0", "0")), oldOf(makeSet(2, 10)), 0},
		{"it grows by what is left", makeDeployment(10), currentAnd(makeSet(1, 3), makeSet(2, 8)), 5},
		{"it grows no further than desired", makeDeployment(10), currentAnd(makeSet(1, 9), makeSet(2, 1)), 10},
		{"it stays at the limit", makeDeployment(10), currentAnd(makeSet(1, 3), makeSet(2, 10)), 3},
		{"it is not shrunk", makeDeployment(10), currentAnd(makeSet(1, 12)), 12},
		{"recreation knows no limit", makeDeployment(10, recreating), oldOf(makeSet(2, 10)), 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := grownSize(tc.d, tc.sets); got != tc.want {
				t.Errorf("grownSize() = %d, want %d", got, tc.want)
			}
		})
	}
}

// Pins DEP-23c.
func TestSyncedReplicaSet(t *testing.T) {
	ready := func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 9 }
	d := makeDeployment(1, func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 9 })

	if rs := syncedReplicaSet(d, currentAnd(makeSet(1, 1, ready))); rs != nil {
		t.Errorf("nothing to do, got %v", rs)
	}
	rs := syncedReplicaSet(d, currentAnd(makeSet(1, 1)))
	if rs == nil || rs.Spec.MinReadySeconds != 9 {
		t.Errorf("minReadySeconds not taken over: %v", rs)
	}
	rs = syncedReplicaSet(d, currentAnd(makeSet(1, 1, ready), makeSet(4, 0)))
	if rs == nil || rs.Annotations[revisionAnnotation] != "5" || rs.Annotations[revisionHistoryAnnotation] != "1" {
		t.Errorf("revision not raised above the old ones: %v", rs)
	}
	rs = syncedReplicaSet(d, currentAnd(makeSet(1, 1, noted(revisionAnnotation, "x")), makeSet(4, 0)))
	if rs == nil || rs.Spec.MinReadySeconds != 9 || rs.Annotations[revisionAnnotation] != "x" {
		t.Errorf("a bad revision keeps annotations only: %v", rs)
	}
}
