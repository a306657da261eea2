package vapstatus

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionapply "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (s *statusController) reconcile(ctx context.Context, name string) error {
	policy, found, err := reconcile.Found(s.policies.Get(name))
	if !found || observed(policy) {
		return err
	}
	warnings, err := s.check(ctx, policy)
	if err != nil {
		return fmt.Errorf("checking ValidatingAdmissionPolicy %s: %w", name, err)
	}
	if err := s.apply(ctx, policy, warnings); err != nil {
		return fmt.Errorf("applying the status of ValidatingAdmissionPolicy %s: %w", name, err)
	}
	klog.FromContext(ctx).V(2).Info("Checked the types in a ValidatingAdmissionPolicy",
		"policy", name, "generation", policy.Generation, "warnings", len(warnings))
	return nil
}

// observed reports whether this generation of a policy has been checked, and the status contains the result.
func observed(p *policy) bool {
	return p.Generation <= p.Status.ObservedGeneration && p.Status.TypeChecking != nil
}

// apply writes the result of a check, even if it contains no warnings. The controller does not own
// other fields of the status.
func (s *statusController) apply(ctx context.Context, checked *policy, warnings []warning) error {
	// The API server removes the warnings of an earlier result, and then also removes the empty
	// result. If the controller applies the empty result again, the API server keeps it.
	if len(warnings) == 0 && hasWarnings(checked) {
		// Not yet as checked: should the next request fail, the policy would be left without a result.
		if _, err := s.applyOnce(ctx, checked, checked.Status.ObservedGeneration, nil); err != nil {
			return err
		}
	}
	applied, err := s.applyOnce(ctx, checked, checked.Generation, warnings)
	if err == nil && applied.Status.TypeChecking == nil {
		// The cache did not show the warnings.
		_, err = s.applyOnce(ctx, checked, checked.Generation, warnings)
	}
	return err
}

// hasWarnings reports whether the status of a policy contains warnings.
func hasWarnings(p *policy) bool {
	return p.Status.TypeChecking != nil && len(p.Status.TypeChecking.ExpressionWarnings) > 0
}

// applyOnce applies a result as that of a generation.
func (s *statusController) applyOnce(
	ctx context.Context, checked *policy, generation int64, warnings []warning,
) (*policy, error) {
	result := admissionapply.TypeChecking()
	for _, w := range warnings {
		result.WithExpressionWarnings(admissionapply.ExpressionWarning().WithFieldRef(w.FieldRef).WithWarning(w.Warning))
	}
	configuration := admissionapply.ValidatingAdmissionPolicy(checked.Name).WithUID(checked.UID).WithStatus(
		admissionapply.ValidatingAdmissionPolicyStatus().WithObservedGeneration(generation).WithTypeChecking(result))
	options := metav1.ApplyOptions{FieldManager: queueName, Force: true}
	return s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().ApplyStatus(ctx, configuration, options)
}
