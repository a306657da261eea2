package vapstatus

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
)

// Limits of one check. Realistic policies stay far below them.
const (
	// maxTypes is the maximum number of types that a check covers. It skips all others.
	maxTypes = 32
	// maxSource is the maximum size of the compiled source, in bytes, see costs. A check compiles
	// each expression for each type, together with all variables. Compiling this much source takes a
	// few seconds, see BenchmarkCheckAtTheLimit.
	maxSource = 2 << 20
	// maxWarning limits the size of one warning and maxWarnings that of all warnings, in bytes.
	maxWarning  = 16 << 10
	maxWarnings = 128 << 10
)

// expression is an expression of a policy to check.
type expression struct {
	field *field.Path
	text  string
}

// expressions returns the expressions of a policy to check, in the order of the warnings.
func expressions(p *policy) []expression {
	var all []expression
	path := field.NewPath("spec", "validations")
	for i, v := range p.Spec.Validations {
		all = append(all, expression{path.Index(i).Child("expression"), v.Expression})
		if v.MessageExpression != "" {
			all = append(all, expression{path.Index(i).Child("messageExpression"), v.MessageExpression})
		}
	}
	return all
}

// check returns the warnings for a policy. It fails if the API server cannot be asked for the resources or the types,
// and if the context has ended.
func (s *statusController) check(ctx context.Context, p *policy) ([]warning, error) {
	lookup := s.schemas.begin()
	kinds := &kinds{RESTMapper: s.Mapper}
	checker := &validating.TypeChecker{SchemaResolver: lookup, RestMapper: kinds}
	types := checker.CreateContext(p)
	if err := cmp.Or(kinds.err, lookup.err()); err != nil {
		return nil, err
	}
	left := budget{source: maxSource, text: maxWarnings}
	costs := newCosts(p.Spec.Variables)
	var warnings []warning
	for _, e := range expressions(p) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		warn := func(text string) {
			warnings = append(warnings, warning{FieldRef: e.field.String(), Warning: text})
		}
		if exceeded := left.take(costs.of(e.text), lookup.types); exceeded != "" {
			warn(exceeded)
			break
		}
		if results := checker.CheckExpression(types, e.text); len(results) > 0 {
			text := truncate(results.String(), maxWarning)
			left.text -= len(text)
			warn(text)
		}
	}
	return warnings, nil
}

// budget is the unused part of the limits of a check.
type budget struct {
	source, text int
}

// take subtracts the cost of compiling an expression for a number of types from the budget. If a limit
// is exceeded, it returns a text that names the limit.
func (b *budget) take(cost, types int) (exceeded string) {
	if b.text <= 0 {
		return "not checked, nor is what follows: the warnings so far are too long"
	}
	if b.source -= cost * types; b.source < 0 {
		return fmt.Sprintf("not checked, nor is what follows: the expressions and variables of this policy, "+
			"or their types, are too long to be checked against %d types", types)
	}
	return ""
}

// truncate shortens a text to a limit in bytes without splitting a character.
func truncate(text string, limit int) string {
	const ellipsis = "…\n"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(ellipsis)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.Clone(text[:cut]) + ellipsis
}
