package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/runtime/supervisor"
)

// blamed is a problem of a configuration that is found out when it is prepared, with its cause.
type blamed struct {
	problem problem.Error
	cause   error
}

// Error implements error.
func (b *blamed) Error() string { return b.problem.Error() }

// Unwrap returns the cause.
func (b *blamed) Unwrap() error { return b.cause }

// blame attributes what cannot be prepared to a field of the next configuration.
func (t *transaction) blame(field string, err error) error {
	return &blamed{t.problemOf(field, err), err}
}

// problemOf is what is wrong with a field of the next configuration.
func (t *transaction) problemOf(field string, err error) problem.Error {
	d := t.next.document
	return problem.Error{File: d.Name, Position: d.Position(field), Path: field, Severity: problem.SeverityError, Message: err.Error()}
}

// blameControllers attributes what controllers cannot be built for: each to the only field whose change has it built
// again, or else to its block.
func (t *transaction) blameControllers(err error) error {
	failed := supervisor.BuildErrorsIn(err)
	if len(failed) == 0 {
		return err
	}
	planned := plan.New(t.was.document.Config, t.next.document.Config, Subjects(t.process.options.Descriptors))
	all := make([]error, 0, len(failed))
	for _, f := range failed {
		field := cmp.Or(onlyCause(planned, f.Controller), "controllers."+f.Controller)
		all = append(all, t.blame(field, fmt.Errorf("%s cannot be built: %w", f.Controller, f.Err)))
	}
	slices.SortStableFunc(all, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return errors.Join(all...)
}

// lineOf returns the line of the field that an error is attributed to.
func lineOf(err error) int {
	var b *blamed
	if !errors.As(err, &b) {
		return 0
	}
	return b.problem.Line
}

// onlyCause returns the field whose change decides what happens to a controller, empty if it is not just one.
func onlyCause(p plan.Plan, name string) string {
	for _, c := range p.Controllers {
		if c.Name == name && len(c.Causes) == 1 {
			return c.Causes[0].Path
		}
	}
	return ""
}
