// Package decode fills Go types from the tree of a file.
//
//  1. Decoding is strict: an unknown field or a value of another type is an error at its
//     position.
//  2. What does not fit is reported and left out, so that the rest can still be checked.
//  3. Every value and every key that the file sets is recorded by its path.
package decode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/upstream/conversion"
)

// Shaped is the part of a file that fits a type.
type Shaped struct {
	// Places holds every value that the file sets.
	Places tree.Places

	value any // as encoding/json marshals it
}

// Shape compares a tree with a type, and reports what does not fit. A number that its type
// cannot hold is reported with the range of its rule, if there is one.
func Shape(root *tree.Node, target reflect.Type, byPath map[string]rules.Rule, r *problem.Report) Shaped {
	s := &shaper{
		report: r,
		rules:  byPath,
		root:   target,
		places: tree.Places{Values: map[string]*tree.Node{}, Keys: map[string]problem.Position{}},
	}
	value, _ := s.shape(root, target, "")
	return Shaped{Places: s.places, value: value}
}

// Into fills target, which keeps what the file does not set. Everything was checked before,
// so an error here is a fault of the checks.
func (s Shaped) Into(target any) error {
	data, err := json.Marshal(s.value)
	if err != nil {
		return fmt.Errorf("encoding the checked values: %w", err)
	}
	if err := json.Unmarshal(data, target); err != nil {
		return fmt.Errorf("decoding the checked values: %w", err)
	}
	return nil
}

// shaper compares a tree with Go types and keeps what fits, as values that encoding/json
// marshals.
type shaper struct {
	report *problem.Report
	rules  map[string]rules.Rule
	places tree.Places
	root   reflect.Type
}

// shape returns the JSON value for a target of type t, or false when there is none.
func (s *shaper) shape(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value.Kind == tree.Null {
		s.report.Warnf(value.At, path, "is empty and has no effect: set a value or remove it")
		return nil, false
	}
	s.places.Values[path] = value
	switch {
	case t == durationType || t == logDurationType:
		return s.duration(value, t, path)
	case t == quantityType:
		return s.quantity(value, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.object(value, t, path)
	case reflect.Map:
		return s.dictionary(value, t, path)
	case reflect.Slice:
		return s.list(value, t, path)
	}
	return s.scalar(value, t, path)
}

func (s *shaper) mismatch(value *tree.Node, path, want string) (any, bool) {
	if text, ok := value.Value.(string); ok && tree.IsTemplate(text) {
		s.report.Errorf(value.At, path, tree.NotRendered, problem.Quote(text))
		return nil, false
	}
	s.report.Errorf(value.At, path, "must be %s, not %s", want, value.Describe())
	return nil, false
}

func (s *shaper) object(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if value.Kind != tree.Map {
		return s.mismatch(value, path, "a mapping with fields such as "+firstField(t))
	}
	known := jsonFields(t)
	out := map[string]any{}
	for _, f := range value.Fields {
		at := fieldpath.Join(path, f.Name)
		s.places.Keys[at] = f.At
		fieldType, ok := known.types[f.Name]
		if !ok {
			s.unknown(f, path, known.names)
			continue
		}
		if child, ok := s.shape(f.Value, fieldType, at); ok {
			out[f.Name] = child
		}
	}
	return out, true
}

// unknown reports a key that is no field of the mapping at path.
func (s *shaper) unknown(f tree.Field, path string, known []string) {
	message := "unknown field"
	switch {
	case s.report.Terse():
	case path == "controllers" && f.Name == "*":
		message = "unknown controller, did you mean controllerDefaults, which is for all of them?"
	case path == "controllers":
		message = registry.Unknown("unknown controller", f.Name)
	default:
		message += ", " + s.hint(path, f.Name, known)
	}
	s.report.Errorf(f.At, fieldpath.Join(path, f.Name), "%s", message)
}

// maxElsewhere is how many fields of a name a message lists.
const maxElsewhere = 3

// hint is what to write instead of a field that the block does not have: a similar one of the
// block, one of that name elsewhere, or the field of a flag of that name.
func (s *shaper) hint(path, name string, known []string) string {
	if problem.Nearest(name, known) != "" {
		return problem.Hint(name, known)
	}
	elsewhere := pathsOf(name, s.root, "")
	inside := slices.DeleteFunc(slices.Clone(elsewhere), func(at string) bool { return !strings.HasPrefix(at, path+".") })
	if len(inside) > 0 {
		elsewhere = inside
	}
	flag := strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
	if row, ok := conversion.Flag(flag); ok && flag != "" && len(elsewhere) == 0 {
		elsewhere = row.Fields()
	}
	if len(elsewhere) == 0 || len(elsewhere) > maxElsewhere {
		return problem.Hint(name, known)
	}
	return "did you mean " + strings.Join(elsewhere, " or ") + "?"
}

func (s *shaper) dictionary(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if value.Kind != tree.Map {
		return s.mismatch(value, path, "a mapping")
	}
	out := map[string]any{}
	for _, f := range value.Fields {
		at := fieldpath.Join(path, f.Name)
		s.places.Keys[at] = f.At
		if child, ok := s.shape(f.Value, t.Elem(), at); ok {
			out[f.Name] = child
		}
	}
	return out, true
}

func (s *shaper) list(value *tree.Node, t reflect.Type, path string) (any, bool) {
	if value.Kind != tree.List {
		return s.mismatch(value, path, "a list")
	}
	out := make([]any, len(value.Items))
	for i, item := range value.Items {
		at := fieldpath.Element(path, i)
		switch item.Kind {
		case tree.Refused:
			continue
		case tree.Null:
			s.report.Errorf(item.At, at, "is empty: set a value or remove it")
			continue
		}
		// An element that does not fit stays as null, so that the others keep their indexes.
		if child, ok := s.shape(item, t.Elem(), at); ok {
			out[i] = child
		}
	}
	return out, true
}
