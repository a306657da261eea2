// Package controllerlist lists the controllers: the purpose of each, whether it runs by
// default, and its state in a running process.
//
// Descriptions are the doc comments of the blocks; everything else is in the descriptors.
package controllerlist

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/cli/status"
	"kcmd.dev/pkg/cli/table"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Kind marks a List in JSON and YAML.
const Kind = "ControllerList"

// List is all controllers, sorted by name.
type List struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Items      []Entry `json:"items"`
	// Live is set if the entries have the state of a running process.
	Live bool `json:"live"`
}

// Entry is one controller.
type Entry struct {
	Name string `json:"name"`
	// Aliases are the names under which older releases knew it.
	Aliases []string `json:"aliases,omitempty"`
	// Built reports whether this build has it. A running process of another build may have others.
	Built bool `json:"built"`
	// Default reports whether it runs with a configuration that does not mention it.
	Default bool `json:"default"`
	// Gate is the feature gate without which it does not run, GateDefault the default of it.
	Gate        string `json:"gate,omitempty"`
	GateDefault bool   `json:"gateDefault,omitempty"`
	// ServiceAccount is the one in kube-system that it acts as.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Description is what it is for.
	Description string `json:"description,omitempty"`
	// Status is that of the controller in a running process.
	Status *supervisor.Status `json:"status,omitempty"`
}

// New makes the list of a build with these controllers.
func New(descriptors []controller.Descriptor, tree *fields.Field) *List {
	list := &List{APIVersion: report.APIVersion, Kind: Kind, Items: []Entry{}}
	defaults := v1beta1.NewDefault()
	for _, d := range descriptors {
		e := Entry{Name: d.Name, Aliases: d.Aliases, Built: true, Gate: d.Gate, ServiceAccount: d.ServiceAccount}
		e.Default, _ = d.Enabled(defaults)
		e.GateDefault = d.Gate != "" && gates.Enabled(defaults, d.Gate)
		if block, err := tree.Find("controllers." + d.Name); err == nil {
			e.Description = block.Description
		}
		list.Items = append(list.Items, e)
	}
	slices.SortFunc(list.Items, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// AddStatus adds the state of a running process. It may have controllers that this build
// does not have.
func (l *List) AddStatus(controllers []supervisor.Status) {
	l.Live = true
	for _, c := range controllers {
		i, found := slices.BinarySearchFunc(l.Items, c.Name, func(e Entry, name string) int {
			return cmp.Compare(e.Name, name)
		})
		if !found {
			l.Items = slices.Insert(l.Items, i, Entry{Name: c.Name})
		}
		l.Items[i].Status = &c
	}
}

// Names lists the names of the controllers.
func (l *List) Names() []string {
	var names []string
	for _, e := range l.Items {
		names = append(names, e.Name)
	}
	return names
}

// NamesAndAliases lists the names of the controllers, each followed by those of former releases.
func (l *List) NamesAndAliases() []string {
	var names []string
	for _, e := range l.Items {
		names = append(append(names, e.Name), e.Aliases...)
	}
	return names
}

// Text writes a table; wide adds what is rarely needed.
func (l *List) Text(out io.Writer, wide bool, colors terminal.Colors) error {
	head := []string{"NAME", "FORMER NAMES", "DEFAULT", "GATE"}
	if wide {
		head = append(head, "SERVICE ACCOUNT")
	}
	if l.Live {
		head = append(head, "STATE")
	}
	t := table.New(append(head, "DESCRIPTION")...)
	for _, e := range l.Items {
		row := []string{e.Name, cmp.Or(strings.Join(e.Aliases, ", "), "-"), e.defaultText(), cmp.Or(e.gateText(), "-")}
		if wide {
			row = append(row, cmp.Or(e.ServiceAccount, "-"))
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

// FirstSentence returns a text up to the end of its first sentence.
func FirstSentence(text string) string {
	first, _, found := strings.Cut(text, ". ")
	if found {
		first += "."
	}
	return first
}
