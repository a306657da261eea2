package resourceclaim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// Pins RCLM-18g and RCLM-32.
func TestClaimFrom(t *testing.T) {
	s := begin(t, gated, podKey)
	for name, tc := range map[string]struct {
		of    owner
		owner metav1.OwnerReference
		name  string
	}{
		"a pod":      {s.c.podOwner(pod()), metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "pod", Controller: ptr.To(true)}, "pod-gpu-"},
		"a PodGroup": {s.c.groupOwner(group()), metav1.OwnerReference{APIVersion: "scheduling.k8s.io/v1alpha2", Kind: "PodGroup", Name: "group", UID: "group", Controller: ptr.To(true)}, "group-gpu-"},
	} {
		t.Run(name, func(t *testing.T) {
			from := template()
			got := claimFrom(from, tc.of, "gpu")
			want := &resourcev1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", GenerateName: tc.name,
					Labels:          map[string]string{"l": "1"},
					Annotations:     map[string]string{"a": "1", "resource.kubernetes.io/pod-claim-name": "gpu"},
					OwnerReferences: []metav1.OwnerReference{tc.owner},
				},
				Spec: template().Spec.Spec,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			got.Labels["l"], got.Spec.Devices.Requests[0].Name = "2", "2"
			if diff := cmp.Diff(template(), from); diff != "" {
				t.Errorf("the template has changed: %s", diff)
			}
		})
	}
	bare := template(func(t *resourcev1.ResourceClaimTemplate) { t.Spec.ObjectMeta = metav1.ObjectMeta{} })
	if got := claimFrom(bare, s.c.podOwner(pod()), "gpu"); len(got.Annotations) != 1 || got.Labels != nil {
		t.Errorf("without labels and annotations: %+v", got.ObjectMeta)
	}
}

// Pins RCLM-18g and RCLM-65.
func TestPrefixOf(t *testing.T) {
	a, b := strings.Repeat("a", 63), strings.Repeat("b", 63)
	for _, tc := range []struct{ owner, entry, want string }{
		{"pod", "gpu", "pod-gpu-"},
		{a[:51], b[:4], a[:51] + "-" + b[:4] + "-"},            // 57 bytes
		{a[:52], b[:5], a[:50] + "-" + b[:4]},                  // 59 bytes: 52*57/59 is 50.2, 5*57/59 is 4.8
		{a, b, a[:28] + "-" + b[:28]},                          // 128 bytes: 63*57/128 is 28.05
		{a[:27] + "." + a[:28], b[:56], a[:27] + "-" + b[:28]}, // 114 bytes: 28 of each, but for the dot
		{"a", b, "a-" + b[:54]},                                // 66 bytes: 57/66 is none
		{a + "." + a + "." + a + "." + a[:61], b[:1], a[:56] + "-"},
	} {
		got := prefixOf(tc.owner, tc.entry)
		if got != tc.want {
			t.Errorf("of %d and %d bytes: %q, want %q", len(tc.owner), len(tc.entry), got, tc.want)
		}
		if invalid := validation.IsDNS1123Subdomain(got + "12345"); len(invalid) > 0 {
			t.Errorf("%s12345 is no name: %q", got, invalid)
		}
	}
}

func TestAllowed(t *testing.T) {
	yes, no := true, false
	admin := []resourcev1.DeviceRequest{exactly("a", nil), exactly("b", &no), exactly("c", &yes)}
	list := []resourcev1.DeviceRequest{{Name: "a", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "b"}}}}
	for name, tc := range map[string]struct {
		config   config
		requests []resourcev1.DeviceRequest
		want     string
	}{
		"RCLM-18f: admin access, which is on":       {defaults, admin, ""},
		"RCLM-18f: admin access, which is off":      {config{prioritizedLists: true}, admin, "admin access is requested, but the feature is disabled"},
		"RCLM-18f: no admin access":                 {config{prioritizedLists: true}, admin[:2], ""},
		"RCLM-18f: a prioritized list, which is on": {defaults, list, ""},
		"RCLM-18f: a prioritized list, which is off": {config{adminAccess: true}, list,
			"template includes a prioritized list of subrequests, but the feature is disabled"},
		"RCLM-18f: plain requests":                                {config{}, admin[:2], ""},
		"RCLM-18f: a prioritized list, which has no admin access": {config{prioritizedLists: true}, list, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.config.allowed(&resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: tc.requests}})
			if got := errorText(err); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWithFound(t *testing.T) {
	has := func(names ...string) []status {
		p := &corev1.Pod{}
		recorded(names...)(p)
		return p.Status.ResourceClaimStatuses
	}
	for name, tc := range map[string]struct{ recorded, found, want []status }{
		"RCLM-19: the first":                       {nil, has("a", "1"), has("a", "1")},
		"RCLM-19: one more keeps the others":       {has("a", "1"), has("b", "2"), has("a", "1", "b", "2")},
		"RCLM-19: the new value wins":              {has("a", "1", "b", "2"), has("a", "3"), has("a", "3", "b", "2")},
		"RCLM-19: what is not needed has no claim": {[]status{{Name: "a"}}, has("b", "2"), append([]status{{Name: "a"}}, has("b", "2")...)},
		"RCLM-19: nothing":                         {has("a", "1"), nil, has("a", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]status(nil), tc.recorded...)
			if diff := cmp.Diff(tc.want, withFound(tc.recorded, tc.found)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.recorded); diff != "" {
				t.Errorf("the argument has changed: %s", diff)
			}
		})
	}
}
