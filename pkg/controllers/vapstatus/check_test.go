package vapstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Pins VAP-13.
func TestCheck(t *testing.T) {
	type policy = admissionregistrationv1.ValidatingAdmissionPolicy
	const (
		intString = "ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"
		undefined = "ERROR: <input>:1:12: undefined field 'nope'"
	)
	at := func(field string) string { return field + ": apps/v1, Kind=Deployment: " }
	for name, test := range map[string]struct {
		policy *policy
		want   []string
	}{
		"VAP-14: correct": {policy: newPolicy("object.spec.replicas > 1", "oldObject.spec.replicas > 1 && request.name != '' && namespaceObject.metadata.name != ''")},
		"VAP-14: a number compared with a string": {
			policy: newPolicy("object.spec.replicas > 1", "object.spec.replicas > '1'"),
			want:   []string{at("spec.validations[1].expression") + intString},
		},
		"VAP-14: two faults in two expressions": {
			policy: newPolicy("object.spec.replicas > '1'", "object.spec.nope"),
			want: []string{
				at("spec.validations[0].expression") + intString,
				at("spec.validations[1].expression") + undefined,
			},
		},
		"VAP-14: two faults in one expression": {
			policy: newPolicy("object.spec.replicas > '1' || object.spec.nope"),
			want: []string{at("spec.validations[0].expression") + intString + "; " +
				strings.Replace(undefined, "1:12", "1:42", 1)},
		},
		"VAP-14: a message": {
			policy: with(newPolicy("object.spec.replicas > '1'"), func(p *policy) {
				p.Spec.Validations[0].MessageExpression = "'replicas: ' + object.spec.replicas"
			}),
			want: []string{
				at("spec.validations[0].expression") + intString,
				at("spec.validations[0].messageExpression") + "ERROR: <input>:1:14: found no matching overload for '_+_' applied to '(string, int)'",
			},
		},
		"VAP-14: the type of the result does not count": {policy: newPolicy("object.spec.replicas")},
		"VAP-14: a variable has a type": {
			policy: with(newPolicy("variables.n > '1'"), func(p *policy) {
				p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "n", Expression: "object.spec.replicas"}}
			}),
			want: []string{at("spec.validations[0].expression") + strings.Replace(intString, "1:22", "1:13", 1)},
		},
		"VAP-14: a faulty variable is dynamic, and not reported": {
			policy: with(newPolicy("variables.n > '1'"), func(p *policy) {
				p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "n", Expression: "object.spec.nope"}}
			}),
		},
		"VAP-14: conditions and annotations are not checked": {
			policy: with(newPolicy("true"), func(p *policy) {
				p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: "object.spec.nope"}}
				p.Spec.AuditAnnotations = []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: "object.spec.nope"}}
			}),
		},
		"VAP-14: authorizer": {policy: newPolicy("authorizer.group('').resource('pods').check('get').allowed()")},
		"VAP-15: what is excluded does not count": {
			policy: with(newPolicy("object.spec.nope"), func(p *policy) {
				p.Spec.MatchConstraints.ExcludeResourceRules = p.Spec.MatchConstraints.ResourceRules
				p.Spec.MatchConstraints.ResourceRules = nil
			}),
		},
		"VAP-15: any group":                  {policy: with(newPolicy("object.spec.nope"), rules(rule("*", "v1", "deployments")))},
		"VAP-15: any version":                {policy: with(newPolicy("object.spec.nope"), rules(rule("apps", "*", "deployments")))},
		"VAP-15: any resource":               {policy: with(newPolicy("object.spec.nope"), rules(rule("apps", "v1", "*")))},
		"VAP-15: a subresource":              {policy: with(newPolicy("object.spec.nope"), rules(rule("apps", "v1", "deployments/scale")))},
		"VAP-15, VAP-18: not served":         {policy: with(newPolicy("object.spec.nope"), rules(rule("example.com", "v1", "widgets")))},
		"VAP-15: one is not served, another": {policy: with(newPolicy("object.spec.nope"), rules(rule("example.com", "v1", "widgets"), rule("apps", "v1", "deployments"))), want: []string{at("spec.validations[0].expression") + undefined}},
		"VAP-16: no schema":                  {policy: with(newPolicy("object.spec.nope"), rules(rule("", "v1", "things")))},
		"VAP-16: parameters have a type": {
			policy: with(newPolicy("params.nope"), func(p *policy) {
				p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			}),
			want: []string{at("spec.validations[0].expression") + "ERROR: <input>:1:7: undefined field 'nope'"},
		},
		"VAP-16: parameters of an unknown kind are dynamic": {
			policy: with(newPolicy("params.nope"), func(p *policy) {
				p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "example.com/v1", Kind: "Widget"}
			}),
		},
		"VAP-16: no parameters": {
			policy: newPolicy("params.nope"),
			want:   []string{at("spec.validations[0].expression") + "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"},
		},
		"VAP-17: two types in one warning, in order": {
			policy: with(newPolicy("object.spec.nope"), rules(rule("", "v1", "pods"), rule("apps", "v1", "deployments"))),
			want: []string{"spec.validations[0].expression: /v1, Kind=Pod: " + undefined +
				"; apps/v1, Kind=Deployment: " + undefined},
		},
		"VAP-17: a type without the fault adds nothing": {
			policy: with(newPolicy("object.spec.containers.size() > 0"), rules(rule("", "v1", "pods"), rule("apps", "v1", "deployments"))),
			want:   []string{at("spec.validations[0].expression") + "ERROR: <input>:1:12: undefined field 'containers'"},
		},
		"VAP-18: no constraints": {policy: with(newPolicy("object.spec.nope"), func(p *policy) { p.Spec.MatchConstraints = nil })},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t)
			got, err := s.check(t.Context(), test.policy)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, shown(got)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// The text is the one that users know. Pins VAP-17 and VAP-20.
