package controllerlist

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/supervisor"
)

func list(t *testing.T) *List {
	t.Helper()
	tree, err := fields.Tree()
	if err != nil {
		t.Fatal(err)
	}
	return New([]controller.Descriptor{
		{Name: "job-controller", ServiceAccount: "job-controller", Doc: "not shown"},
		{Name: "podgroup-protection-controller", Gate: config.GenericWorkload},
		{Name: "token-cleaner-controller"},
		{Name: "very-new-controller", Doc: "Is new. Really."},
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

func TestTheListHasAllControllers(t *testing.T) {
	l := list(t)
	for _, known := range config.KnownControllers() {
		entry(t, l, known.Name)
	}
	for _, c := range new(v1beta1.Controllers).All() {
		if e := entry(t, l, c.Name); e.Description == "" {
			t.Errorf("%s has no description", c.Name)
		}
	}
	for i, e := range l.Items[1:] {
		if l.Items[i].Name >= e.Name {
			t.Errorf("%s is listed before %s", l.Items[i].Name, e.Name)
		}
	}
	job := entry(t, l, "job-controller")
	if !job.Built || !job.Default || strings.Join(job.Aliases, " ") != "job" || job.Description != "Runs pods to completion." {
		t.Errorf("the entry is %+v", job)
	}
	if gated := entry(t, l, "podgroup-protection-controller"); !gated.Built || gated.Default || gated.GateDefault || gated.Gate != config.GenericWorkload {
		t.Errorf("the entry is %+v", gated)
	}
	if cleaner := entry(t, l, "token-cleaner-controller"); !cleaner.Built || cleaner.Default {
		t.Errorf("the entry is %+v", cleaner)
	}
	if ttl := entry(t, l, "ttl-controller"); ttl.Built || ttl.Default {
		t.Errorf("the entry is %+v", ttl)
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
		"NAME":                           "FORMER NAMES|DEFAULT|GATE|SERVICE ACCOUNT|STATE|WHAT IT DOES",
		"a-later-controller":             "-|not in this build|-|-|Running",
		"job-controller":                 "job|on|-|job-controller|Waiting (no jobs)|Runs pods to completion.",
		"podgroup-protection-controller": "-|off|GenericWorkload=false|-|-|Keeps PodGroups while they have pods. Needs the feature gate GenericWorkload.",
		"ttl-controller":                 "ttl|not in this build|-|-|-|Tells kubelets",
		"very-new-controller":            "-|off|-|-|-|Is new. Really.",
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
	if err := l.JSON(&inJSON); err != nil {
		t.Fatal(err)
	}
	if err := l.YAML(&inYAML); err != nil {
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
		if got.APIVersion != APIVersion || got.Kind != Kind || !got.Live || len(got.Items) != len(l.Items) || job.Status == nil || job.Status.State != supervisor.Running {
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
