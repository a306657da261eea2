package vapstatus

import (
	"maps"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The overhead of an expression, of a variable, and of each name in a type besides the first, in bytes
// of source that take the same time.
const (
	expressionOverhead = 1 << 10
	variableOverhead   = 64
	typeOverhead       = 32
)

// substitutionShare is how many entries of the substitutions of the compiler are copied in the time that a byte of
// source takes, see costs.
const substitutionShare = 32

// The macros that contain their target twice.
const (
	optMap     = "optMap"
	optFlatMap = "optFlatMap"
)

// unlimited is more than any limit. Sums do not exceed it.
const unlimited = 1 << 30

// parser returns an environment that parses what the library compiles.
var parser = sync.OnceValue(func() *cel.Env {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
})

// plainParser returns an environment that parses the same, without expanding macros. Should there be none, what has
// these macros is not checked.
var plainParser = sync.OnceValues(func() (*cel.Env, error) { return parser().Extend(cel.ClearMacros()) })

// costs estimates what it costs to compile the expressions of a policy, in bytes of source. Three things make that
// grow faster than the source:
//
//  1. A type can be much larger than the expression that has it: with v1 = {v0: v0}, v2 = {v1: v1} and so on, each type
//     is twice as large as the one before. The library walks through whole types and cannot be interrupted. So the
//     sizes of types are estimated beforehand, from the syntax alone. The size of a type is the number of names in it:
//     2 for list(int).
//  2. The compiler keeps a substitution for each type parameter of the functions called so far, as 'A' in the
//     declaration of ==, and copies all of them for almost each node of the syntax. So nodes and substitutions are
//     counted, with the macros expanded.
//  3. The macros optMap and optFlatMap contain their target twice, so that each one in a chain doubles what is before
//     it. So an expression that would become too large is not expanded.
type costs struct {
	// variables is the cost of all variables, which are compiled with each expression.
	variables int
	// types are the sizes of the types of variables, and largest is the largest of them.
	types   map[string]int
	largest int
}

func newCosts(variables []admissionregistrationv1.Variable) *costs {
	c := &costs{types: map[string]int{}}
	for _, v := range variables {
		size, extra := c.measured(v.Expression)
		c.variables = sum(c.variables, variableOverhead, len(v.Expression), extra)
		c.types[v.Name] = size
		c.largest = max(c.largest, size)
	}
	return c
}

// of returns the cost of an expression for one type of object.
func (c *costs) of(expression string) int {
	_, extra := c.measured(expression)
	return sum(c.variables, expressionOverhead, len(expression), extra)
}

// measured returns the size of the type of an expression, and what the expression costs besides its source. What cannot
// be parsed has no type.
func (c *costs) measured(expression string) (size, extra int) {
	if strings.Contains(expression, optMap) || strings.Contains(expression, optFlatMap) {
		plain, err := plainParser()
		if err != nil {
			return unlimited, unlimited
		}
		unexpanded, issues := plain.Parse(expression)
		if issues.Err() != nil {
			return 1, 0
		}
		if expandedSize(unexpanded.NativeRep().Expr()) > maxSource {
			return unlimited, unlimited
		}
	}
	parsed, issues := parser().Parse(expression)
	if issues.Err() != nil {
		return 1, 0
	}
	m := &measure{costs: c, scope: map[string]int{}}
	size = m.size(parsed.NativeRep().Expr())
	copied := m.nodes * m.substitutions / substitutionShare
	return size, sum(m.excess*typeOverhead, max(0, copied-len(expression)))
}

// expandedSize returns the number of nodes of an expression whose macros are not expanded, with each target of optMap
// and optFlatMap counted twice. What else macros add is in proportion to the source.
func expandedSize(e ast.Expr) int {
	nodes := 1
	add := func(all ...ast.Expr) {
		for _, part := range all {
			nodes = sum(nodes, expandedSize(part))
		}
	}
	switch e.Kind() {
	case ast.SelectKind:
		add(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		add(call.Args()...)
		if call.IsMemberFunction() {
			target := expandedSize(call.Target())
			nodes = sum(nodes, target)
			if name := call.FunctionName(); len(call.Args()) == 2 && (name == optMap || name == optFlatMap) {
				nodes = sum(nodes, target)
			}
		}
	case ast.ListKind:
		add(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			add(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			add(field.AsStructField().Value())
		}
	}
	return nodes
}

// measure estimates the sizes of the types in one expression. An estimate may be too large.
type measure struct {
	*costs
	scope map[string]int // types of what comprehensions declare
	// excess is by how many names the types of all parts exceed one each.
	excess int
	// nodes is the number of all parts, substitutions how many type parameters the compiler may give a type for them.
	nodes, substitutions int
}

// variablesName is the object whose fields are the variables.
const variablesName = "variables"

func (m *measure) size(e ast.Expr) int {
	size := m.sizeOf(e)
	m.excess = sum(m.excess, size-1)
	m.nodes++
	return size
}

func (m *measure) sizeOf(e ast.Expr) int {
	switch e.Kind() {
	case ast.IdentKind:
		return m.ident(e.AsIdent())
	case ast.SelectKind:
		return m.selected(e.AsSelect())
	case ast.CallKind:
		return m.call(e.AsCall())
	case ast.ListKind:
		if e.AsList().Size() == 0 {
			m.substitutions++
		}
		return sum(1, m.largestOf(e.AsList().Elements()...))
	case ast.MapKind:
		if e.AsMap().Size() == 0 {
			m.substitutions += 2
		}
		keys, values := 1, 1
		for _, entry := range e.AsMap().Entries() {
			keys, values = max(keys, m.size(entry.AsMapEntry().Key())), max(values, m.size(entry.AsMapEntry().Value()))
		}
		return sum(1, keys, values)
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			m.size(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		return m.comprehension(e.AsComprehension())
	}
	return 1
}

func (m *measure) ident(name string) int {
	size, local := m.scope[name]
	switch {
	case local:
		return size
	case name == variablesName:
		return sum(1, m.largest)
	}
	return 1
}

// selected measures a field of an object, or an entry of a map.
func (m *measure) selected(s ast.SelectExpr) int {
	operand := s.Operand()
	_, local := m.scope[variablesName]
	if !local && operand.Kind() == ast.IdentKind && operand.AsIdent() == variablesName {
		return max(1, m.types[s.FieldName()])
	}
	return m.size(operand)
}

// mapInsert is the function with which the library makes a map of the key and the value of each entry.
const mapInsert = "cel.@mapInsert"

func (m *measure) call(c ast.CallExpr) int {
	size := 1
	if c.IsMemberFunction() {
		size = m.size(c.Target())
	}
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
		operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
	default: // it may have a type parameter, and few have two
		m.substitutions++
	}
	switch c.FunctionName() {
	case mapInsert:
		for _, a := range c.Args() {
			size = sum(size, m.size(a))
		}
		return size
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.NotStrictlyFalse,
		operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.In, operators.Equals, operators.NotEquals:
		m.largestOf(c.Args()...)
		return 1
	}
	return max(size, m.largestOf(c.Args()...))
}

func (m *measure) largestOf(all ...ast.Expr) int {
	largest := 1
	for _, e := range all {
		largest = max(largest, m.size(e))
	}
	return largest
}

func (m *measure) comprehension(c ast.ComprehensionExpr) int {
	elements, result := m.size(c.IterRange()), m.size(c.AccuInit())
	outer := m.scope
	m.scope = maps.Clone(outer)
	m.scope[c.IterVar()], m.scope[c.AccuVar()] = elements, result
	if c.HasIterVar2() {
		m.scope[c.IterVar2()] = elements
	}
	m.size(c.LoopCondition())
	m.scope[c.AccuVar()] = max(result, m.size(c.LoopStep()))
	size := m.size(c.Result())
	m.scope = outer
	return size
}

// sum adds, up to unlimited.
func sum(all ...int) int {
	total := 0
	for _, n := range all {
		total = min(total+n, unlimited)
	}
	return total
}
