// Package vapstatus checks the types in the expressions of ValidatingAdmissionPolicies, and reports
// errors in their status. It does not affect admission.
//
// The model, in rules:
//
//  1. The controller checks each generation of a policy once. The status contains the checked
//     generation and a warning for each faulty expression, in order. A change of a type does not
//     cause another check. A status without a result does.
//  2. Types come from the OpenAPI documents of the API server. The controller reads their index for
//     each check, so that it does not miss a new type. The index contains a hash of each document.
//     The controller uses the hash to find schemas that an earlier check left in memory.
//  3. Limits bound the cost of a check: the number of types, the size of the compiled source, and
//     the size of the warnings. If the source or the warnings exceed their limit, the check ends
//     with a warning that says so.
//  4. The controller applies the result only to the policy that it checked, and not to a recreated
//     policy with the same name.
//
// The check uses the TypeChecker of the API server in k8s.io/apiserver.
//
// Behaviour: docs/specs/validatingadmissionpolicy-status-controller.md.
package vapstatus

import (
	"context"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	controllerName = "validatingadmissionpolicy-status-controller"
	// queueName is also the name of the field manager.
	queueName = "validatingadmissionpolicy-status"
	// idlePeriod is the minimum time that unused schemas stay in memory. The maximum is twice as
	// long.
	idlePeriod = time.Minute
)

// Descriptor describes validatingadmissionpolicy-status-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           controllerName,
		ServiceAccount: controllerName,
		ClusterScoped:  true,
		Requires: []schema.GroupVersionResource{
			admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		},
	}, configOf, newController)
}

// config contains the settings that the controller reads from the configuration.
type config struct {
	workers int
}

func configOf(c *controller.Config) config {
	return config{workers: int(*c.Controllers.ValidatingAdmissionPolicyStatus.ConcurrentSyncs)}
}

// Short names of the types of the API.
type (
	policy  = admissionregistrationv1.ValidatingAdmissionPolicy
	warning = admissionregistrationv1.ExpressionWarning
)

type statusController struct {
	controller.Env
	policies admissionlisters.ValidatingAdmissionPolicyLister
	schemas  *schemas
	loop     *reconcile.Loop[string]
}

func newController(env controller.Env, c config) (*statusController, error) {
	policies := env.Informers.Admissionregistration().V1().ValidatingAdmissionPolicies()
	s := &statusController{Env: env, policies: policies.Lister(), schemas: newSchemas(env.Discovery)}
	s.loop = reconcile.New(env, reconcile.Options[string]{Queue: queueName, Workers: c.workers}, s.reconcile)
	s.watch(policies.Informer())
	return s, nil
}

// Run implements controller.Controller.
func (s *statusController) Run(ctx context.Context) error {
	return reconcile.Run(ctx, s.Env, nil, s.loop.Run, reconcile.Passes(s.Env, idlePeriod, s.schemas.release))
}
