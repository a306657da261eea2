package effective

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/v1beta1"
)

// commentColumn is where the comments begin that follow values.
const commentColumn = 64

// Text writes the View as a configuration with comments.
func (v *View) Text(out io.Writer, colors terminal.Colors) error {
	w := &writer{view: v, colors: colors, inherited: map[string]Inherited{}}
	for _, i := range v.Inherited {
		w.inherited[i.Path] = i
	}
	w.comment("", fmt.Sprintf("%s as the process understands it, sha256:%s.", v.label, v.Hash))
	w.comment("",
		"A value that the file sets is followed by its line. A field in a comment is not set, and stands for that value.")
	w.fields(map[string]any(diff.ObjectOf(v.Configuration)), v.tree, "", "")
	_, err := io.WriteString(out, w.text.String())
	return err
}

type writer struct {
	view      *View
	colors    terminal.Colors
	inherited map[string]Inherited
	text      strings.Builder
}

func (w *writer) comment(indent, text string) {
	w.text.WriteString(indent + w.colors.Faint("# "+text) + "\n")
}

// line writes a value, followed by where it comes from.
func (w *writer) line(text, path string) {
	padding := strings.Repeat(" ", max(2, commentColumn-utf8.RuneCountInString(text)))
	origin := w.view.Origins[path]
	comment := "# " + origin.String()
	if origin.From == File {
		comment = w.colors.Bold(comment)
	} else {
		comment = w.colors.Faint(comment)
	}
	w.text.WriteString(text + padding + comment + "\n")
}

// fields writes the fields of a block, in the order of the types, and those that inherit. A map
// has keys that the tree does not have.
func (w *writer) fields(values map[string]any, tree *fields.Field, path, indent string) {
	for _, name := range names(values, tree, func(name string) bool { return w.inherits(fieldpath.Join(path, name)) }) {
		at := fieldpath.Join(path, name)
		value, set := values[name]
		if set {
			w.field(name, value, child(tree, name), at, indent)
		}
		if i, ok := w.inherited[at]; ok {
			w.comment(indent, fmt.Sprintf("%s: %s  (%s)", name, fields.Format(i.Value), i.From))
		} else if !set {
			w.comment(indent, name+":")
			w.fields(nil, child(tree, name), at, indent+"  ")
		}
	}
}

// child is a field of a block, or an empty one for a key of a map.
func child(tree *fields.Field, name string) *fields.Field {
	for _, f := range tree.Fields {
		if f.Name == name {
			return f
		}
	}
	return &fields.Field{}
}

// inherits reports whether the field, or one in it, is not set and follows another one.
func (w *writer) inherits(path string) bool {
	if _, ok := w.inherited[path]; ok {
		return true
	}
	return slices.ContainsFunc(w.view.Inherited, func(i Inherited) bool { return strings.HasPrefix(i.Path, path+".") })
}

// names are the names of the fields to write, in their order.
func names(values map[string]any, tree *fields.Field, inherits func(string) bool) []string {
	var out []string
	if _, root := values["apiVersion"]; root {
		out = append(out, "apiVersion") // first, as in every file of Kubernetes
	}
	known := map[string]bool{"apiVersion": true}
	for _, child := range tree.Fields {
		if known[child.Name] {
			continue
		}
		known[child.Name] = true
		if _, set := values[child.Name]; set || inherits(child.Name) {
			out = append(out, child.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !known[name] {
			out = append(out, name)
		}
	}
	return out
}

func (w *writer) field(name string, value any, tree *fields.Field, path, indent string) {
	key := indent + fields.Format(name) + ":"
	switch value := value.(type) {
	case map[string]any:
		w.block(key, value, tree, path, indent)
	case []any:
		if !isListOfBlocks(value) {
			w.line(key+" "+inline(value, tree), path)
			return
		}
		w.text.WriteString(key + "\n")
		for i, element := range value {
			w.element(element.(map[string]any), tree, fieldpath.Element(path, i), indent)
		}
	default:
		w.line(key+" "+inline(value, tree), path)
	}
}

func (w *writer) block(key string, value map[string]any, tree *fields.Field, path, indent string) {
	open := ""
	if len(value) == 0 {
		open = " {}"
	}
	w.text.WriteString(key + open + "\n")
	if controller, ok := strings.CutPrefix(path, "controllers."); ok {
		if reason := w.view.NotRunning[controller]; reason != "" {
			w.comment(indent+"  ", "does not run: "+reason)
		}
	}
	w.fields(value, tree, path, indent+"  ")
}

// element writes an element of a list; its first line begins with a dash.
func (w *writer) element(value map[string]any, tree *fields.Field, path, indent string) {
	inner := &writer{view: w.view, colors: w.colors}
	inner.fields(value, tree, path, indent+"  ")
	text := inner.text.String()
	if text == "" {
		text = indent + "  {}\n"
	}
	w.text.WriteString(indent + "- " + strings.TrimPrefix(text, indent+"  "))
}

// inline writes a value on one line.
func inline(value any, tree *fields.Field) string {
	list, ok := value.([]any)
	if d, err := time.ParseDuration(fmt.Sprint(value)); err == nil && tree.Type == "duration" {
		return v1beta1.FormatDuration(d)
	}
	if !ok {
		return fields.Format(value)
	}
	parts := make([]string, len(list))
	for i, element := range list {
		parts[i] = inline(element, tree)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Text writes a line for each field that differs.
func (d *Diff) Text(out io.Writer, colors terminal.Colors) error {
	var text strings.Builder
	for _, c := range d.Changes {
		fmt.Fprintf(&text, "%s%s\n", c.Change, colors.Faint(fmt.Sprintf("  (%s → %s)", c.OldOrigin, c.NewOrigin)))
	}
	if d.Empty {
		text.WriteString("no changes\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
