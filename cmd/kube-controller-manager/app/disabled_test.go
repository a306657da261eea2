package app

import (
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
)

// The controller that the others get their tokens from is disabled like any other. Pins MGR-172.
func TestTheTokenControllerCanBeDisabled(t *testing.T) {
	for _, enabled := range []*bool{nil, ptr.To(true), ptr.To(false)} {
		cfg := v1beta1.NewDefault()
		cfg.ServiceAccounts.PrivateKeyFile = "sa.key"
		cfg.Controllers.ServiceAccountToken.Enabled = enabled
		for _, subject := range runtime.Subjects(controllers.All()) {
			if subject.Name != "serviceaccount-token-controller" {
				continue
			}
			if spec, want := plan.SpecOf(cfg, subject), ptr.Deref(enabled, true); spec.Runs() != want {
				t.Errorf("enabled %v: it runs %v, %q", want, spec.Runs(), spec.Off)
			}
		}
	}
}
