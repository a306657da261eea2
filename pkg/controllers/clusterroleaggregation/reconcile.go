package clusterroleaggregation

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1apply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (a *aggregator) reconcile(ctx context.Context, name string) error {
	role, found, err := reconcile.Found(a.roles.Get(name))
	if !found || role.AggregationRule == nil {
		return err
	}
	sources, err := a.roles.network(role)
	if err != nil {
		return fmt.Errorf("selecting the sources of ClusterRole %s: %w", name, err)
	}
	rules := aggregate(name, sources)
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return nil
	}
	if err := a.apply(ctx, role, rules); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Aggregated the rules of a ClusterRole", "clusterRole", name, "rules", len(rules))
	return nil
}

// apply omits the field rules if there are none. The API server then removes the rules that
// only this controller owns.
//
// The UID keeps it from creating a role that is gone, which would have no aggregationRule. After a conflict the key is
// tried again: the role is gone, as the cache will show. That another one has its name is an error until then.
func (a *aggregator) apply(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) error {
	configuration := rbacv1apply.ClusterRole(role.Name).WithUID(role.UID)
	for _, rule := range rules {
		configuration.WithRules(rbacv1apply.PolicyRule().
			WithVerbs(rule.Verbs...).
			WithAPIGroups(rule.APIGroups...).
			WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).
			WithNonResourceURLs(rule.NonResourceURLs...))
	}
	_, err := a.Client.RbacV1().ClusterRoles().Apply(ctx, configuration, metav1.ApplyOptions{FieldManager: controllerName, Force: true})
	if err == nil {
		return nil
	}
	return fmt.Errorf("applying the rules of ClusterRole %s: %w", role.Name, err)
}
