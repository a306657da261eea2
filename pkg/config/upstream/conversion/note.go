package conversion

import (
	"fmt"
	"strings"
)

// Note is what a user should know about a conversion.
type Note struct {
	// Field is what the note is about: a path in v1alpha1, or a flag with its hyphens.
	Field string `json:"field"`
	// Message states what becomes of it and why.
	Message string `json:"message"`
	// Important marks a note about something that will not be as it was.
	Important bool `json:"important,omitempty"`
}

// String renders the note as `field: message`.
func (n Note) String() string { return n.Field + ": " + n.Message }

// FieldError is a value that cannot be converted.
type FieldError struct {
	// Field is the path in v1alpha1.
	Field string
	// Message states what is allowed, and what upstream does with the value.
	Message string
}

// Error renders the error as `field: message`.
func (e FieldError) Error() string { return e.Field + ": " + e.Message }

// Errors are all values of one configuration that cannot be converted.
type Errors []FieldError

// Error renders one error per line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, problem := range e {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

func (e *Errors) addf(field, format string, args ...any) {
	*e = append(*e, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}
