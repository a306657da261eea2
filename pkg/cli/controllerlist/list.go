// Package controllerlist lists the controllers of Kubernetes: what each is for, whether
// this build has it and whether it runs by default; and, of a running process, what it
// does.
//
// Names are those of the configuration and of config.KnownControllers, what a controller
// is for is the doc comment of its block, and the rest is its descriptor.
package controllerlist

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/status"
	"kcmd.dev/pkg/cli/table"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/supervisor"
)

// APIVersion and Kind mark a List in JSON and YAML. Fields may be added, none are removed
// or renamed.
const (
	APIVersion = "cli.kcmd.dev/v1"
	Kind       = "ControllerList"
)

// List is all controllers, sorted by name.
type List struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Items      []Entry `json:"items"`
	// Live says that the entries have the state of a running process.
	Live bool `json:"live"`
}

// Entry is one controller.
type Entry struct {
	Name string `json:"name"`
	// Aliases are the names under which older releases knew it.
	Aliases []string `json:"aliases,omitempty"`
	// Built says whether this build has it.
	Built bool `json:"built"`
	// Default says whether it runs with a configuration that does not mention it.
	Default bool `json:"default"`
	// Gate is the feature gate without which it does not run, GateDefault the default of it.
	Gate        string `json:"gate,omitempty"`
	GateDefault bool   `json:"gateDefault,omitempty"`
	// ServiceAccount is the one in kube-system that it acts as.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Description says what it is for.
	Description string `json:"description,omitempty"`
	// Status is that of the controller in a running process.
	Status *supervisor.Status `json:"status,omitempty"`
}

// New makes the list of a build with these controllers.
func New(descriptors []controller.Descriptor, tree *fields.Field) *List {
	entries := map[string]*Entry{}
	entry := func(name string) *Entry {
		if entries[name] == nil {
			entries[name] = &Entry{Name: name}
		}
		return entries[name]
	}
	for _, known := range config.KnownControllers() {
		entry(known.Name).Aliases = known.FormerNames
	}
	if blocks, err := tree.Find("controllers"); err == nil {
		for _, block := range blocks.Fields {
			entry(block.Name).Description = block.Description
		}
	}
	defaults := v1beta1.NewDefault()
	for _, d := range descriptors {
		e := entry(d.Name)
		e.Built, e.Gate, e.ServiceAccount = true, d.Gate, d.ServiceAccount
		e.Default, _ = d.Enabled(defaults)
		e.GateDefault = d.Gate != "" && config.Enabled(defaults, d.Gate)
		if e.Description == "" {
			e.Description = d.Doc
		}
	}
	list := &List{APIVersion: APIVersion, Kind: Kind, Items: []Entry{}}
	for _, e := range entries {
		list.Items = append(list.Items, *e)
	}
	slices.SortFunc(list.Items, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// AddStatus adds the state of a running process. It may have controllers that this build
// does not have.
func (l *List) AddStatus(controllers []supervisor.Status) {
	l.Live = true
	for _, c := range controllers {
		i, found := slices.BinarySearchFunc(l.Items, c.Name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
		if !found {
			l.Items = slices.Insert(l.Items, i, Entry{Name: c.Name})
		}
		l.Items[i].Status = &c
	}
}

// Names lists the names of the controllers, with those of former releases if asked for.
func (l *List) Names(former bool) []string {
	var names []string
	for _, e := range l.Items {
		names = append(names, e.Name)
		if former {
			names = append(names, e.Aliases...)
		}
	}
	return names
}

// Text writes a table; wide adds what is asked for rarely.
func (l *List) Text(out io.Writer, wide bool, colors terminal.Colors) error {
	head := []string{"NAME", "FORMER NAMES", "DEFAULT", "GATE"}
	if wide {
		head = append(head, "SERVICE ACCOUNT")
	}
	if l.Live {
		head = append(head, "STATE")
	}
	t := table.New(append(head, "WHAT IT DOES")...)
	for _, e := range l.Items {
		row := []string{e.Name, dash(strings.Join(e.Aliases, ", ")), e.defaultText(), dash(e.gateText())}
		if wide {
			row = append(row, dash(e.ServiceAccount))
		}
		if l.Live {
			row = append(row, e.stateText())
		}
		what := e.Description
		if !wide {
			what = FirstSentence(what)
		}
		t.Row(append(row, what)...)
	}
	t.Style = func(row, _ int, _, padded string) string {
		if row == 0 || !l.Items[row-1].Built {
			return colors.Faint(padded)
		}
		return padded
	}
	return t.Write(out)
}

func (e Entry) defaultText() string {
	switch {
	case !e.Built:
		return "not in this build"
	case e.Default:
		return "on"
	}
	return "off"
}

func (e Entry) gateText() string {
	if e.Gate == "" {
		return ""
	}
	return fmt.Sprintf("%s=%t", e.Gate, e.GateDefault)
}

func (e Entry) stateText() string {
	if e.Status == nil {
		return "-"
	}
	return status.State(*e.Status)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// FirstSentence is a text up to the end of its first sentence.
func FirstSentence(text string) string {
	first, _, found := strings.Cut(text, ". ")
	if found {
		first += "."
	}
	return first
}

// JSON writes the list for programs.
func (l *List) JSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(l); err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	return nil
}

// YAML writes what JSON writes as YAML.
func (l *List) YAML(out io.Writer) error {
	data, err := yaml.Marshal(l)
	if err != nil {
		return fmt.Errorf("writing the list: %w", err)
	}
	_, err = out.Write(data)
	return err
}
