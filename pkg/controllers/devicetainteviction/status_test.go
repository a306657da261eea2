package devicetainteviction

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

// conditionIn returns the condition that a request applies.
func conditionIn(t *testing.T, patch clienttesting.PatchActionImpl) *metav1.Condition {
	t.Helper()
	var body struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(patch.Patch, &body); err != nil || len(body.Status.Conditions) != 1 {
		t.Fatalf("applied %s: %v", patch.Patch, err)
	}
	return &body.Status.Conditions[0]
}

// statuses returns what was applied to rules, as "Reason Message".
func statuses(t *testing.T, env *controllertest.Env) []string {
	t.Helper()
	var all []string
	for _, action := range env.Fake.Actions() {
		if patch, ok := action.(clienttesting.PatchActionImpl); ok && patch.GetResource().Resource == "devicetaintrules" {
			condition := conditionIn(t, patch)
			all = append(all, condition.Reason+" "+condition.Message)
		}
	}
	return all
}
