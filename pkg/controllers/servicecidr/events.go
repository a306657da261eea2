package servicecidr

import (
	networkingv1 "k8s.io/api/networking/v1"

	"kcmd.dev/pkg/controller"
)

func cannotBeReady(cidr *networkingv1.ServiceCIDR) controller.Event {
	return controller.Warning(cidr, "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
}
