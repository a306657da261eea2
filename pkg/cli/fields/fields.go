// Package fields describes the configuration as a tree of fields: the type of each, its
// default, what is allowed, what it is for, and what a change of it does.
//
// The model:
//
//  1. Nothing is written twice: the fields and their descriptions are those of the JSON
//     Schema, which is made from the types; their order is that of the types; what is allowed
//     comes from rules.All, and what a change does from plan.New.
//  2. A path is that of messages and of the Plan: controllers.job-controller.enabled. The
//     fields of the elements of a list follow []: leaderElection.groups[].name.
//  3. A field that has fields of its own is a block, or a list of blocks.
package fields

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/schemas"
)

// Version is the version of the configuration whose fields these are.
const Version = "v1beta1"

// Field is one field, or block of fields.
type Field struct {
	// Path is where it is, empty for the whole configuration; Name the last part of it.
	Path string `json:"path"`
	Name string `json:"-"`
	// Type is in words: boolean, integer, number, string, duration, quantity, object, map,
	// or a list of those.
	Type string `json:"type"`
	// Default is the value without one in the file, as in JSON; nil if there is none.
	Default any `json:"default,omitempty"`
	// Allowed is what it may hold, in words; empty if the type says it all.
	Allowed string `json:"allowed,omitempty"`
	// Description is for what it is.
	Description string `json:"description,omitempty"`
	// Fields are those of a block, or of each element of a list, in the order of the types.
	Fields []*Field `json:"fields,omitempty"`

	// Fixed is set if it cannot be changed: apiVersion, kind and locked gates.
	Fixed bool `json:"fixed,omitempty"`

	schema *node
}

// node is the part of a schema that is read.
type node struct {
	Type                 any              `json:"type"`
	Const                any              `json:"const"`
	Default              any              `json:"default"`
	Description          string           `json:"description"`
	Pattern              string           `json:"pattern"`
	Enum                 []string         `json:"enum"`
	Minimum              *float64         `json:"minimum"`
	Maximum              *float64         `json:"maximum"`
	Properties           map[string]*node `json:"properties"`
	Items                *node            `json:"items"`
	AdditionalProperties any              `json:"additionalProperties"`
}

// Tree returns the whole configuration.
func Tree() (*Field, error) {
	data, err := schemas.Read(Version)
	if err != nil {
		return nil, err
	}
	root := &node{}
	if err := json.Unmarshal(data, root); err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	b := builder{rules: rules.ByPath(), order: map[string][]string{}, gates: map[string]gates.Gate{}}
	b.readOrder(reflect.TypeFor[v1beta1.KubeControllerManagerConfiguration](), "")
	for _, gate := range gates.All() {
		b.gates[gate.Name] = gate
		b.order["featureGates"] = append(b.order["featureGates"], gate.Name)
	}
	return b.build(root, "", ""), nil
}

type builder struct {
	rules map[string]rules.Rule
	order map[string][]string
	gates map[string]gates.Gate
}

// readOrder records the order of the fields of a struct, and of those in it.
func (b *builder) readOrder(t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		b.readOrder(t.Elem(), path+"[]")
		return
	case reflect.Struct:
	default:
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			b.readOrder(f.Type, path)
		case name != "" && name != "-":
			b.order[path] = append(b.order[path], name)
			b.readOrder(f.Type, join(path, name))
		}
	}
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func (b *builder) build(n *node, path, name string) *Field {
	f := &Field{
		Path: path, Name: name, Type: typeOf(n), Default: n.Default, Description: n.Description, Fixed: n.Const != nil,
		Allowed: b.allowed(n, path), schema: n,
	}
	if gate, ok := b.gates[name]; ok && strings.HasPrefix(path, "featureGates.") && name != gates.AllBeta {
		f.Default = gate.Default // not in the schema, for the sake of editors
	}
	if n.Const != nil {
		f.Allowed = "only " + Format(n.Const)
	}
	inner, at := n, path
	for inner.Items != nil {
		inner, at = inner.Items, at+"[]"
	}
	for _, child := range b.order[at] {
		if property, ok := inner.Properties[child]; ok {
			f.Fields = append(f.Fields, b.build(property, join(at, child), child))
		}
	}
	return f
}

// largestInteger is the largest integer without a rule.
const largestInteger = 1<<31 - 1

// allowed is what a field may hold beyond what its type says.
func (b *builder) allowed(n *node, path string) string {
	if rule, ok := b.rules[path]; ok {
		return rule.Allowed()
	}
	switch {
	case len(n.Enum) > 0:
		return strings.Join(n.Enum, ", ")
	case n.Minimum == nil || n.Maximum == nil:
		return ""
	case *n.Maximum < largestInteger:
		return fmt.Sprintf("%s to %s", Format(*n.Minimum), Format(*n.Maximum))
	}
	return Format(*n.Minimum) + " or more"
}

// typeOf names the type of a value.
func typeOf(n *node) string {
	switch {
	case n.Items != nil:
		return "list of " + plural(typeOf(n.Items))
	case strings.Contains(n.Pattern, "(ns|us|"):
		return "duration"
	}
	switch t := n.Type.(type) {
	case string:
		if _, isMap := n.AdditionalProperties.(map[string]any); isMap {
			return "map"
		}
		return t
	case []any: // a quantity may be written as a number
		return "quantity"
	}
	return ""
}

func plural(word string) string {
	if before, ok := strings.CutSuffix(word, "y"); ok {
		return before + "ies"
	}
	return word + "s"
}

// Format writes a value as in the file.
func Format(value any) string {
	text, isText := value.(string)
	switch {
	case isText && problem.Name(text) != text:
		return strconv.Quote(text) // which escapes more than JSON does
	case isText && isPlain(text):
		return text
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// isPlain reports whether a string needs no quotes.
func isPlain(text string) bool {
	if text == "" || strings.ContainsAny(text, " :#{}[],&*!|>'\"%@`") || text[0] == '-' || text[0] == '?' {
		return false
	}
	if unquoted := (&yaml.Node{Kind: yaml.ScalarNode, Value: text}); unquoted.ShortTag() != "!!str" {
		return false
	}
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "~", "<<":
		return false
	}
	return true
}

// IsBlock reports whether the field has fields itself, not only those of list elements.
func (f *Field) IsBlock() bool { return len(f.Fields) > 0 && !strings.HasPrefix(f.Type, "list") }

// Paths lists the paths of all fields below, in order.
func (f *Field) Paths() []string {
	var out []string
	for _, child := range f.Fields {
		out = append(out, child.Path)
		out = append(out, child.Paths()...)
	}
	return out
}
