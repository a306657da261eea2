// Package check checks configurations as the process does, and reports what it finds to
// people, programs and GitHub.
//
// The model:
//
//  1. Inputs come from package inputs. Each is loaded by config.Load, and compared by
//     plan.New: what is reported is what the process would report and do.
//  2. A Report is data. Its forms (Text, JSON, YAML, GitHub) are made from nothing else.
//  3. A Report fails if anything could not be read, if a configuration has errors, and,
//     if warnings are to fail it, if there is a warning.
package check

import (
	"errors"
	"fmt"
	"strings"

	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

// Kind marks a Report in JSON and YAML.
const Kind = "CheckReport"

// Report is what a check found.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Valid is set if nothing fails the check.
	Valid bool `json:"valid"`
	// Configurations are those that were found, in the order of the arguments.
	Configurations []Configuration `json:"configurations"`
	// Problems are those of files in which no configuration could be found.
	Problems problem.Errors `json:"problems,omitempty"`
	// Skipped counts the documents that are something else.
	Skipped int `json:"skipped"`
	// Comparison is set if configurations were compared, the new one is valid, and something
	// of the old one can be used.
	Comparison *Comparison `json:"comparison,omitempty"`
	// Note says what is missing in the comparison, or why there is none, if the old
	// configuration is invalid.
	Note string `json:"note,omitempty"`

	comparing bool // a comparison was requested
}

// Configuration is one that was checked.
type Configuration struct {
	// File is where it is, Object and Key the ConfigMap and its key that carry it,
	// Document the number of the YAML document, from 1, in a file of several.
	File     string `json:"file"`
	Object   string `json:"object,omitempty"`
	Key      string `json:"key,omitempty"`
	Document int    `json:"document,omitempty"`
	// Valid is set if nothing in it fails the check.
	Valid bool `json:"valid"`
	// Hash is that of the configuration as the process shows it, empty if it is not valid.
	Hash string `json:"hash,omitempty"`
	// Problems are its errors and warnings, by position.
	Problems problem.Errors `json:"problems,omitempty"`

	// Old is set if it is the one that another is compared with. Its problems do not fail the
	// check, which may be that of their repair.
	Old bool `json:"old,omitempty"`

	label    string
	input    inputs.Input
	document *config.Document
}

// Comparison is what a running process does when it gets the new configuration.
type Comparison struct {
	// Old and New name the two configurations.
	Old string `json:"old"`
	New string `json:"new"`
	// Empty is set if nothing changes.
	Empty bool `json:"empty"`
	// LeftOut are the fields of the old configuration that are not compared, because they have
	// errors.
	LeftOut []string  `json:"leftOut,omitempty"`
	Plan    plan.Plan `json:"plan"`
}

// Checker checks the configurations in named files.
type Checker struct {
	// Finder looks for the configurations.
	Finder inputs.Finder
	// Subjects are the controllers of a Plan.
	Subjects []plan.Subject
	// Files is set if the files that a configuration names are checked, too.
	Files bool
	// FailOn is the least severity that fails the check. Default: error.
	FailOn problem.Severity
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
// hold exactly one. What is wrong with old is in the report first, and does not fail the check:
// name is compared with what can be used of old.
func (c Checker) Compare(name string, old Against) *Report {
	r := c.newReport()
	r.comparing = true
	before, leftOut := old.Config, []string(nil)
	if before == nil {
		before, leftOut = c.old(r, old.Name)
	}
	after := c.one(r, name)
	r.Valid = c.passes(r)
	if after == nil || after.document == nil {
		r.Valid, r.Note = false, ""
		return r
	}
	if before == nil {
		return r
	}
	p := plan.New(before, after.document.Config, c.Subjects)
	r.Comparison = &Comparison{Old: old.Name, New: after.label, Empty: p.Empty(), LeftOut: leftOut, Plan: p}
	return r
}

// old adds the configuration that another one is compared with, and returns what can be used of
// it; nil if that is nothing.
func (c Checker) old(r *Report, name string) (cfg *v1beta1.KubeControllerManagerConfiguration, leftOut []string) {
	found := c.one(r, name)
	if found == nil {
		return nil, nil
	}
	found.Old = true
	if found.document != nil {
		return found.document.Config, nil
	}
	document, leftOut := found.input.LoadUsable()
	if document == nil {
		r.Note = found.label + " is invalid and nothing in it can be used: there is no Plan"
		return nil, nil
	}
	if len(leftOut) == 0 { // only files that it names are bad now: a process may have it in force
		return document.Config, nil
	}
	r.Note = fmt.Sprintf("%s is invalid, and no process of this version has it in force: "+
		"this is the Plan of a change from it without %s", found.label, shortList(leftOut))
	return document.Config, leftOut
}

// maxNamed is how many fields a note names.
const maxNamed = 5

func shortList(paths []string) string {
	if len(paths) <= maxNamed {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d other fields", strings.Join(paths[:maxNamed], ", "), len(paths)-maxNamed)
}

func (c Checker) newReport() *Report {
	return &Report{APIVersion: report.APIVersion, Kind: Kind, Configurations: []Configuration{}}
}

// one adds what a name leads to, and returns the one configuration in it, or nil.
func (c Checker) one(r *Report, name string) *Configuration {
	found := c.add(r, name)
	if len(found) > 1 {
		var labels []string
		for _, f := range found {
			labels = append(labels, f.label)
		}
		r.Problems = append(r.Problems, problem.Error{File: name, Severity: problem.SeverityError,
			Message: fmt.Sprintf("only one configuration can be compared, but there are %d: %s",
				len(found), strings.Join(labels, "; "))})
		return nil
	}
	if len(found) == 0 {
		return nil
	}
	return &found[0]
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

func (c Checker) check(in inputs.Input) Configuration {
	out := Configuration{
		File:     in.File,
		Object:   in.Object,
		Key:      in.Key,
		Document: in.Document,
		label:    in.Label(),
		input:    in,
	}
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
		out.Problems = append(out.Problems,
			problem.Error{File: in.File, Message: err.Error(), Severity: problem.SeverityError})
	}
	out.Hash = hash
	return out
}

func (c Checker) passes(r *Report) bool {
	for _, found := range r.Configurations {
		if !found.Valid && !found.Old {
			return false
		}
	}
	return !c.fails(r.Problems)
}

func (c Checker) fails(problems problem.Errors) bool {
	return problems.HasErrors() || (c.FailOn == problem.SeverityWarning && len(problems) > 0)
}

// ParseFailOn reads the value of a flag.
func ParseFailOn(text string) (problem.Severity, error) {
	switch severity := problem.Severity(text); severity {
	case problem.SeverityError, problem.SeverityWarning:
		return severity, nil
	}
	return "", fmt.Errorf("must be %s or %s, not %q", problem.SeverityError, problem.SeverityWarning, text)
}

// ErrFailed is the error of a check that found problems.
var ErrFailed = errors.New("there are problems")