func TestTheTextOfAWarning(t *testing.T) {
	s := newSubject(t)
	got, err := s.check(t.Context(), with(newPolicy("object.spec.nope"), rules(rule("", "v1", "pods"), rule("apps", "v1", "deployments"))))
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	const want = "/v1, Kind=Pod: ERROR: <input>:1:12: undefined field 'nope'\n | object.spec.nope\n | ...........^\n\n" +
		"apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'nope'\n | object.spec.nope\n | ...........^\n"
	if diff := cmp.Diff(want, got[0].Warning); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Pins VAP-4, VAP-15 and VAP-28.
func TestTheMapperIsResetOncePerCheck(t *testing.T) {
	s := newSubject(t)
	for n := range 2 {
		if _, err := s.check(t.Context(), with(newPolicy("true"), rules(rule("example.com", "v1", "widgets", "gadgets")))); err != nil {
			t.Fatal(err)
		}
		if s.mapper.n != n+1 {
			t.Errorf("after %d checks the mapper was reset %d times", n+1, s.mapper.n)
		}
	}
}

// Schemas of an earlier check are found by the hash of their document; the index is read each
// time. Pins VAP-26, VAP-31, VAP-32 and VAP-36.
func TestDocumentsAreReadOnce(t *testing.T) {
	s := newSubject(t)
	if len(s.documents.reads) > 0 {
		t.Errorf("reads before a check: %q", s.documents.reads)
	}
	check := func(want ...string) {
		t.Helper()
		s.documents.reads = nil
		policy := with(newPolicy("object.spec.nope"), rules(rule("apps", "v1", "deployments", "replicasets"), rule("", "v1", "pods")))
		if got, err := s.check(t.Context(), policy); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
		if !slices.Equal(s.documents.reads, want) {
			t.Errorf("reads are %q, want %q", s.documents.reads, want)
		}
	}
	check("index", "api/v1", "apis/apps/v1")
	check("index")
	s.documents.hash = "2"
	check("index", "api/v1", "apis/apps/v1")
	release := func() { s.schemas.release(t.Context(), t.Context()) }
	release()
	check("index")
	release()
	release()
	check("index", "api/v1", "apis/apps/v1")
}

// Pins VAP-35.
func TestAPolicyIsNotObservedIfTypesCannotBeAskedFor(t *testing.T) {
	s := newSubject(t, newPolicy("object.spec.nope"))
	boom := errors.New("boom")
	s.documents.err = boom
	s.Requests()
	if err := s.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	s.WantRequests(t)
}

// Pins VAP-35.
func TestADocumentThatCannotBeRead(t *testing.T) {
	group := schema.GroupResource{Group: "apps", Resource: "v1"}
	for name, test := range map[string]struct {
		err      error
		observed bool
	}{
		"nobody is there":     {err: errors.New("connection refused")},
		"service unavailable": {err: apierrors.NewServiceUnavailable("later")},
		"too many requests":   {err: apierrors.NewTooManyRequests("slow down", 1)},
		"timeout":             {err: apierrors.NewTimeoutError("slow", 0)},
		"unknown credentials": {err: apierrors.NewUnauthorized("expired")},
		"VAP-16: not found":   {err: apierrors.NewNotFound(group, "v1"), observed: true},
		"VAP-16: forbidden":   {err: apierrors.NewForbidden(group, "v1", nil), observed: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, with(newPolicy("object.spec.nope"), rules(rule("apps", "v1", "deployments", "replicasets"))))
			s.documents.failures = map[string]error{"apis/apps/v1": test.err}
			err := s.Reconcile()
			if test.observed {
				if err != nil || appliedStatus(t, s) != `{"observedGeneration":1,"typeChecking":{}}` {
					t.Errorf("error is %v", err)
				}
				return
			}
			if !errors.Is(err, test.err) || len(s.Writes()) > 0 {
				t.Errorf("error is %v", err)
			}
			s.documents.failures = nil
			s.MustReconcile(t)
			if !strings.Contains(appliedStatus(t, s), "undefined field") {
				t.Error("it is observed without the warning")
			}
		})
	}
}

