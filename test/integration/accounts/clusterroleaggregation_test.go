package accounts

import (
	"context"
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// A new API server has the roles admin, edit and view without rules. Pins AGG-2 and AGG-22.
func TestTheRolesOfUsersGetTheirRules(t *testing.T) {
	t.Parallel()
	for role, source := range map[string]string{"admin": "system:aggregate-to-admin", "edit": "system:aggregate-to-edit", "view": "system:aggregate-to-view"} {
		await.That(t, role+" has the rules of "+source, func(ctx context.Context) error {
			return contains(ctx, role, source)
		})
	}
	// Roles that aggregate are sources themselves.
	await.That(t, "admin has the rules of view", func(ctx context.Context) error {
		return contains(ctx, "admin", "system:aggregate-to-view")
	})
}

// contains is nil if a role has all rules of another one.
func contains(ctx context.Context, role, source string) error {
	roles := admin.RbacV1().ClusterRoles()
	r, err := roles.Get(ctx, role, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s, err := roles.Get(ctx, source, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, want := range s.Rules {
		if !slices.ContainsFunc(r.Rules, func(got rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(got, want) }) {
			return fmt.Errorf("%s lacks %v of %s", role, want, source)
		}
	}
	return nil
}

// Pins AGG-6, AGG-12 and AGG-15.
func TestARoleFollowsWhatItAggregates(t *testing.T) {
	t.Parallel()
	roles := admin.RbacV1().ClusterRoles()
	label := map[string]string{"test.kcmd.dev/aggregate": "true"}
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	nodes := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}
	create := func(role *rbacv1.ClusterRole) {
		must.Get(roles.Create(t.Context(), role, metav1.CreateOptions{}))(t)
		t.Cleanup(func() { _ = roles.Delete(context.Background(), role.Name, metav1.DeleteOptions{}) })
	}
	has := func(what string, want ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		t.Helper()
		var role *rbacv1.ClusterRole
		await.That(t, what, func(ctx context.Context) (err error) {
			if role, err = roles.Get(ctx, "kcmd-aggregate", metav1.GetOptions{}); err == nil && !equality.Semantic.DeepEqual(role.Rules, want) {
				err = fmt.Errorf("the rules are %v", role.Rules)
			}
			return err
		})
		return role
	}
	create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kcmd-b", Labels: label}, Rules: []rbacv1.PolicyRule{pods}})
	create(&rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: "kcmd-aggregate"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: label}}},
	})
	role := has("it has the rules of its source", pods)
	if n := slices.IndexFunc(role.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == "clusterrole-aggregation-controller" && f.Operation == metav1.ManagedFieldsOperationApply
	}); n < 0 {
		t.Errorf("the managers of the fields are %+v", role.ManagedFields)
	}
	create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kcmd-a", Labels: label}, Rules: []rbacv1.PolicyRule{nodes}})
	has("a further source comes first by its name", nodes, pods)
	must.Get(roles.Patch(t.Context(), "kcmd-aggregate", types.JSONPatchType, []byte(`[{"op":"replace","path":"/rules","value":[]}]`), metav1.PatchOptions{}))(t)
	has("rules that were removed by hand are there again", nodes, pods)
	must.Get(roles.Patch(t.Context(), "kcmd-b", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/labels"}]`), metav1.PatchOptions{}))(t)
	has("a source without the label is none", nodes)
	must.Succeed(t, roles.Delete(t.Context(), "kcmd-a", metav1.DeleteOptions{}))
	has("without a source it has no rules")
}
