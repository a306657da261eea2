package simulation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
)

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
