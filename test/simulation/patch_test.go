package simulation

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/utils/ptr"
)

func TestPatches(t *testing.T) {
	const strategic, merge = types.StrategicMergePatchType, types.MergePatchType
	of := func(name string) []string { return []string{"of-" + name} }
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		kind   types.PatchType
		patch  string
		want   []string // of the error
		owners []string
	}{
		{"right UID", newPod("p"), strategic, `{"metadata":{"uid":"u1"}}`, nil, nil},
		{"other UID", newPod("p"), strategic, `{"metadata":{"uid":"u9"}}`, []string{"Invalid", "metadata.uid"}, nil},
		{"merge patch", newPod("p"), merge, `{"metadata":{"uid":"u1","labels":{"a":"b"}}}`, nil, nil},
		{"merge patch, other UID", newPod("p"), merge, `{"metadata":{"uid":"u9"}}`, []string{"Invalid", "metadata.uid"}, nil},
		{
			"other version, of another object", newPod("p"), strategic, `{"metadata":{"uid":"u9","resourceVersion":"1"}}`,
			[]string{"Conflict"}, nil,
		},
		{
			"released", newPod("p", owned("a", "b")), strategic,
			`{"metadata":{"uid":"u1","ownerReferences":[{"$patch":"delete","uid":"of-a"}]}}`, nil, of("b"),
		},
		{
			"released, is of another", newPod("p", owned("b")), strategic,
			`{"metadata":{"uid":"u1","ownerReferences":[{"$patch":"delete","uid":"of-a"}]}}`, nil, of("b"),
		},
		{
			"released, has no owners", newPod("p"), strategic,
			`{"metadata":{"uid":"u1","ownerReferences":[{"$patch":"delete","uid":"of-a"}]}}`, nil, nil,
		},
		{
			"owner without a name", newPod("p"), strategic, `{"metadata":{"ownerReferences":[{"uid":"of-a"}]}}`,
			[]string{
				"Invalid", "metadata.ownerReferences.apiVersion", "metadata.ownerReferences.kind", "metadata.ownerReferences.name",
			}, nil,
		},
		{
			"second controller", newPod("p", owned("b")), strategic,
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"of-a","controller":true}]}}`,
			[]string{"Invalid", "metadata.ownerReferences"}, of("b"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := New(t, 1)
			w.Create(test.pod)
			_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", test.kind, []byte(test.patch), metav1.PatchOptions{})
			if got := causesOf(err); (err == nil) != (test.want == nil) || !slices.Equal(got, test.want) {
				t.Errorf("got %v: %v, want %v", got, err, test.want)
			}
			pod, _ := Get[*corev1.Pod](w, "ns", "p")
			var owners []string
			for _, ref := range pod.OwnerReferences {
				owners = append(owners, string(ref.UID))
			}
			if !slices.Equal(owners, test.owners) {
				t.Errorf("owners %v, want %v", owners, test.owners)
			}
		})
	}
}

func TestAMergePatchChangesOnlyWhatItNames(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p", owned("a")))
	patch := []byte(`{"metadata":{"labels":{"hash":"h"}}}`)
	_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", types.MergePatchType, patch, metav1.PatchOptions{})
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	if err != nil || fmt.Sprint(pod.Labels) != "map[app:p hash:h]" || len(pod.OwnerReferences) != 1 {
		t.Errorf("got labels %v, owners %v, %v", pod.Labels, pod.OwnerReferences, err)
	}
}

func TestAPatchOfTheStatusChangesNothingElse(t *testing.T) {
	const patch = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u1","labels":{"app":"other"}},` +
		`"spec":{"nodeName":"n"},"status":{"reason":"R"}}`
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.ApplyPatchType} {
		w := New(t, 1)
		w.Create(newPod("p"))
		options := metav1.PatchOptions{Force: ptr.To(kind == types.ApplyPatchType)}
		_, err := w.Client.CoreV1().Pods("ns").Patch(t.Context(), "p", kind, []byte(patch), options, "status")
		must(err)
		pod, _ := Get[*corev1.Pod](w, "ns", "p")
		isStatus := pod.Status.Reason == "R" && pod.Status.Phase == corev1.PodPending
		if !isStatus || pod.Spec.NodeName != "" || pod.Labels["app"] != "p" {
			t.Errorf("%s: stored %+v", kind, pod)
		}
	}
}

// The load balancer controller writes the finalizer of a Service together with its status.
func TestAPatchOfTheStatusOfAService(t *testing.T) {
	w := New(t, 1)
	w.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}})
	patch := func(text string) error {
		_, err := w.Client.CoreV1().Services("ns").Patch(
			t.Context(), "s", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, "status",
		)
		return err
	}
	must(patch(`{"metadata":{"finalizers":["example.com/hold"]},"spec":{"type":"LoadBalancer"}}`))
	service, _ := Get[*corev1.Service](w, "ns", "s")
	if len(service.Finalizers) != 1 || service.Spec.Type != "" {
		t.Errorf("stored %+v", service)
	}
	if err := patch(`{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"}]}}}`); !apierrors.IsInvalid(err) {
		t.Errorf("it wants no load balancer: %v", err)
	}
}

func TestAnAppliedListReplacesTheFormer(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p", func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a"}, {Name: "b"}}
	}))
	pods, forced := w.Client.CoreV1().Pods("ns"), metav1.PatchOptions{Force: ptr.To(true)}
	apply := func(uid string) error {
		patch := `{"metadata":{"uid":"` + uid + `"},"status":{"resourceClaimStatuses":[{"name":"b"}]}}`
		_, err := pods.Patch(t.Context(), "p", types.ApplyPatchType, []byte(patch), forced, "status")
		return err
	}
	if err := apply("u9"); !apierrors.IsInvalid(err) {
		t.Errorf("another UID: %v", err)
	}
	must(apply("u1"))
	pod, _ := Get[*corev1.Pod](w, "ns", "p")
	if all := pod.Status.ResourceClaimStatuses; len(all) != 1 || all[0].Name != "b" {
		t.Errorf("stored %v", all)
	}
}

func TestAnApplyRemovesWhatItNamesNoLonger(t *testing.T) {
	for edited, want := range map[bool]int{false: 0, true: 1} {
		w := New(t, 1)
		w.Create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}})
		role, _ := Get[*rbacv1.ClusterRole](w, "", "r")
		apply := func(uid types.UID, rules ...*rbacv1apply.PolicyRuleApplyConfiguration) error {
			_, err := w.Client.RbacV1().ClusterRoles().Apply(t.Context(),
				rbacv1apply.ClusterRole("r").WithUID(uid).WithRules(rules...), metav1.ApplyOptions{FieldManager: "m", Force: true})
			return err
		}
		must(apply(role.UID, rbacv1apply.PolicyRule().WithVerbs("get")))
		if edited {
			role, _ := Get[*rbacv1.ClusterRole](w, "", "r")
			Change(w, role, func(r *rbacv1.ClusterRole) { r.Rules[0].Verbs = []string{"list"} })
		}
		must(apply(role.UID))
		role, _ = Get[*rbacv1.ClusterRole](w, "", "r")
		if len(role.Rules) != want {
			t.Errorf("edited by somebody: %t, stored are the rules %v", edited, role.Rules)
		}
		if err := apply("another"); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("another UID: %v", err)
		}
		w.Delete(role, nil)
		if err := apply(role.UID); err == nil {
			t.Error("a role that is gone is applied")
		}
	}
}
