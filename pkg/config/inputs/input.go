package inputs

import (
	"errors"
	"fmt"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/problem"
)

// Input is one configuration that was found.
type Input struct {
	// File is the name of the file, as in messages; "stdin" for the standard input.
	File string
	// Object is the object that carries the configuration, such as "ConfigMap
	// kube-system/kcm", and Key the key of its data. Both are empty if the document is
	// the configuration itself.
	Object, Key string
	// Document is the number of the document in the file, from 1; 0 if it has only one.
	Document int
	// Data is what config.Load takes.
	Data []byte

	start problem.Position
	place func(problem.Position) (at problem.Position, exact bool)
}

// Label names the input where the file alone does not.
func (in Input) Label() string {
	switch {
	case in.Object != "":
		return fmt.Sprintf("%s: %s, %s", problem.Name(in.File), in.Object, in.Key)
	case in.Document > 0:
		return fmt.Sprintf("%s: document %d", problem.Name(in.File), in.Document)
	}
	return problem.Name(in.File)
}

// APIVersion returns the apiVersion that the configuration states, or an empty string.
func (in Input) APIVersion() string {
	root, err := parse(in.Data)
	if err != nil || root == nil {
		return ""
	}
	return text(root, "apiVersion")
}

// Load loads the configuration with config.Load. The document is nil if it is not valid.
// The problems, warnings included, have their positions in the file.
func (in Input) Load() (*config.Document, problem.Errors) {
	document, err := config.Load(in.File, in.Data)
	if err == nil {
		return document, append(in.sharedFile(), in.Place(document.Warnings)...)
	}
	var problems problem.Errors
	if !errors.As(err, &problems) {
		problems = problem.Errors{{File: in.File, Message: err.Error(), Severity: problem.SeverityError}}
	}
	return nil, in.Place(problems)
}

// LoadUsable loads what can be used of a configuration that is not valid, see config.LoadUsable.
func (in Input) LoadUsable() (document *config.Document, leftOut []string) {
	return config.LoadUsable(in.File, in.Data)
}

// At returns where in the file a position of the configuration is; that of the key for a value
// of a manifest whose place is not known exactly.
func (in Input) At(p problem.Position) problem.Position {
	at, _ := in.place(p)
	return at
}

// sharedFile reports a valid document that the process would not read from this file, because the file has others.
func (in Input) sharedFile() problem.Errors {
	if in.Document == 0 || in.Object != "" {
		return nil
	}
	return problem.Errors{{File: in.File, Position: in.start, Severity: problem.SeverityError,
		Message: "the process reads files with one document only: put this one into its own file or ConfigMap"}}
}

// Place gives problems of the configuration, found by config, their positions in the file.
func (in Input) Place(problems problem.Errors) problem.Errors {
	out := make(problem.Errors, 0, len(problems))
	for _, p := range problems {
		if p.Line > 0 {
			at, exact := in.place(p.Position)
			if !exact {
				p.Message += fmt.Sprintf(" (line %d, column %d of the value of %s)", p.Line, p.Column, in.Key)
			}
			p.Position = at
		}
		out = append(out, p)
	}
	return out
}
