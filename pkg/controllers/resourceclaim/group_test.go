package resourceclaim

import (
	"errors"
	"testing"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/test/controllertest"
)

func TestClaimsOfAPodGroup(t *testing.T) {
	const creating, recording = "create resourceclaims group-gpu-", "patch podgroups/status group"
	gpu := groupWith(ofTemplate("gpu", "template"))
	for name, tc := range map[string]struct {
		objects  []runtime.Object
		requests []string
		claim    string
		err      string
	}{
		"RCLM-22: generated":          {[]runtime.Object{group(gpu), template()}, []string{creating, recording}, "group-gpu-1", ""},
		"RCLM-22: adopted":            {[]runtime.Object{group(gpu), template(), claim(generatedForGroup("group", "gpu"))}, []string{recording}, "claim", ""},
		"RCLM-22: of a former group":  {[]runtime.Object{group(gpu), template(), claim(generatedForGroup("former", "gpu"))}, []string{creating, recording}, "group-gpu-1", ""},
		"RCLM-22: recorded":           {[]runtime.Object{group(gpu, groupRecorded("gpu", "claim")), claim(generatedForGroup("group", "gpu"))}, nil, "claim", ""},
		"RCLM-22: recorded, and gone": {[]runtime.Object{group(gpu, groupRecorded("gpu", "claim")), template()}, []string{"get resourceclaims claim", creating, recording}, "group-gpu-1", ""},
		"RCLM-22: that of the user":   {[]runtime.Object{group(groupWith(ofClaim("gpu", "claim")))}, nil, "", ""},
		"RCLM-22: being deleted": {[]runtime.Object{group(gpu, func(g *schedulingv1alpha2.PodGroup) {
			g.DeletionTimestamp, g.Finalizers = &metav1.Time{Time: controllertest.Epoch}, []string{"a/b"}
		}), template()}, nil, "", ""},
		"RCLM-22, RCLM-28: no template": {[]runtime.Object{group(gpu)}, nil, "",
			`PodGroup ns/group, PodGroupResourceClaim gpu: resource claim template "template": resourceclaimtemplate.resource.k8s.io "template" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, groupKey, tc.objects...)
			if got := errorText(s.Reconcile()); got != tc.err {
				t.Errorf("got the error %q, want %q", got, tc.err)
			}
			s.WantRequests(t, tc.requests...)
			if tc.err != "" {
				s.WantEvents(t, `Warning FailedResourceClaimCreation PodGroupResourceClaim gpu: resource claim template "template": resourceclaimtemplate.resource.k8s.io "template" not found`)
			}
			got := ""
			for _, entry := range controllertest.MustStored[*schedulingv1alpha2.PodGroup](t, s.Env, "ns", "group").Status.ResourceClaimStatuses {
				got += *entry.ResourceClaimName
			}
			if got != tc.claim {
				t.Errorf("recorded is %q", got)
			}
		})
	}
}

// Pins RCLM-22.
func TestTheStatusOfAPodGroupThatFails(t *testing.T) {
	s := begin(t, gated, groupKey, group(groupWith(ofTemplate("gpu", "template"))), template())
	s.Refuse("patch podgroups/status", errors.New("boom"))
	if got := errorText(s.Reconcile()); got != "update PodGroup ns/group ResourceClaimStatuses: boom" {
		t.Errorf("got %q", got)
	}
}
