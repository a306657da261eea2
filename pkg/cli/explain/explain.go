// Package explain explains the fields of the configuration to people.
package explain

import (
	"fmt"
	"io"
	"strings"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/table"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/plan"
)

// width is where lines are broken.
const width = 100

// Explainer explains fields.
type Explainer struct {
	Out io.Writer
	// Subjects are the controllers that a change can restart.
	Subjects []plan.Subject
	Colors   terminal.Colors
}

// Explain describes a field, and lists the fields in it; with recursive, those of all nested
// blocks too.
func (e Explainer) Explain(f *fields.Field, recursive bool) error {
	if err := e.head(f); err != nil {
		return err
	}
	if f.Description != "" {
		fmt.Fprintf(e.Out, "\n%s\n", Wrap(f.Description, width))
	}
	if len(f.Fields) == 0 {
		return nil
	}
	fmt.Fprintf(e.Out, "\n%s\n", e.Colors.Bold("FIELDS:"))
	if recursive {
		e.tree(f, 1)
		return nil
	}
	return e.children(f)
}

func (e Explainer) head(f *fields.Field) error {
	line := func(title, value string) {
		if value != "" {
			fmt.Fprintf(e.Out, "%s %s\n", e.Colors.Bold(fmt.Sprintf("%-8s", title)), value)
		}
	}
	path := f.Path
	if path == "" {
		path = "the whole configuration"
	}
	line("FIELD:", path)
	line("TYPE:", f.Type)
	if f.Default != nil {
		line("DEFAULT:", fields.Format(f.Default))
	}
	line("ALLOWED:", f.Allowed)
	effect, err := f.Effect(e.Subjects)
	if err != nil {
		return fmt.Errorf("computing the effect of a change: %w", err)
	}
	line("CHANGE:", strings.ReplaceAll(Wrap(effect, width-9), "\n", "\n         "))
	return nil
}

// children lists the fields of a block in a table.
func (e Explainer) children(f *fields.Field) error {
	t := table.New("", "", "")
	for _, child := range f.Fields {
		t.Row("  "+child.Name, kind(child), firstSentence(child.Description))
	}
	t.Style = func(_, column int, _, padded string) string {
		if column == 1 {
			return e.Colors.Faint(padded)
		}
		return padded
	}
	return t.WriteBody(e.Out)
}

// kind is the type of a field, with its default.
func kind(f *fields.Field) string {
	if f.Default == nil || f.IsBlock() {
		return "<" + f.Type + ">"
	}
	return fmt.Sprintf("<%s> = %s", f.Type, fields.Format(f.Default))
}

// tree lists all fields below a block.
func (e Explainer) tree(f *fields.Field, depth int) {
	for _, child := range f.Fields {
		fmt.Fprintf(e.Out, "%s%s  %s\n", strings.Repeat("  ", depth), child.Name, e.Colors.Faint(kind(child)))
		e.tree(child, depth+1)
	}
}

func firstSentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// Wrap breaks text into lines of at most a number of characters, where words end.
func Wrap(text string, width int) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		length := len([]rune(word))
		switch {
		case column == 0:
		case column+1+length > width:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += length
	}
	return out.String()
}
