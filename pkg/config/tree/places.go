package tree

import (
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
)

// Places holds, by path, what a file sets.
type Places struct {
	// Values are the values.
	Values map[string]*Node
	// Keys are the positions of the keys, for problems that concern a block as a whole.
	Keys map[string]problem.Position
}

// Position returns where the value of the field was written; if the file does not set the
// field, the nearest block around it that the file has.
func (p Places) Position(path string) problem.Position {
	if value, ok := p.Values[path]; ok {
		return value.At
	}
	for path != "" {
		if at, ok := p.Keys[path]; ok {
			return at
		}
		path = fieldpath.Parent(path)
	}
	if root, ok := p.Values[""]; ok {
		return root.At
	}
	return problem.Position{}
}

// Key returns the position of the field's name, for problems with the name.
func (p Places) Key(path string) problem.Position {
	if at, ok := p.Keys[path]; ok {
		return at
	}
	return p.Position(path)
}
