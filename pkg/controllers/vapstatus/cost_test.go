package vapstatus

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// doubling is a policy with variables, each of which has a type twice as large as that of the one before.
func doubling(variables int, expressions ...string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return with(newPolicy(expressions...), func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "v0", Expression: "1"}}
		for i := range variables {
			p.Spec.Variables = append(p.Spec.Variables, admissionregistrationv1.Variable{
				Name: fmt.Sprint("v", i+1), Expression: fmt.Sprintf("{variables.v%d: variables.v%d}", i, i),
			})
		}
	})
}

// Pins VAP-39.
func TestTheSizesOfTypes(t *testing.T) {
	c := newCosts([]admissionregistrationv1.Variable{{Name: "list", Expression: "[1, 2]"}, {Name: "map", Expression: "{'a': variables.list}"}, {Name: "broken", Expression: "("}})
	for expression, want := range map[string]int{
		"1":                                    1,
		"object.spec.replicas > 1":             1,
		"object.metadata.labels['a']":          1,
		"'a' + 'b'":                            1,
		"[]":                                   2,
		"[1, 'a']":                             2,
		"[[1], []]":                            3,
		"{}":                                   3,
		"{'a': 1, 'b': [1]}":                   4,
		"{{1: 1}: {1: 1}}":                     7,
		"variables.list":                       2,
		"variables.map":                        4,
		"variables.broken":                     1,
		"variables.unknown":                    1,
		"{variables.map: variables.map}":       9,
		"[variables.map == {}]":                2,
		"variables.?map":                       5, // at most: any of the variables
		"true ? [1] : []":                      2,
		"optional.of([1])":                     2,
		"[1].all(x, x > 1)":                    1,
		"[1].filter(x, x > 1)":                 3, // at most: the estimate takes a list for its elements
		"[1].map(x, {x: x})":                   6,
		"[{1: 1}].map(variables, variables.a)": 5, // not the variables of the policy
		"{1: 1}.transformMap(k, v, {k: v})":    14,
		"(":                                    1,
	} {
		if got, _ := c.measured(expression); got != want {
			t.Errorf("the type of %s has size %d, want %d", expression, got, want)
		}
	}
}

// What takes the compiler longer than its source tells. Each of these would take minutes to years. Pins VAP-40.
func TestExpressionsThatTheCompilerTakesLongForAreTooLong(t *testing.T) {
	for name, expression := range map[string]string{
		"many calls":            "1 == 1" + strings.Repeat(" && 1 == 1", 5000),
		"many empty lists":      "[" + strings.Repeat("[],", 8000) + "[]] == []",
		"many empty maps":       "[" + strings.Repeat("{},", 8000) + "{}] == []",
		"many macros":           "[" + strings.Repeat("[1].map(x, x),", 2000) + "[1]] == []",
		"ten optional values":   "optional.of(1)" + strings.Repeat(".optMap(x, x)", 10) + " == optional.of(1)",
		"sixty optional values": "optional.of(1)" + strings.Repeat(".optMap(x, x)", 60) + " == optional.of(1)",
		"in a list":             "[optional.of(1)" + strings.Repeat(".optFlatMap(x, optional.of(x))", 60) + "] == []",
		"in a map":              "{'a': optional.of(1)" + strings.Repeat(".optMap(x, x)", 60) + "} == {}",
		"in an argument":        "optional.of(optional.of(1)" + strings.Repeat(".optMap(x, x)", 60) + ").value().value() == 1",
		"selected":              "optional.of({'a': 1})" + strings.Repeat(".optMap(x, x)", 60) + ".value().a == 1",
	} {
		if got := newCosts(nil).of(expression); got <= maxSource {
			t.Errorf("%s cost %d", name, got)
		}
	}
	variables := []admissionregistrationv1.Variable{{Name: "v", Expression: "1 == 1" + strings.Repeat(" && 1 == 1", 5000)}}
	if got := newCosts(variables).of("true"); got <= maxSource {
		t.Errorf("many calls in a variable cost %d", got)
	}
}

// Of what policies usually have, only the source counts. Pins VAP-39 and VAP-40.
func TestUsualExpressionsCostTheirSource(t *testing.T) {
	for _, expression := range []string{
		"object.spec.replicas <= 5",
		"object.spec.template.spec.containers.all(c, c.image.startsWith('registry/') && !has(c.securityContext.privileged))",
		"!has(object.metadata.labels) || object.metadata.labels.exists(l, l == 'a')",
		"'the image ' + object.spec.template.spec.containers[0].image + ' is not permitted'",
		"authorizer.group('apps').resource('deployments').check('update').allowed()",
		"object.spec.template.spec.containers.all(c, c.name == 'a'" + strings.Repeat(" || c.name == 'another'", 30) + ")",
	} {
		if got, want := newCosts(nil).of(expression), expressionOverhead+len(expression); got != want {
			t.Errorf("%s costs %d, want %d", expression, got, want)
		}
	}
}

// A short policy that would take hours and all memory is not checked. Pins VAP-39 and VAP-40.
func TestShortPoliciesThatTakeLongAreNotChecked(t *testing.T) {
	s := newSubject(t)
	for name, policy := range map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{
		"variables":       doubling(40, "variables.v1 == 1"),
		"an index":        doubling(40, "variables['v40'] == 1"),
		"an optional one": doubling(40, "variables.?v40 == 1"),
		"macros":          newPolicy("[1]" + strings.Repeat(".map(x, {x: x})", 40) + " == 1"),
		"a shadow":        newPolicy("[1]" + strings.Repeat(".map(variables, {variables: variables})", 40) + " == 1"),
		"maps of macros":  newPolicy("{1: 1}" + strings.Repeat(".transformMap(k, v, {k: v})", 40) + " == 1"),
		"optional values": newPolicy("optional.of(1)" + strings.Repeat(".optMap(x, x)", 60) + " == optional.of(1)"),
		"accumulation":    newPolicy("cel.bind(x, {1: 1}, {x: x})" + strings.Repeat(".map(x, {x: x})", 40) + " == 1"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.check(t.Context(), policy)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || !strings.HasPrefix(got[0].Warning, "not checked, nor is what follows: ") {
				t.Errorf("the warnings are %.300v", got)
			}
		})
	}
}
