package leadership

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// Pins MGR-174.
func TestWhichLeaseIsAskedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		holder      string // empty: nobody
		annotations map[string]string
		want        string // who asks for it in the end
	}{
		"its holder understands that":    {"other", map[string]string{"a": "b"}, "self"},
		"somebody else holds it by now":  {"another", map[string]string{"a": "b"}, ""},
		"nobody holds it by now":         {"", map[string]string{"a": "b"}, ""},
		"another process has asked":      {"other", map[string]string{requestedBy: "another"}, "another"},
		"its holder writes no claims":    {"other", nil, ""},
		"a request was removed from it":  {"other", map[string]string{requestedBy: ""}, "self"},
		"the request is there by itself": {"other", map[string]string{requestedBy: "self"}, "self"},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l", Annotations: tc.annotations}}
			if tc.holder != "" {
				lease.Spec.HolderIdentity = &tc.holder
			}
			client := fakeclient.New(lease)
			k := &Lock{leases: client.CoordinationV1(), key: key{lease: claims.Lease{Namespace: "ns", Name: "l"}}}
			err := k.request(t.Context(), "other", "self")
			got := must.Get(client.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{}))(t)
			if asks := got.Annotations[requestedBy]; asks != tc.want || (err == nil) != (asks == "self" && tc.annotations[requestedBy] == "") {
				t.Errorf("%q asks for it, and the error is %v", asks, err)
			}
		})
	}
}
