// Package check checks configurations as the process does, and reports what it finds to
// people, programs and GitHub.
//
// The model:
//
//  1. Inputs come from package sources. Each is loaded by config.Load, and compared by
//     config.NewPlan: what is reported is what the process would say and do.
//  2. A Report is data. How it is shown (Text, JSON, YAML, GitHub) knows nothing else.
//  3. A Report fails if anything could not be read, if a configuration has errors, and,
//     if warnings are to fail it, if there is a warning.
package check

import (
	"errors"
	"fmt"
	"strings"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/sources"
	"kcmd.dev/pkg/config/v1beta1"
)

// APIVersion and Kind mark a Report in JSON and YAML. Fields may be added, none are
// removed or renamed.
const (
	APIVersion = "cli.kcmd.dev/v1"
	Kind       = "CheckReport"
)

// Report is what a check found.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Valid says that nothing fails the check.
	Valid bool `json:"valid"`
	// Configurations are those that were found, in the order of the arguments.
	Configurations []Configuration `json:"configurations"`
	// Problems are those of files in which no configuration could be found.
	Problems config.Errors `json:"problems,omitempty"`
	// Skipped counts the documents that are something else.
	Skipped int `json:"skipped"`
	// Comparison is there if configurations were compared, and both are valid.
	Comparison *Comparison `json:"comparison,omitempty"`

	comparing bool // the comparison was asked for
}

// Configuration is one that was checked.
type Configuration struct {
	// File is where it is, Object and Key the ConfigMap and its key that carry it,
	// Document the number of the YAML document, from 1, in a file of several.
	File     string `json:"file"`
	Object   string `json:"object,omitempty"`
	Key      string `json:"key,omitempty"`
	Document int    `json:"document,omitempty"`
	// Valid says that nothing in it fails the check.
	Valid bool `json:"valid"`
	// Hash is that of the configuration as the process shows it, empty if it is not valid.
	Hash string `json:"hash,omitempty"`
	// Problems are its errors and warnings, by position.
	Problems config.Errors `json:"problems,omitempty"`

	label    string
	document *config.Document
}

// Comparison is what a running process does when it gets the new configuration.
type Comparison struct {
	// Old and New name the two configurations.
	Old string `json:"old"`
	New string `json:"new"`
	// Empty says that nothing changes.
	Empty bool        `json:"empty"`
	Plan  config.Plan `json:"plan"`
}

// Checker checks what it is given the names of.
type Checker struct {
	// Finder looks for the configurations.
	Finder sources.Finder
	// Subjects are the controllers of a Plan.
	Subjects []config.Subject
	// Files says that the files which a configuration names are checked, too.
	Files bool
	// FailOn is the least severity that fails the check. Default: error.
	FailOn config.Severity
}

// Against is the configuration that another one is compared with.
type Against struct {
	// Name is that of a file to find it in; or, with Config set, what to call it.
	Name string
	// Config is the configuration, if it is not to be found in a file.
	Config *v1beta1.KubeControllerManagerConfiguration
}

// Check checks all configurations in files, folders and the standard input.
func (c Checker) Check(names []string) *Report {
	r := c.newReport()
	for _, name := range names {
		c.add(r, name)
	}
	r.Valid = c.passes(r)
	return r
}

// Compare checks the configurations in name and in old, and compares them. Each has to
// hold exactly one. What is wrong with old is in the report first.
func (c Checker) Compare(name string, old Against) *Report {
	r := c.newReport()
	r.comparing = true
	before := old.Config
	if before == nil {
		before = c.one(r, old.Name)
	}
	after := c.one(r, name)
	r.Valid = c.passes(r)
	if before == nil || after == nil {
		r.Valid = false
		return r
	}
	plan := config.NewPlan(before, after, c.Subjects)
	r.Comparison = &Comparison{Old: old.Name, New: r.Configurations[len(r.Configurations)-1].label, Empty: plan.Empty(), Plan: plan}
	return r
}

func (c Checker) newReport() *Report {
	return &Report{APIVersion: APIVersion, Kind: Kind, Configurations: []Configuration{}}
}

// one adds what a name leads to, and returns the one valid configuration in it, or nil.
func (c Checker) one(r *Report, name string) *v1beta1.KubeControllerManagerConfiguration {
	found := c.add(r, name)
	if len(found) > 1 {
		var labels []string
		for _, f := range found {
			labels = append(labels, f.label)
		}
		r.Problems = append(r.Problems, config.Error{File: name, Severity: config.SeverityError,
			Message: fmt.Sprintf("one configuration is compared, and there are %d: %s", len(found), strings.Join(labels, "; "))})
		return nil
	}
	if len(found) == 0 || found[0].document == nil {
		return nil
	}
	return found[0].document.Config
}

// add checks what a name leads to and returns it.
func (c Checker) add(r *Report, name string) []Configuration {
	found := c.Finder.Find(name)
	r.Problems = append(r.Problems, found.Problems...)
	r.Skipped += found.Skipped
	first := len(r.Configurations)
	for _, in := range found.Inputs {
		r.Configurations = append(r.Configurations, c.check(in))
	}
	return r.Configurations[first:]
}

func (c Checker) check(in sources.Input) Configuration {
	out := Configuration{File: in.File, Object: in.Object, Key: in.Key, Document: in.Document, label: in.Label()}
	document, problems := in.Load()
	out.Problems = problems
	if document != nil && c.Files {
		files := in.Place(document.CheckFiles())
		out.Problems = append(out.Problems, files...)
		if files.HasErrors() {
			document = nil
		}
	}
	out.document = document
	out.Valid = !c.fails(out.Problems)
	if document == nil {
		return out
	}
	hash, err := config.Hash(document.Config)
	if err != nil {
		out.Valid = false
		out.Problems = append(out.Problems, config.Error{File: in.File, Message: err.Error(), Severity: config.SeverityError})
	}
	out.Hash = hash
	return out
}

func (c Checker) passes(r *Report) bool {
	for _, found := range r.Configurations {
		if !found.Valid {
			return false
		}
	}
	return !c.fails(r.Problems)
}

func (c Checker) fails(problems config.Errors) bool {
	return problems.HasErrors() || (c.FailOn == config.SeverityWarning && len(problems) > 0)
}

// ParseFailOn reads the value of a flag.
func ParseFailOn(text string) (config.Severity, error) {
	switch severity := config.Severity(text); severity {
	case config.SeverityError, config.SeverityWarning:
		return severity, nil
	}
	return "", fmt.Errorf("must be %s or %s, not %q", config.SeverityError, config.SeverityWarning, text)
}

// ErrFailed is what a check that found problems ends with.
var ErrFailed = errors.New("there are problems")
