// Package problem describes what is wrong with a configuration.
//
//  1. A problem has the position and the path of its field, a message and a severity. The
//     message states what is allowed and suggests what was probably meant.
//  2. A Report collects the problems of one file: the first 1,000 errors and the first 1,000
//     warnings, sorted by position. From the 101st problem on, messages make no suggestions.
package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is how serious a problem is.
type Severity string

const (
	// SeverityError is a problem that prevents the use of the configuration.
	SeverityError Severity = "error"
	// SeverityWarning is a setting that is useless, deprecated or unsafe.
	SeverityWarning Severity = "warning"
)

// maxProblems bounds the report of a file that is wrong everywhere: the errors, and apart from
// them the warnings, so that no number of warnings prevents the use of a configuration.
const maxProblems = 1000

// maxSuggestions is the number of problems with a suggestion: finding one compares words.
const maxSuggestions = 100

// Position is a place in a file. Line and Column count from 1, Column in
// characters; 0 means unknown.
type Position struct {
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Error is one problem of a configuration.
type Error struct {
	// File is the name under which the configuration was loaded.
	File string `json:"file,omitempty"`
	Position
	// Path is the field, such as controllers.deployment-controller.concurrentSyncs.
	// It is empty when the problem concerns no particular field.
	Path string `json:"path,omitempty"`
	// Message states what is wrong and what is allowed.
	Message string `json:"message"`
	// Severity is error or warning.
	Severity Severity `json:"severity"`
}

// Error renders the problem as `file:line:column: path: message`; a warning has
// `warning: ` in front of the path. Unknown parts are left out.
func (e Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(Name(e.File))
		b.WriteByte(':')
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if e.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// Errors are the problems of one configuration, sorted by position.
type Errors []Error

// Error renders one problem per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, problem := range e {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// HasErrors reports whether any problem is more than a warning.
func (e Errors) HasErrors() bool {
	return slices.ContainsFunc(e, func(p Error) bool { return p.Severity == SeverityError })
}

// AsError returns the problems as an error, or nil if there are only warnings.
func (e Errors) AsError() error {
	if !e.HasErrors() {
		return nil
	}
	return e
}

func (e Errors) sorted() Errors {
	out := slices.Clone(e)
	slices.SortFunc(out, func(a, b Error) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(out)
}

// Report collects the problems of one file. The zero value is a report on a file without a
// name.
type Report struct {
	// File is the name of the file in messages.
	File string

	problems Errors
	reported map[Severity]int
	dropped  map[Severity]bool // whether there are more than are reported
}

// Errorf adds a problem that prevents the use of the configuration.
func (r *Report) Errorf(at Position, path, format string, args ...any) {
	r.addf(SeverityError, at, path, format, args)
}

// Warnf adds a problem that does not.
func (r *Report) Warnf(at Position, path, format string, args ...any) {
	r.addf(SeverityWarning, at, path, format, args)
}

// Add adds a problem of this file that is worded already.
func (r *Report) Add(p Error) {
	if r.full(p.Severity) {
		return
	}
	if r.reported == nil {
		r.reported = map[Severity]int{}
	}
	r.reported[p.Severity]++
	p.File = r.File
	r.problems = append(r.problems, p)
}

// addf words the problem only if it is reported.
func (r *Report) addf(severity Severity, at Position, path, format string, args []any) {
	if r.full(severity) {
		return
	}
	r.Add(Error{Position: at, Path: path, Message: fmt.Sprintf(format, args...), Severity: severity})
}

// full reports whether no further problem of a severity is reported, and notes that there is one.
func (r *Report) full(severity Severity) bool {
	if r.reported[severity] < maxProblems {
		return false
	}
	if r.dropped == nil {
		r.dropped = map[Severity]bool{}
	}
	r.dropped[severity] = true
	return true
}

// Terse reports whether there are so many problems that messages make no suggestions.
func (r *Report) Terse() bool { return len(r.problems) >= maxSuggestions }

// Failed returns the paths of the errors so far: fields whose values cannot be used.
func (r *Report) Failed() map[string]bool {
	out := map[string]bool{}
	for _, p := range r.problems {
		if p.Severity == SeverityError {
			out[p.Path] = true
		}
	}
	return out
}

// Errors returns the problems, sorted by position, then path, then message, each once. If
// there were too many of a severity, a last one of that severity states that.
func (r *Report) Errors() Errors {
	out := r.problems.sorted()
	if len(out) == 0 {
		return out
	}
	last := out[len(out)-1].Position
	for _, severity := range []Severity{SeverityWarning, SeverityError} {
		if r.dropped[severity] {
			out = append(out, Error{File: r.File, Position: last, Severity: severity,
				Message: fmt.Sprintf("and more: only the first %d %ss are shown", maxProblems, severity)})
		}
	}
	return out
}
