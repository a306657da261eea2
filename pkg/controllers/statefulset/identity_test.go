package statefulset

import (
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pins STS-11 and STS-66.
func TestSplit(t *testing.T) {
	for name, want := range map[string]struct {
		parent  string
		ordinal int
	}{
		"web-0":                 {"web", 0},
		"my-web-12":             {"my-web", 12},
		"web-2147483647":        {"web", 2147483647},
		"web-2147483648":        {"web", -1}, // beyond int32
		"web-01":                {"", -1},    // no set gives this name
		"web-x":                 {"", -1},
		"web-":                  {"", -1},
		"web":                   {"", -1},
		"7":                     {"", -1},
		"web--1":                {"web-", 1},
		"web-1x":                {"", -1},
		"web-99999999999999999": {"web", -1},
	} {
		if parent, ordinal := split(name); parent != want.parent || ordinal != want.ordinal {
			t.Errorf("%s: %q, %d, want %v", name, parent, ordinal, want)
		}
	}
}

// Pins STS-11 and STS-66.
func TestMembersHaveTheNameOfTheSet(t *testing.T) {
	set := newSet(1)
	for name, want := range map[string]bool{"web-0": true, "web-99": true, "web-4294967296": true, "web-x": false, "web-01": false, "other-0": false, "web-a-0": false, "web": false} {
		if got := isMember(set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Pins STS-11.
func TestRange(t *testing.T) {
	set := newSet(2, startingAt(5))
	for ordinal, want := range map[int]bool{-1: false, 0: false, 4: false, 5: true, 6: true, 7: false} {
		if got := inRange(set, ordinal); got != want {
			t.Errorf("%d: %v", ordinal, got)
		}
	}
	if !inRange(newSet(1), 0) || inRange(newSet(0), 0) {
		t.Error("the range does not begin at 0 by default")
	}
	set.Spec.Replicas = nil
	if replicasOf(set) != 1 {
		t.Error("replicas do not default to 1")
	}
}

// Pins STS-12, STS-48 and WL-31.
func TestNewPod(t *testing.T) {
	set := newSet(3, claims("data", "logs"), func(set *appsv1.StatefulSet) {
		set.Spec.Template.Annotations = map[string]string{"note": "n"}
		set.Spec.Template.Spec.Hostname = "ignored"
		set.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp"}, {Name: "logs"}}
	})
	pod := newPod(set, "web-rev", 2)
	ref := metav1.GetControllerOf(pod)
	if pod.Name != "web-2" || pod.Namespace != "ns" || pod.GenerateName != "web-" || pod.Annotations["note"] != "n" ||
		pod.Spec.Hostname != "web-2" || pod.Spec.Subdomain != "svc" || ref == nil || ref.UID != "o" {
		t.Errorf("got %+v", pod)
	}
	for label, want := range map[string]string{
		"app": "a", "statefulset.kubernetes.io/pod-name": "web-2", "apps.kubernetes.io/pod-index": "2", "controller-revision-hash": "web-rev",
	} {
		if got := pod.Labels[label]; got != want {
			t.Errorf("label %s: %q, want %q", label, got, want)
		}
	}
	var volumes []string
	for _, v := range pod.Spec.Volumes {
		name := v.Name
		if v.PersistentVolumeClaim != nil {
			name += "=" + v.PersistentVolumeClaim.ClaimName
		}
		volumes = append(volumes, name)
	}
	if want := []string{"data=data-web-2", "logs=logs-web-2", "tmp"}; !slices.Equal(volumes, want) {
		t.Errorf("volumes %v, want %v", volumes, want)
	}
	if !identityMatches(set, pod) || !storageMatches(set, pod) {
		t.Error("a new pod does not match its slot")
	}
	if len(set.Spec.Template.Labels) != 1 {
		t.Error("the template was changed")
	}
}

// Pins STS-14.
func TestIdentityAndStorage(t *testing.T) {
	set := newSet(3, claims("data"))
	for _, test := range []struct {
		name              string
		change            func(*corev1.Pod)
		identity, storage bool
		patch             string
	}{
		{"as made", func(*corev1.Pod) {}, true, true, ""},
		{"pod-name label is missing", func(p *corev1.Pod) { delete(p.Labels, "statefulset.kubernetes.io/pod-name") }, false, true,
			`{"metadata":{"labels":{"apps.kubernetes.io/pod-index":"1","statefulset.kubernetes.io/pod-name":"web-1"},"uid":"web-1"}}`},
		{"pod-index label is not checked", func(p *corev1.Pod) { delete(p.Labels, "apps.kubernetes.io/pod-index") }, true, true, ""},
		{"other set", func(p *corev1.Pod) { p.Name = "other-1" }, false, false, "-"},
		{"no ordinal", func(p *corev1.Pod) { p.Name = "web-x" }, false, false, "-"},
		{"no volume", func(p *corev1.Pod) { p.Spec.Volumes = nil }, true, false,
			`{"metadata":{"uid":"web-1"},"spec":{"volumes":[{"$retainKeys":["name","persistentVolumeClaim"],"name":"data","persistentVolumeClaim":{"claimName":"data-web-1"}}]}}`},
		{"other claim", func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "data-web-2" }, true, false, "-"},
		{"no claim", func(p *corev1.Pod) { p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{} }, true, false, "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := podAt(set, "r", 1, test.change)
			if got := identityMatches(set, pod); got != test.identity {
				t.Errorf("identity: %v", got)
			}
			if pod.Name == "other-1" {
				return // its claims are those of its own ordinal
			}
			if got := storageMatches(set, pod); got != test.storage {
				t.Errorf("storage: %v", got)
			}
			patch, err := podPatch(set, pod)
			if err != nil || test.patch != "-" && string(patch) != test.patch {
				t.Errorf("patch %s, %v", patch, err)
			}
			if test.patch == "-" && !json.Valid(patch) {
				t.Errorf("patch %s", patch)
			}
		})
	}
}

// Pins STS-13.
func TestNewClaim(t *testing.T) {
	set := newSet(2, claims("data"))
	claim := newClaim(set, &set.Spec.VolumeClaimTemplates[0], 1)
	if claim.Name != "data-web-1" || claim.Namespace != "ns" || len(claim.Labels) != 2 || claim.Labels["tier"] != "t" || claim.Labels["app"] != "a" || len(claim.OwnerReferences) != 0 {
		t.Errorf("got %+v", claim)
	}
	set.Spec.VolumeClaimTemplates[0].Labels = nil
	if claim := newClaim(set, &set.Spec.VolumeClaimTemplates[0], 1); len(claim.Labels) != 1 || claim.Labels["app"] != "a" {
		t.Errorf("got %+v", claim)
	}
	retention(discard, retain)(set)
	claim = newClaim(set, &set.Spec.VolumeClaimTemplates[0], 1)
	if ref := metav1.GetControllerOf(claim); ref == nil || ref.UID != "o" || ref.Kind != "StatefulSet" {
		t.Errorf("owned by %v", claim.OwnerReferences)
	}
}
