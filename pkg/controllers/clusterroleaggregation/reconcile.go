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
	cached, err := rulesOf(role, a.roles.cached)
	if err != nil || equality.Semantic.DeepEqual(cached, role.Rules) {
		return err
	}
	// Should the cache lack a source, everybody who is bound to the role would lose its rules.
	rules, err := rulesOf(role, a.live(ctx))
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(cached, rules) { // no event tells what becomes of a source that the cache lacks
		a.queue.AddAfter(name, reconcile.RecheckAfter)
	}
	if equality.Semantic.DeepEqual(rules, role.Rules) {
		return nil
	}
	if err := a.apply(ctx, role, rules); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Aggregated the rules of a ClusterRole", "clusterRole", name, "rules", len(rules))
	return nil
}

// rulesOf returns the rules that a role is to have.
func rulesOf(role *rbacv1.ClusterRole, find finder) ([]rbacv1.PolicyRule, error) {
	sources, err := find.network(role)
	if err != nil {
		return nil, fmt.Errorf("selecting the sources of ClusterRole %s: %w", role.Name, err)
	}
	return aggregate(role.Name, sources), nil
}

// apply omits the field rules if there are none. The API server then removes the rules that
// only this controller owns.
//
// The UID keeps it from creating a role that is gone, which would have no aggregationRule, and the resource version from
// replacing rules of a role that somebody has just stopped from aggregating. After a conflict the key is tried again: the
// cache will show what the role is now. That another one has its name is an error until then.
func (a *aggregator) apply(ctx context.Context, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) error {
	configuration := rbacv1apply.ClusterRole(role.Name).WithUID(role.UID).WithResourceVersion(role.ResourceVersion)
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
