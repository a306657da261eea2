package vapstatus

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// The status is applied. Pins VAP-7.
func TestReconcile(t *testing.T) {
	type policy = admissionregistrationv1.ValidatingAdmissionPolicy
	generation := func(generation, observed int64) func(*policy) {
		return func(p *policy) { p.Generation, p.Status.ObservedGeneration = generation, observed }
	}
	result := func(p *policy) { p.Status.TypeChecking = &admissionregistrationv1.TypeChecking{} }
	for name, test := range map[string]struct {
		policy *policy
		want   string // the applied body
	}{
		"VAP-10, VAP-30: observed":                      {policy: with(newPolicy("object.spec.nope"), generation(2, 2), result)},
		"VAP-41: observed, without a result":            {policy: with(newPolicy("true"), generation(2, 2)), want: `{"observedGeneration":2,"typeChecking":{}}`},
		"VAP-12, VAP-24, VAP-25: nothing to warn of":    {policy: newPolicy("true"), want: `{"observedGeneration":1,"typeChecking":{}}`},
		"VAP-12, VAP-18: no types":                      {policy: with(newPolicy("true"), rules()), want: `{"observedGeneration":1,"typeChecking":{}}`},
		"VAP-22: a kind that is not served is observed": {policy: with(newPolicy("object.nope"), rules(rule("example.com", "v1", "widgets"))), want: `{"observedGeneration":1,"typeChecking":{}}`},
		"VAP-11, VAP-12, VAP-23: a newer one, and faulty": {
			policy: with(newPolicy("object.spec.nope"), generation(3, 2)),
			want: `{"observedGeneration":3,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression",` +
				`"warning":"apps/v1, Kind=Deployment: ERROR: \u003cinput\u003e:1:12: undefined field 'nope'\n | object.spec.nope\n | ...........^\n"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, test.policy)
			s.MustReconcile(t)
			if diff := cmp.Diff(test.want, appliedStatus(t, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// appliedStatus returns the status in the only request, if there was a request.
func appliedStatus(t *testing.T, s *subject) string {
	t.Helper()
	status := ""
	for _, action := range s.Writes() {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok || patch.PatchType != types.ApplyPatchType || patch.Subresource != "status" || patch.PatchOptions.FieldManager != "validatingadmissionpolicy-status" || !*patch.PatchOptions.Force || status != "" {
			t.Fatalf("unexpected request: %+v", action)
		}
		var body struct {
			Metadata metav1.ObjectMeta
			Status   json.RawMessage
		}
		if err := json.Unmarshal(patch.Patch, &body); err != nil {
			t.Fatal(err)
		}
		if want := (metav1.ObjectMeta{Name: "policy", UID: "policy-uid"}); !cmp.Equal(body.Metadata, want) {
			t.Errorf("the body is for %+v", body.Metadata)
		}
		status = string(body.Status)
	}
	return status
}

// The API server removes warnings together with the empty result that is applied in their place.
// Pins VAP-38 and VAP-41.
func TestACorrectedPolicyEndsWithAResult(t *testing.T) {
	type policy = admissionregistrationv1.ValidatingAdmissionPolicy
	faulty := with(newPolicy("true"), func(p *policy) {
		p.Generation, p.Status.ObservedGeneration = 2, 1
		p.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{FieldRef: "spec", Warning: "faulty"}}}
	})
	stale := with(faulty.DeepCopy(), func(p *policy) { p.Status = admissionregistrationv1.ValidatingAdmissionPolicyStatus{} })
	const unfinished, finished = `{"observedGeneration":1,"typeChecking":{}}`, `{"observedGeneration":2,"typeChecking":{}}`
	for name, test := range map[string]struct {
		cached  *policy
		refused int // the number of the request that fails
		lost    int // the number of the request whose answer is lost
		want    []string
	}{
		"none fails":                           {faulty, 0, 0, []string{unfinished, finished}},
		"the first fails":                      {faulty, 1, 0, []string{unfinished, unfinished, finished}},
		"the second fails":                     {faulty, 2, 0, []string{unfinished, finished, finished}},
		"a stale cache":                        {stale, 0, 0, []string{finished, finished}},
		"a stale cache, and the second fails":  {stale, 2, 0, []string{finished, finished, finished}},
		"a stale cache, and an answer is lost": {stale, 0, 1, []string{finished, finished}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, test.cached)
			stored := faulty
			var applied []string
			s.Fake.PrependReactor("patch", "validatingadmissionpolicies", func(action clienttesting.Action) (bool, runtime.Object, error) {
				var sent struct{ Status json.RawMessage }
				var body policy
				patch := action.(clienttesting.PatchActionImpl).Patch
				if err := errors.Join(json.Unmarshal(patch, &sent), json.Unmarshal(patch, &body)); err != nil {
					return true, nil, err
				}
				applied = append(applied, string(sent.Status))
				if len(applied) == test.refused {
					return true, nil, apierrors.NewTooManyRequests("slow down", 1)
				}
				if hasWarnings(stored) {
					body.Status.TypeChecking = nil
				}
				stored = with(stored.DeepCopy(), func(p *policy) { p.Status = body.Status })
				if len(applied) == test.lost {
					return true, nil, context.DeadlineExceeded
				}
				return true, stored, nil
			})
			if err := s.Reconcile(); (err != nil) != (test.refused+test.lost > 0) {
				t.Errorf("error is %v", err)
			}
			s.Cache(t, stored)
			s.MustReconcile(t)
			if diff := cmp.Diff(test.want, applied); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
			if !observed(stored) || stored.Status.TypeChecking == nil {
				t.Errorf("it is left with %+v", stored.Status)
			}
		})
	}
}

// Pins VAP-9.
func TestAPolicyThatIsGoneNeedsNoWork(t *testing.T) {
	s := newSubject(t)
	s.MustReconcile(t)
	s.WantRequests(t)
}

// Pins VAP-8.
func TestAnErrorOfTheAPIServerIsReturned(t *testing.T) {
	s := newSubject(t, newPolicy("true"))
	boom := errors.New("boom")
	s.Refuse("patch validatingadmissionpolicies/status", boom)
	if err := s.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
}

// Pins VAP-6.
func TestEveryEventButADeletionQueuesThePolicy(t *testing.T) {
	env := controllertest.New(t)
	c := must.Get(newController(env.Env, config{workers: 1}))(t)
	env.Start(t)
	policies := env.Fake.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	observed := with(newPolicy("true"), func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Status.ObservedGeneration = 1 })
	if _, err := policies.Create(t.Context(), observed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "a new policy is queued", func() bool { return c.loop.Inspect().Depth == 1 })
	c.enqueue(reconcile.Fresh, observed)
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("%d keys are queued", depth)
	}
}

// Pins VAP-37.
func TestAPanicInACheckFailsThePolicyOnly(t *testing.T) {
	s := newSubject(t, newPolicy("true"))
	s.documents.panics = true
	s.Subject.Start(t)
	s.Subject.Run(t, s.statusController)
	s.loop.Add("policy")
	controllertest.Eventually(t, "the check has failed", func() bool { return s.loop.Inspect().Panicked > 0 })
	s.loop.Add("gone") // for the only worker, while time stands still
	controllertest.Eventually(t, "the worker goes on", func() bool { l := s.loop.Inspect(); return l.Reconciled > l.Panicked })
}

// Pins VAP-1, VAP-2, VAP-3 and VAP-5.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "validatingadmissionpolicy-status-controller" || d.ServiceAccount != d.Name || len(d.Aliases) != 0 || d.EventSource != "" || d.Gate != "" {
		t.Errorf("%+v", d)
	}
	if c := configOf(cfg); c.workers != 5 {
		t.Errorf("%+v", c)
	}
	s := newSubject(t)
	if l := s.loop.Inspect(); l.Queue != "validatingadmissionpolicy-status" || l.Workers != 1 {
		t.Errorf("%+v", l)
	}
}