// Pins VAP-35.
func TestAPolicyIsNotObservedIfResourcesCannotBeAskedFor(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		failures int // of lookups
		err      error
	}{
		"the first fails": {1, nil},
		"all fail":        {2, boom},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, newPolicy("object.spec.replicas > 0"))
			s.mapper.failures, s.mapper.err = test.failures, boom
			s.Requests()
			if err := s.Reconcile(); !errors.Is(err, test.err) {
				t.Errorf("error is %v, want %v", err, test.err)
			}
			if written := len(s.Writes()) > 0; written != (test.err == nil) {
				t.Errorf("the status was written: %v", written)
			}
		})
	}
}

// Pins VAP-34.
func TestACheckIsLimited(t *testing.T) {
	const types = 32
	for name, test := range map[string]struct {
		left      budget
		text      int
		variables []int
		types     int
		exceeded  string
	}{
		"within":                {left: budget{source: 3136, text: 1}, text: 1024, variables: []int{1024}, types: 1},
		"source":                {left: budget{source: 3135, text: 1}, text: 1024, variables: []int{1024}, types: 1, exceeded: "too long to be checked against 1 types"},
		"for each type":         {left: budget{source: types*2048 - 1, text: 1}, text: 1024, types: types, exceeded: "too long to be checked against 32 types"},
		"text":                  {left: budget{source: 4096}, text: 1, types: 1, exceeded: "the warnings so far are too long"},
		"VAP-18: without types": {left: budget{text: 1}, text: 1024},
	} {
		t.Run(name, func(t *testing.T) {
			var variables []admissionregistrationv1.Variable
			for _, length := range test.variables {
				variables = append(variables, admissionregistrationv1.Variable{Expression: strings.Repeat("1", length)})
			}
			if got := test.left.take(newCosts(variables).of(strings.Repeat("1", test.text)), test.types); !strings.Contains(got, test.exceeded) || (got == "") != (test.exceeded == "") {
				t.Errorf("exceeded: %q", got)
			}
		})
	}
}

// The first expression beyond a limit has the last warning. Pins VAP-34.
func TestWhereALimitEndsTheCheckAWarningSaysSo(t *testing.T) {
	s := newSubject(t)
	validations := make([]string, 40)
	for i := range validations {
		validations[i] = fmt.Sprintf("object.spec.nope == '%s'", strings.Repeat("ä", 5000))
	}
	got, err := s.check(t.Context(), newPolicy(validations...))
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, w := range got {
		size += len(w.Warning)
		if len(w.Warning) > maxWarning || !utf8.ValidString(w.Warning) {
			t.Errorf("%s has %d bytes", w.FieldRef, len(w.Warning))
		}
	}
	last := got[len(got)-1]
	if want := fmt.Sprintf("spec.validations[%d].expression", len(got)-1); last.FieldRef != want || !strings.HasPrefix(last.Warning, "not checked, nor is what follows") {
		t.Errorf("the last of %d warnings is %+v", len(got), last)
	}
	if size > maxWarnings+maxWarning+len(last.Warning) || size < maxWarnings {
		t.Errorf("%d bytes of warnings", size)
	}
}

// Types beyond the limit are unknown. Pins VAP-34.
func TestTypesAreLimited(t *testing.T) {
	s := newSubject(t)
	lookup := s.schemas.begin()
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	for n := range maxTypes {
		if _, err := lookup.ResolveSchema(pods); err != nil {
			t.Fatalf("type %d: %v", n, err)
		}
	}
	if _, err := lookup.ResolveSchema(pods); err == nil {
		t.Error("no limit")
	}
}

// A check ends with the instance. Pins VAP-27.
func TestACheckEndsWithItsContext(t *testing.T) {
	s := newSubject(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.check(ctx, newPolicy("true")); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// The benchmark checks a policy of the maximum size and measures how long one worker takes.
func BenchmarkCheckAtTheLimit(b *testing.B) {
	s := newSubject(b)
	for name, policy := range map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{
		"short": with(newPolicy(slices.Repeat([]string{"object.spec.replicas > 1"}, 40)...), func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
			for i := range 1200 {
				p.Spec.Variables = append(p.Spec.Variables, admissionregistrationv1.Variable{Name: fmt.Sprint("v", i), Expression: "object.spec.replicas"})
			}
		}),
		"long":  newPolicy(slices.Repeat([]string{"object.spec.replicas > 1" + strings.Repeat(" + 1", 20000)}, 25)...),
		"types": doubling(12, "variables.v12 == 1"),
		"many":  newPolicy(slices.Repeat([]string{"object.spec.replicas > 1"}, 1950)...),
		"calls": newPolicy("1 == 1" + strings.Repeat(" && 1 == 1", 4000)),
		"usual": newPolicy("object.spec.replicas > 1", "object.spec.template.spec.containers.all(c, c.image.startsWith('registry/'))"),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.check(b.Context(), policy); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
