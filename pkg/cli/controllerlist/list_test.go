package controllerlist

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/supervisor"
)

func list(t *testing.T) *List {
	t.Helper()
	tree, err := fields.Tree()
	if err != nil {
		t.Fatal(err)
	}
	return New([]controller.Descriptor{
		{Name: "token-cleaner-controller"},
		{Name: "job-controller", Aliases: []string{"job"}, ServiceAccount: "job-controller"},
		{Name: "podgroup-protection-controller", Gate: gates.GenericWorkload},
	}, tree)
}

func entry(t *testing.T, l *List, name string) Entry {
	t.Helper()
	for _, e := range l.Items {
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("%s is not in the list", name)
	return Entry{}
}

func TestTheListIsSorted(t *testing.T) {
	l := list(t)
	if len(l.Items) != 3 {
		t.Errorf("the list has %d controllers, want 3", len(l.Items))
	}
	for i, e := range l.Items[1:] {
		if l.Items[i].Name >= e.Name {
			t.Errorf("%s is listed before %s", l.Items[i].Name, e.Name)
		}
	}
}

func TestEntries(t *testing.T) {
	l := list(t)
	job := entry(t, l, "job-controller")
	if !job.Built || !job.Default || strings.Join(job.Aliases, " ") != "job" || job.Description != "Runs pods to completion." {
		t.Errorf("the entry is %+v", job)
	}
	if gated := entry(t, l, "podgroup-protection-controller"); !gated.Built || gated.Default || gated.GateDefault || gated.Gate != gates.GenericWorkload {
		t.Errorf("the entry is %+v", gated)
	}
	if cleaner := entry(t, l, "token-cleaner-controller"); !cleaner.Built || cleaner.Default {
		t.Errorf("the entry is %+v", cleaner)
	}
}

func TestText(t *testing.T) {
	l := list(t)
	l.AddStatus([]supervisor.Status{{Name: "job-controller", State: supervisor.Waiting, Reason: "no jobs"}, {Name: "a-later-controller", State: supervisor.Running}})
	var out strings.Builder
	if err := l.Text(&out, true, terminal.Colors{}); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.SplitSeq(out.String(), "\n") {
		var cells []string
		for cell := range strings.SplitSeq(line, "  ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				cells = append(cells, cell)
			}
		}
		if len(cells) > 0 {
			rows[cells[0]] = cells[1:]
		}
	}
	for name, want := range map[string]string{
		"NAME":                           "FORMER NAMES|DEFAULT|GATE|SERVICE ACCOUNT|STATE|DESCRIPTION",
		"a-later-controller":             "-|not in this build|-|-|Running",
		"job-controller":                 "job|on|-|job-controller|Waiting (no jobs)|Runs pods to completion.",
		"podgroup-protection-controller": "-|off|GenericWorkload=false|-|-|Protects PodGroups from deletion while they have pods. Needs the feature gate GenericWorkload.",
		"token-cleaner-controller":       "-|off|-|-|-",
	} {
		if got := strings.Join(rows[name], "|"); !strings.HasPrefix(got, want) {
			t.Errorf("the row of %s is %s, want %s", name, got, want)
		}
	}
}

func TestJSONAndYAMLSayTheSame(t *testing.T) {
	l := list(t)
	l.AddStatus([]supervisor.Status{{Name: "job-controller", State: supervisor.Running}})
	var inJSON, inYAML strings.Builder
	if err := report.JSON(&inJSON, l); err != nil {
		t.Fatal(err)
	}
	if err := report.YAML(&inYAML, l); err != nil {
		t.Fatal(err)
	}
	converted, err := yaml.YAMLToJSON([]byte(inYAML.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{inJSON.String(), string(converted)} {
		var got List
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		job := entry(t, &got, "job-controller")
		if got.APIVersion != report.APIVersion || got.Kind != Kind || !got.Live || len(got.Items) != len(l.Items) || job.Status == nil || job.Status.State != supervisor.Running {
			t.Errorf("the list is\n%s", text)
		}
	}
}

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{"": "", "One.": "One.", "One. Two.": "One.", "One 1.36 x": "One 1.36 x"} {
		if got := FirstSentence(text); got != want {
			t.Errorf("FirstSentence(%q) = %q", text, got)
		}
	}
}
