// Package sample writes configurations that contain the defaults.
package sample

import (
	"fmt"
	"slices"
	"strings"

	"kcmd.dev/pkg/cli/explain"
	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/config/v1beta1"
)

// width is where comments are broken.
const width = 100

// Options say what is written.
type Options struct {
	// Full adds what has no default, as a comment, and a comment on every field.
	Full bool
	// Controller restricts the configuration to the block of one controller.
	Controller string
}

// Write returns a configuration file with the default of every field, in the order of the
// types. It is valid, and means the same as an empty one.
func Write(tree *fields.Field, o Options) (string, error) {
	w := &writer{full: o.Full}
	fmt.Fprintf(&w.text, "apiVersion: %s\nkind: %s\n", v1beta1.APIVersion, v1beta1.Kind)
	if o.Controller != "" {
		block, err := tree.Find("controllers." + o.Controller)
		if err != nil {
			return "", err
		}
		tree = &fields.Field{Fields: []*fields.Field{{
			Name:   "controllers",
			Path:   "controllers",
			Type:   "object",
			Fields: []*fields.Field{block},
		}}}
	}
	for _, f := range tree.Fields {
		if f.Name == "apiVersion" || f.Name == "kind" {
			continue
		}
		if o.Full {
			w.text.WriteByte('\n')
		}
		w.field(f, 0)
	}
	return w.text.String(), nil
}

type writer struct {
	text strings.Builder
	full bool
}

// hasDefaults reports whether there is a default in a field or below it. What is locked is
// not to be written.
func hasDefaults(f *fields.Field) bool {
	if !f.IsBlock() {
		return f.Default != nil && !isGate(f)
	}
	return slices.ContainsFunc(f.Fields, hasDefaults)
}

// isGate reports whether a field is a feature gate. Gates are not written: without that they
// have their defaults, and locked ones must not be written.
func isGate(f *fields.Field) bool { return strings.HasPrefix(f.Path, "featureGates.") }

func (w *writer) field(f *fields.Field, depth int) {
	set := hasDefaults(f)
	if f.Fixed || (!set && !w.full) {
		return
	}
	indent := strings.Repeat("  ", depth)
	if w.full {
		w.comment(f, indent)
	}
	name := f.Name
	if !set {
		name = "# " + name
	}
	if !f.IsBlock() {
		w.value(f, indent, name)
		return
	}
	fmt.Fprintf(&w.text, "%s%s:\n", indent, name)
	for _, child := range f.Fields {
		w.field(child, depth+1)
	}
}

// value writes a field that is no block. A long list takes a line for each element.
func (w *writer) value(f *fields.Field, indent, name string) {
	text := value(f)
	list, isList := f.Default.([]any)
	if !isList || len(indent)+len(name)+len(text) < width {
		fmt.Fprintf(&w.text, "%s%s: %s\n", indent, name, text)
		return
	}
	fmt.Fprintf(&w.text, "%s%s:\n", indent, name)
	for _, element := range list {
		fmt.Fprintf(&w.text, "%s- %s\n", indent, inline(element))
	}
}

func (w *writer) comment(f *fields.Field, indent string) {
	if f.Description == "" {
		return
	}
	for line := range strings.SplitSeq(explain.Wrap(f.Description, width-len(indent)), "\n") {
		fmt.Fprintf(&w.text, "%s# %s\n", indent, line)
	}
}

// value is the default, else the type, since no value would suit everybody.
func value(f *fields.Field) string {
	if f.Default != nil {
		return inline(f.Default)
	}
	return "<" + f.Type + ">"
}

// inline writes a value on one line.
func inline(v any) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, element := range v {
			parts[i] = inline(element)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for name, element := range v {
			parts = append(parts, name+": "+inline(element))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fields.Format(v)
}
