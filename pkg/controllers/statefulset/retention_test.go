package statefulset

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func ref(version, kind, name string, uid types.UID, controller bool) metav1.OwnerReference {
	r := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: uid}
	if controller {
		r.Controller, r.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	}
	return r
}

var (
	bySet      = ref("apps/v1", "StatefulSet", "web", "o", true)
	byPod      = ref("v1", "Pod", "web-1", "web-1", true)
	staleSet   = ref("apps/v1", "StatefulSet", "web", "old", true)
	stalePod   = ref("v1", "Pod", "web-1", "old", true)
	weakSet    = ref("apps/v1", "StatefulSet", "web", "o", false)
	weakPod    = ref("v1", "Pod", "web-1", "web-1", false)
	foreign    = ref("example.com/v1", "Backup", "b", "b", true)
	bystander  = ref("example.com/v1", "Backup", "b", "b", false)
	otherGroup = ref("example.com/v1", "StatefulSet", "web", "x", false)
)

func claimOwnedBy(refs ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "data-web-1", UID: "claim", ResourceVersion: "40", OwnerReferences: refs,
	}}
}

func describe(refs []metav1.OwnerReference) string {
	var all []string
	for _, r := range refs {
		all = append(all, fmt.Sprintf("%s/%s/%v", r.Kind, r.UID, ptr.Deref(r.Controller, false)))
	}
	return strings.Join(all, " ")
}

// TestRetention goes through the policies for a slot that stays and one that does not.
// Pins STS-38 and STS-39.
func TestRetention(t *testing.T) {
	const set, pod = "StatefulSet/o/true", "Pod/web-1/true"
	for _, test := range []struct {
		deleted, scaled    appsv1.PersistentVolumeClaimRetentionPolicyType
		inRange, condemned string
	}{
		{retain, retain, "", ""},
		{discard, retain, set, set},
		{retain, discard, "", pod},
		{discard, discard, set, pod},
		{"Unknown", discard, "", pod},
		{"Unknown", "Unknown", "", ""},
	} {
		for replicas, want := range map[int32]string{2: test.inRange, 1: test.condemned} {
			s := newSet(replicas, claims("data"), retention(test.deleted, test.scaled))
			p := podAt(s, "r", 1)
			for _, before := range [][]metav1.OwnerReference{nil, {bySet}, {byPod}, {bySet, weakPod}, {weakSet}, {weakPod}} {
				claim := claimOwnedBy(before...)
				upToDate := ownersOf(claim, s, p).upToDate(policyOf(s), inRange(s, 1))
				if want := describe(before) == want; upToDate != want {
					t.Errorf("%s/%s with %d replicas: %q is up to date: %v", test.deleted, test.scaled, replicas, describe(before), upToDate)
				}
				fixed := withOwners(claim, s, p)
				if got := describe(fixed.OwnerReferences); got != want {
					t.Errorf("%s/%s with %d replicas: %q becomes %q, want %q", test.deleted, test.scaled, replicas, describe(before), got, want)
				}
				if !ownersOf(fixed, s, p).upToDate(policyOf(s), inRange(s, 1)) {
					t.Errorf("%s/%s with %d replicas: %q is not up to date after it was fixed", test.deleted, test.scaled, replicas, describe(before))
				}
				if describe(claim.OwnerReferences) != describe(before) {
					t.Error("the cached claim was changed")
				}
			}
		}
	}
}

func TestOtherOwnersOfClaims(t *testing.T) {
	for _, test := range []struct {
		name                string
		policy              func(*appsv1.StatefulSet)
		refs                []metav1.OwnerReference
		upToDate, conflicts bool
		fixed               string
	}{
		{"STS-40: a bystander stays", retention(discard, retain), []metav1.OwnerReference{bystander}, false, false, "Backup/b/false StatefulSet/o/true"},
		{"STS-35: a namesake of another group is a bystander", retention(discard, retain), []metav1.OwnerReference{otherGroup, bySet}, true, false, "StatefulSet/x/false StatefulSet/o/true"},
		{"STS-36: a stale set is left alone", retention(discard, retain), []metav1.OwnerReference{staleSet}, true, true, ""},
		{"STS-36: a stale pod is left alone", retention(discard, discard), []metav1.OwnerReference{stalePod, bySet}, true, true, ""},
		{"STS-36: a stale set is left alone when all is retained", retention(retain, retain), []metav1.OwnerReference{staleSet}, true, false, ""},
		{"STS-37: a foreign controller", retention(discard, retain), []metav1.OwnerReference{foreign}, true, true, "Backup/b/true"},
		{"STS-37: a foreign controller and our own", retention(discard, retain), []metav1.OwnerReference{foreign, weakSet}, false, true, "Backup/b/true"},
		{"STS-37: a foreign controller and the pod", retention(discard, retain), []metav1.OwnerReference{foreign, weakPod}, false, true, "Backup/b/true"},
		{"STS-37: a foreign controller when all is retained", retention(retain, retain), []metav1.OwnerReference{foreign}, true, false, "Backup/b/true"},
		{"no policy", func(*appsv1.StatefulSet) {}, []metav1.OwnerReference{foreign, weakSet}, false, false, "Backup/b/true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(2, claims("data"), test.policy)
			pod := podAt(set, "r", 1)
			found := ownersOf(claimOwnedBy(test.refs...), set, pod)
			if got := found.upToDate(policyOf(set), true); got != test.upToDate {
				t.Errorf("up to date: %v", got)
			}
			if got := found.conflicts(policyOf(set)); got != test.conflicts {
				t.Errorf("conflicts: %v", got)
			}
			if got := describe(withOwners(claimOwnedBy(test.refs...), set, pod).OwnerReferences); got != test.fixed {
				t.Errorf("fixed: %q, want %q", got, test.fixed)
			}
		})
	}
}

// Pins STS-40.
func TestOwnersOfClaimsBlockTheirDeletion(t *testing.T) {
	set := newSet(2, claims("data"), retention(discard, retain))
	if refs := withOwners(claimOwnedBy(), set, podAt(set, "r", 1)).OwnerReferences; len(refs) != 1 || !ptr.Deref(refs[0].BlockOwnerDeletion, false) {
		t.Errorf("the owners are %+v", refs)
	}
}

// Pins STS-53.
func TestAPodThatIsNotCreatedOwnsNothing(t *testing.T) {
	set := newSet(2, claims("data"), retention(retain, discard))
	pod := newPod(set, "r", 1)
	for _, r := range []metav1.OwnerReference{stalePod, byPod, ref("v1", "Pod", "web-1", "", true)} {
		if found := ownersOf(claimOwnedBy(r), set, pod); found.pod || !found.stalePod {
			t.Errorf("%+v: %+v", r, found)
		}
	}
	set = newSet(1, claims("data"), retention(retain, discard))
	if refs := withOwners(claimOwnedBy(), set, pod).OwnerReferences; len(refs) != 0 {
		t.Errorf("owned by %v", refs)
	}
}

// Pins STS-39.
func TestKnownPolicy(t *testing.T) {
	for _, test := range []struct {
		deleted, scaled appsv1.PersistentVolumeClaimRetentionPolicyType
		want            bool
	}{{retain, discard, true}, {"", "", true}, {"x", retain, false}, {retain, "x", false}} {
		if got := knownPolicy(newSet(1, retention(test.deleted, test.scaled))); got != test.want {
			t.Errorf("%q %q: %v", test.deleted, test.scaled, got)
		}
	}
	if !knownPolicy(newSet(1)) || policyOf(newSet(1)) != retainsAll {
		t.Error("no policy does not retain")
	}
}
