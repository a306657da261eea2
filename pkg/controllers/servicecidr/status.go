package servicecidr

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingapply "k8s.io/client-go/applyconfigurations/networking/v1"
)

var (
	ready = metav1.Condition{
		Type:    networkingv1.ServiceCIDRConditionReady,
		Status:  metav1.ConditionTrue,
		Message: "Kubernetes Service CIDR is ready",
	}
	terminating = metav1.Condition{
		Type:    networkingv1.ServiceCIDRConditionReady,
		Status:  metav1.ConditionFalse,
		Reason:  networkingv1.ServiceCIDRReasonTerminating,
		Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
	}
)

// has reports whether a ServiceCIDR has a condition. It ignores the transition time.
func has(cidr *networkingv1.ServiceCIDR, want metav1.Condition) bool {
	is := meta.FindStatusCondition(cidr.Status.Conditions, want.Type)
	return is != nil && is.Status == want.Status && is.Reason == want.Reason && is.Message == want.Message
}

// show applies a condition to a ServiceCIDR that does not have it.
func (c *cidrController) show(ctx context.Context, cidr *networkingv1.ServiceCIDR, want metav1.Condition) error {
	if has(cidr, want) {
		return nil
	}
	condition := metaapply.Condition().
		WithType(want.Type).WithStatus(want.Status).WithReason(want.Reason).WithMessage(want.Message).
		WithLastTransitionTime(metav1.NewTime(c.Clock.Now()))
	configuration := networkingapply.ServiceCIDR(cidr.Name).WithUID(cidr.UID).
		WithStatus(networkingapply.ServiceCIDRStatus().WithConditions(condition))
	_, err := c.Client.NetworkingV1().ServiceCIDRs().ApplyStatus(ctx, configuration,
		metav1.ApplyOptions{FieldManager: controllerName, Force: true})
	if err != nil {
		return fmt.Errorf("applying the status of ServiceCIDR %s: %w", cidr.Name, err)
	}
	return nil
}
