// Package tree reads a file of YAML or JSON as a tree of values with positions.
//
//  1. What cannot be a configuration is rejected before it is parsed: more than 1 MiB, text
//     that is not UTF-8, control characters.
//  2. Aliases and merge keys are resolved within limits: 64 levels, 20,000 values, 10,000 of
//     them through aliases.
//  3. Scalars have the values that sigs.k8s.io/yaml gives them. Duplicate keys, custom tags
//     and anchors that contain themselves are errors. The escape \/ of JSON is read.
//  4. What a tool did to a file is named before what the parser makes of it: another encoding,
//     zeros, the markers of a merge conflict, a template that was not rendered. Syntax errors
//     have the column at which the parser stopped, as far as it can be told.
package tree

import "kcmd.dev/pkg/config/problem"

// Node is a YAML value with aliases and merge keys resolved: a JSON value with its position.
type Node struct {
	At     problem.Position
	Anchor problem.Position // where the value is written, if there is an alias at At; else zero
	Value  any              // nil, bool, int64, uint64, float64 or string; unset for the other kinds
	Text   string           // the scalar as written
	Fields []Field          // of a mapping
	Items  []*Node          // of a list
	Kind   Kind
}

// Kind is the kind of a value.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Scalar
	Map
	List
	// Refused is an element of a list that has been reported. It keeps the place of the element, and has no value.
	Refused
)

// Field is a key of a mapping and its value.
type Field struct {
	Name  string
	At    problem.Position // of the key
	Value *Node
}

// Get returns the value of a key, or nil.
func (t *Node) Get(name string) *Node {
	for _, f := range t.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Describe names the value in a message.
func (t *Node) Describe() string {
	switch t.Kind {
	case Map:
		return "a mapping"
	case List:
		return "a list"
	case Null:
		return "nothing"
	}
	switch t.Value.(type) {
	case bool:
		return "the boolean " + problem.Shorten(t.Text)
	case string:
		return "the string " + problem.Quote(t.Text)
	}
	return "the number " + problem.Shorten(t.Text)
}
