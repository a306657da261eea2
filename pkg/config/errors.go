package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a problem prevents the use of a configuration.
type Severity string

const (
	// SeverityError is a problem that prevents the use of the configuration.
	SeverityError Severity = "error"
	// SeverityWarning is a setting that is useless, deprecated or unsafe.
	SeverityWarning Severity = "warning"
)

// maxProblems bounds the report of a file that is wrong everywhere.
const maxProblems = 1000

// maxSuggestions is the number of problems up to which messages suggest what was meant.
const maxSuggestions = 100

// Position is a place in a file. Line and Column count from 1, Column in
// characters; 0 means unknown.
type Position struct {
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Error is one problem of a configuration.
type Error struct {
	// File is the name given to Load.
	File string `json:"file,omitempty"`
	Position
	// Path is the field, such as controllers.deployment-controller.concurrentSyncs.
	// It is empty when the problem concerns no particular field.
	Path string `json:"path,omitempty"`
	// Message says what is wrong and what is allowed.
	Message string `json:"message"`
	// Severity is error or warning.
	Severity Severity `json:"severity"`
}

// Error renders the problem as `file:line:column: path: message`; a warning has
// `warning: ` in front of the path. Unknown parts are left out.
func (e Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
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

// HasErrors says whether any problem is more than a warning.
func (e Errors) HasErrors() bool {
	return slices.ContainsFunc(e, func(p Error) bool { return p.Severity == SeverityError })
}

// AsError is nil when there are only warnings, so that a caller can return it.
func (e Errors) AsError() error {
	if !e.HasErrors() {
		return nil
	}
	return e
}

// Warnings are the problems that are only warnings.
func (e Errors) Warnings() Errors {
	var out Errors
	for _, p := range e {
		if p.Severity == SeverityWarning {
			out = append(out, p)
		}
	}
	return out
}

// sorted returns the problems by position, then path, then message, each once.
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

// report collects the problems of one file.
type report struct {
	file     string
	problems Errors
	dropped  int
}

func (r *report) add(severity Severity, at Position, path, format string, args []any) {
	if r.full() {
		r.dropped++
		return
	}
	message := fmt.Sprintf(format, args...)
	r.problems = append(r.problems, Error{File: r.file, Position: at, Path: path, Message: message, Severity: severity})
}

func (r *report) errorf(at Position, path, format string, args ...any) {
	r.add(SeverityError, at, path, format, args)
}

func (r *report) warnf(at Position, path, format string, args ...any) {
	r.add(SeverityWarning, at, path, format, args)
}

// full says that further problems are only counted.
func (r *report) full() bool { return len(r.problems) >= maxProblems }

// terse says that there are so many problems that it need not be worked out, for each
// further one, what was probably meant.
func (r *report) terse() bool { return len(r.problems) >= maxSuggestions }

// finish returns everything collected, and says so when something was left out.
func (r *report) finish() Errors {
	out := r.problems.sorted()
	if r.dropped == 0 {
		return out
	}
	last := out[len(out)-1].Position
	return append(out, Error{File: r.file, Position: last, Severity: SeverityError,
		Message: fmt.Sprintf("and more: only the first %d problems are shown", maxProblems)})
}
