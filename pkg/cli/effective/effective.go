// Package effective shows configurations as the process understands them: one of them as a
// whole, or the fields in which two differ.
//
// The model:
//
//  1. A configuration is the one that config.Load returns: aliases and merge keys are resolved,
//     a file of upstream's version is converted, and every field that the file does not set has
//     its default. Nothing is computed here that the process would compute otherwise.
//  2. Each value has an origin: a position in the file, the default, or the setting of upstream
//     that it was converted from.
//  3. What a field stands for that is not set and has no default of its own, because it inherits
//     another one, is listed apart: it is not part of the configuration.
//  4. The text of a View is a configuration that means the same as the file: the origins are
//     comments.
package effective

import (
	"fmt"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

// The kinds mark a View and a Diff in JSON and YAML.
const (
	ViewKind = "ConfigView"
	DiffKind = "ConfigDiff"
)

// Source says where the value of a field comes from.
type Source string

// The sources of values.
const (
	// File: the file sets it.
	File Source = "file"
	// Default: nothing sets it.
	Default Source = "default"
	// Upstream: upstream's version, in which the file is written, has another default.
	Upstream Source = "upstream"
)

// Origin is where a value comes from.
type Origin struct {
	From Source `json:"from"`
	// Line and Column are where the file sets the value.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Anchor is the line on which the value is written, if an alias is on Line.
	Anchor int `json:"anchor,omitempty"`
	// Field is the field of upstream's version that the value was converted from.
	Field string `json:"field,omitempty"`
}

// String is the origin in words, to follow a value.
func (o Origin) String() string {
	text := string(o.From)
	switch {
	case o.From == File && o.Anchor > 0:
		text = fmt.Sprintf("line %d, anchor on line %d", o.Line, o.Anchor)
	case o.From == File:
		text = fmt.Sprintf("line %d", o.Line)
	case o.From == Upstream:
		text = "default of upstream"
	}
	if o.Field != "" {
		text += ", " + o.Field
	}
	return text
}

// Loaded is a valid configuration that was found in a file.
type Loaded struct {
	Input    inputs.Input
	Document *config.Document
}

// Origin is where the value of a field comes from.
func (l Loaded) Origin(path string) Origin {
	found := l.Document.Origin(path)
	origin := Origin{From: Default, Field: found.Upstream}
	switch {
	case found.At != problem.Position{}:
		at := l.Input.At(found.At)
		origin.From, origin.Line, origin.Column = File, at.Line, at.Column
		if found.Anchor.Line > 0 {
			origin.Anchor = l.Input.At(found.Anchor).Line
		}
	case found.Upstream != "":
		origin.From = Upstream
	}
	return origin
}

// Inherited is what a field stands for that is not set.
type Inherited struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
	// From is the field that it inherits, or what else decides.
	From string `json:"from"`
}

// View is a configuration as the process understands it.
type View struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// File is where the configuration is, Object and Key the ConfigMap and its key that
	// carry it.
	File   string `json:"file"`
	Object string `json:"object,omitempty"`
	Key    string `json:"key,omitempty"`
	// Hash is that of the configuration as the process shows it.
	Hash string `json:"hash"`
	// Configuration is the whole configuration, with its defaults.
	Configuration *v1beta1.KubeControllerManagerConfiguration `json:"configuration"`
	// Origins are where its values come from, by their paths.
	Origins map[string]Origin `json:"origins"`
	// Inherited are the fields that are not set and follow others.
	Inherited []Inherited `json:"inherited"`
	// NotRunning are the controllers that do not run, with the reason.
	NotRunning map[string]string `json:"notRunning"`

	label string
	tree  *fields.Field
}

// NewView makes the View of a configuration. tree are its fields, subjects the controllers of the
// process.
func NewView(l Loaded, tree *fields.Field, subjects []plan.Subject) (*View, error) {
	cfg := l.Document.Config
	hash, err := config.Hash(cfg)
	if err != nil {
		return nil, err
	}
	v := &View{
		APIVersion:    report.APIVersion,
		Kind:          ViewKind,
		File:          l.Input.File,
		Object:        l.Input.Object,
		Key:           l.Input.Key,
		Hash:          hash,
		Configuration: cfg,
		Origins:       map[string]Origin{},
		Inherited:     inherited(cfg, tree),
		NotRunning:    notRunning(cfg, subjects),
		label:         l.Input.Label(),
		tree:          tree,
	}
	v.collect(l, map[string]any(diff.ObjectOf(cfg)), "")
	return v, nil
}

// Diff is how two configurations differ.
type Diff struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Old and New name the two configurations.
	Old string `json:"old"`
	New string `json:"new"`
	// Empty is set if they mean the same.
	Empty bool `json:"empty"`
	// Changes are the fields that differ, sorted by path.
	Changes []Change `json:"changes"`
}

// Change is a field that differs.
type Change struct {
	diff.Change
	// OldOrigin and NewOrigin are where its values come from.
	OldOrigin Origin `json:"oldOrigin"`
	NewOrigin Origin `json:"newOrigin"`
}

// NewDiff compares two configurations.
func NewDiff(before, after Loaded) *Diff {
	d := &Diff{
		APIVersion: report.APIVersion,
		Kind:       DiffKind,
		Old:        before.Input.Label(),
		New:        after.Input.Label(),
		Changes:    []Change{},
	}
	for _, c := range diff.Between(before.Document.Config, after.Document.Config) {
		d.Changes = append(d.Changes, Change{Change: c, OldOrigin: before.Origin(c.Path), NewOrigin: after.Origin(c.Path)})
	}
	d.Empty = len(d.Changes) == 0
	return d
}
