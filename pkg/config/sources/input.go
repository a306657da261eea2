package sources

import (
	"errors"
	"fmt"

	"kcmd.dev/pkg/config"
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

	start config.Position
	place func(config.Position) (at config.Position, exact bool)
}

// Label names the input where the file alone does not.
func (in Input) Label() string {
	switch {
	case in.Object != "":
		return fmt.Sprintf("%s: %s, %s", in.File, in.Object, in.Key)
	case in.Document > 0:
		return fmt.Sprintf("%s: document %d", in.File, in.Document)
	}
	return in.File
}

// Load loads the configuration with config.Load. The document is nil if it is not valid.
// The problems, warnings included, have their positions in the file.
func (in Input) Load() (*config.Document, config.Errors) {
	document, err := config.Load(in.File, in.Data)
	if err == nil {
		return document, append(in.warnings(), in.Place(document.Warnings)...)
	}
	var problems config.Errors
	if !errors.As(err, &problems) {
		problems = config.Errors{{File: in.File, Message: err.Error(), Severity: config.SeverityError}}
	}
	return nil, in.Place(problems)
}

// warnings tell of a valid document that the process would not read from this file.
func (in Input) warnings() config.Errors {
	if in.Document == 0 || in.Object != "" {
		return nil
	}
	return config.Errors{{File: in.File, Position: in.start, Severity: config.SeverityWarning,
		Message: "the process reads files of one document only: keep this one in a file or a ConfigMap of its own"}}
}

// Place gives problems of the configuration, found by config, their positions in the file.
func (in Input) Place(problems config.Errors) config.Errors {
	out := make(config.Errors, 0, len(problems))
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
