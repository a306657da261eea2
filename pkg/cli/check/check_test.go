package check

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/report"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

const head = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

var files = map[string]string{
	"good.yaml":    head,
	"more.yaml":    head + "controllers: {deployment-controller: {concurrentSyncs: 20}}\nlogging: {verbosity: 2}\n",
	"warning.yaml": head + "featureGates:\n  LogarithmicScaleDown: true\n",
	"bad.yaml":     head + "resync: {minPeriod: 3ms}\n\"100%, a:b\\nc\": 1\n",
	"map.yaml": "kind: Pod\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {namespace: kube-system, name: kcm}\ndata:\n  c.yaml: |\n" +
		"    apiVersion: config.kcmd.dev/v1beta1\n    kind: KubeControllerManagerConfiguration\n    resync: {minPeriod: 3ms}\n",
	"two.yaml":   head + "---\n" + head,
	"other.yaml": "kind: Pod\n---\nkind: Pod\n",
}

func checker(failOn problem.Severity) Checker {
	subject := plan.Subject{
		Name:    "deployment-controller",
		Enabled: func(*v1beta1.KubeControllerManagerConfiguration) (bool, string) { return true, "" },
		Value: func(c *v1beta1.KubeControllerManagerConfiguration) any {
			return *c.Controllers.Deployment.ConcurrentSyncs
		},
	}
	return Checker{
		Finder: inputs.Finder{Read: func(name string) ([]byte, error) {
			content, ok := files[name]
			if !ok {
				return nil, &os.PathError{Op: "read", Path: name, Err: os.ErrNotExist}
			}
			return []byte(content), nil
		}},
		Subjects: []plan.Subject{subject}, FailOn: failOn,
	}
}

func text(r *Report, when terminal.When) (string, string) {
	var out, problems bytes.Buffer
	r.Text(&out, &problems, terminal.ColorsFor(when, nil, ""))
	return out.String(), problems.String()
}

const unknownKey = `bad.yaml:4:1: ["100%, a:b\nc"]: unknown field, allowed: `

func TestTextReport(t *testing.T) {
	tests := []struct {
		name          string
		failOn        problem.Severity
		names         []string
		valid         bool
		out, problems string // problems are compared as prefixes, line by line
	}{
		{"valid", "", []string{"good.yaml", "more.yaml"}, true, "good.yaml is valid\nmore.yaml is valid\n", ""},
		{"a warning", "", []string{"warning.yaml"}, true, "warning.yaml is valid\n", "warning.yaml:4:3: warning: featureGates.LogarithmicScaleDown: \n"},
		{"a warning fails", problem.SeverityWarning, []string{"warning.yaml"}, false, "", "warning.yaml:4:3: warning: featureGates.LogarithmicScaleDown: \n"},
		{"errors", "", []string{"bad.yaml", "good.yaml"}, false, "good.yaml is valid\n", "bad.yaml:3:21: resync.minPeriod: \n" + unknownKey + "\n"},
		{"missing", "", []string{"none.yaml"}, false, "", "none.yaml: file does not exist\n"},
		{"in a ConfigMap", "", []string{"map.yaml"}, false, "1 other document was skipped\n", "map.yaml:10:25: resync.minPeriod: \n"},
		{"nothing", "", []string{"other.yaml", "good.yaml"}, false, "good.yaml is valid\n2 other documents were skipped\n",
			"other.yaml: contains no configuration: its 2 documents have other kinds\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := checker(test.failOn).Check(test.names)
			out, problems := text(r, terminal.Never)
			if r.Valid != test.valid || out != test.out {
				t.Errorf("valid %t, output\n%s\nwant %t\n%s", r.Valid, out, test.valid, test.out)
			}
			got, want := strings.Split(problems, "\n"), strings.Split(test.problems, "\n")
			if len(got) != len(want) {
				t.Fatalf("problems are\n%s\nwant\n%s", problems, test.problems)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("a problem is\n%s\nwant\n%s", got[i], want[i])
				}
			}
		})
	}
}

// Colours change nothing of what is said.
func TestColors(t *testing.T) {
	for _, report := range []*Report{checker("").Check([]string{"bad.yaml", "warning.yaml", "none.yaml", "map.yaml"}), checker("").Compare("more.yaml", Against{Name: "good.yaml"})} {
		out, problems := text(report, terminal.Never)
		redOut, redProblems := text(report, terminal.Always)
		strip := strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "")
		if redOut+redProblems == out+problems || strip.Replace(redOut) != out || strip.Replace(redProblems) != problems {
			t.Errorf("in colours it is\n%q\n%q\nwithout\n%q\n%q", redOut, redProblems, out, problems)
		}
	}
}

func TestCompare(t *testing.T) {
	const plan = "deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 5 → 20\nin place               logging.verbosity: 0 → 2\n"
	r := checker("").Compare("more.yaml", Against{Name: "good.yaml"})
	if out, problems := text(r, terminal.Never); !r.Valid || out != plan || problems != "" {
		t.Errorf("valid %t, plan\n%s%s\nwant\n%s", r.Valid, out, problems, plan)
	}
	if c := r.Comparison; c.Old != "good.yaml" || c.New != "more.yaml" || c.Empty {
		t.Errorf("the comparison is %+v", c)
	}
	inForce := v1beta1.NewDefault()
	r = checker("").Compare("good.yaml", Against{Name: "https://x", Config: inForce})
	if out, _ := text(r, terminal.Never); !r.Valid || !r.Comparison.Empty || r.Comparison.Old != "https://x" || out != "no changes: 1 controller keeps running\n" {
		t.Errorf("compared with what is in force: %+v", r.Comparison)
	}
	for _, test := range []struct{ old, new, problem string }{
		{"good.yaml", "map.yaml", "map.yaml:10:25: "}, {"none.yaml", "good.yaml", "none.yaml: file does not exist"},
		{"good.yaml", "two.yaml", "two.yaml: only one configuration can be compared, but there are 2: two.yaml: document 1; two.yaml: document 2"},
	} {
		r := checker("").Compare(test.new, Against{Name: test.old})
		if _, problems := text(r, terminal.Never); r.Valid || r.Comparison != nil || !strings.HasPrefix(problems, test.problem) {
			t.Errorf("%s against %s: valid %t, comparison %v, problems\n%s", test.new, test.old, r.Valid, r.Comparison, problems)
		}
	}
}

// An old configuration that is invalid does not keep its repair from being checked.
func TestCompareWithAnInvalidConfiguration(t *testing.T) {
	const note = " is invalid, and no process of this version has it in force: this is the Plan of a change from it without "
	files["mixed.yaml"] = head + "controllers: {deployment-controller: {concurrentSyncs: 7, x: y}}\nresync: {minPeriod: 3ms}\n"
	files["markers.yaml"] = head + "<<<<<<< HEAD\n"
	files["many.yaml"] = head + "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\ng: 1\n"
	tests := []struct {
		name, old, new string
		failOn         problem.Severity
		valid          bool
		plan, note     string
	}{
		{
			"part of it can be used", "mixed.yaml", "more.yaml", "", true,
			"deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 7 → 20\nin place               logging.verbosity: 0 → 2\n",
			"mixed.yaml" + note + "controllers.deployment-controller.x, resync.minPeriod",
		},
		{"it fails nothing", "bad.yaml", "good.yaml", problem.SeverityWarning, true, "no changes: 1 controller keeps running\n", `bad.yaml` + note + `["100%, a:b\nc"], resync.minPeriod`},
		{"many errors", "many.yaml", "good.yaml", "", true, "no changes: 1 controller keeps running\n", "many.yaml" + note + "a, b, c, d, e and 2 other fields"},
		{"nothing of it can be used", "markers.yaml", "good.yaml", "", true, "", "markers.yaml is invalid and nothing in it can be used: there is no Plan"},
		{"both are invalid", "mixed.yaml", "bad.yaml", "", false, "", ""},
		{"a warning of the old one fails nothing", "warning.yaml", "good.yaml", problem.SeverityWarning, true,
			"no effect     featureGates.LogarithmicScaleDown: true → (not set)\n1 controller keeps running\n", ""},
		{"a warning of the new one fails", "mixed.yaml", "warning.yaml", problem.SeverityWarning, false,
			"deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 7 → 5\nno effect              featureGates.LogarithmicScaleDown: (not set) → true\n",
			"mixed.yaml" + note + "controllers.deployment-controller.x, resync.minPeriod"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := checker(test.failOn).Compare(test.new, Against{Name: test.old})
			out, problems := text(r, terminal.Never)
			if r.Valid != test.valid || out != test.plan || r.Note != test.note {
				t.Errorf("valid %t, plan\n%s\nnote %q\nwant valid %t, plan\n%s\nnote %q", r.Valid, out, r.Note, test.valid, test.plan, test.note)
			}
			if test.note != "" && !strings.HasSuffix(problems, "note: "+test.note+"\n") {
				t.Errorf("the problems do not end with the note:\n%s", problems)
			}
			for line := range strings.Lines(problems) {
				if strings.HasPrefix(line, test.old+":") && !strings.Contains(line, ": warning: ") {
					t.Errorf("a problem of the old configuration is no warning: %s", line)
				}
			}
		})
	}
	r := checker("").Compare("good.yaml", Against{Name: "markers.yaml"})
	var annotations bytes.Buffer
	r.GitHub(&annotations)
	if out := annotations.String(); strings.Contains(out, "::error") || !strings.Contains(out, "::notice title=Comparison with an invalid configuration::markers.yaml is invalid") {
		t.Errorf("the annotations are\n%s", out)
	}
}

// The report in JSON is an interface: what is pinned here has to stay.
func TestJSONReport(t *testing.T) {
	const want = `{
  "apiVersion": "cli.kcmd.dev/v1",
  "kind": "CheckReport",
  "valid": false,
  "configurations": [
    {
      "file": "map.yaml",
      "object": "ConfigMap kube-system/kcm",
      "key": "data[c.yaml]",
      "document": 2,
      "valid": false,
      "problems": [
        {
          "file": "map.yaml",
          "line": 10,
          "column": 25,
          "path": "resync.minPeriod",
          "message": "must be 0s (never), or 1s or more, not 3ms",
          "severity": "error"
        }
      ]
    }
  ],
  "problems": [
    {
      "file": "none.yaml",
      "message": "file does not exist",
      "severity": "error"
    }
  ],
  "skipped": 1
}
`
	var out bytes.Buffer
	if err := report.JSON(&out, checker("").Check([]string{"map.yaml", "none.yaml"})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the report differs (-want +got):\n%s", diff)
	}
}

func TestYAMLReportIsThatInJSON(t *testing.T) {
	r := checker("").Compare("more.yaml", Against{Name: "good.yaml"})
	var inJSON, inYAML bytes.Buffer
	if err := report.JSON(&inJSON, r); err != nil {
		t.Fatal(err)
	}
	if err := report.YAML(&inYAML, r); err != nil {
		t.Fatal(err)
	}
	var a, b map[string]any
	if err := json.Unmarshal(inJSON.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(inYAML.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	plan := a["comparison"].(map[string]any)["plan"].(map[string]any)
	if len(plan["controllers"].([]any)) != 1 || len(plan["inPlace"].([]any)) != 1 {
		t.Errorf("the plan is %v", plan)
	}
	document, err := config.Load("more.yaml", []byte(files["more.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	hash, err := config.Hash(document.Config)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Configurations[1].Hash; got != hash {
		t.Errorf("the hash is %q, want %q", got, hash)
	}
}

// GitHub reads one command per line; what a file holds must not add or change one.
func TestGitHubReport(t *testing.T) {
	var out bytes.Buffer
	checker("").Check([]string{"bad.yaml", "warning.yaml", "none.yaml"}).GitHub(&out)
	checker("").Compare("more.yaml", Against{Name: "good.yaml"}).GitHub(&out)
	want := []string{
		"::error file=none.yaml,title=configuration of kube-controller-manager::file does not exist",
		"::error file=bad.yaml,line=3,col=21,title=resync.minPeriod::must be 0s (never), or 1s or more, not 3ms",
		`::error file=bad.yaml,line=4,col=1,title=["100%25%2C a%3Ab\nc"]::unknown field, allowed: `,
		"::warning file=warning.yaml,line=4,col=3,title=featureGates.LogarithmicScaleDown::the gate is ",
		"::notice title=Effect of a change from good.yaml to more.yaml::deployment-controller  restart  " +
			"controllers.deployment-controller.concurrentSyncs: 5 → 20%0Ain place               logging.verbosity: 0 → 2",
		"",
	}
	got := strings.Split(out.String(), "\n")
	if len(got) != len(want) {
		t.Fatalf("the annotations are\n%s", out.String())
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("an annotation is\n%s\nwant\n%s", got[i], want[i])
		}
	}
}

func TestFilesAreCheckedIfAsked(t *testing.T) {
	files["files.yaml"] = head + "clientConnection: {kubeconfig: none.conf}\n"
	t.Cleanup(func() { delete(files, "files.yaml") })
	c := checker("")
	c.Files = true
	r := c.Check([]string{"files.yaml"})
	if _, problems := text(r, terminal.Never); r.Valid || problems != "files.yaml:3:32: clientConnection.kubeconfig: the file none.conf does not exist\n" {
		t.Errorf("valid %t, problems %q", r.Valid, problems)
	}
}

// A process can have a configuration in force of which a file has turned bad since. Pins MGR-248.
func TestAnOldConfigurationWithBadFilesIsComparedAsAWhole(t *testing.T) {
	files["files.yaml"] = head + "clientConnection: {kubeconfig: none.conf}\ncontrollers: {deployment-controller: {concurrentSyncs: 7}}\n"
	t.Cleanup(func() { delete(files, "files.yaml") })
	c := checker("")
	c.Files = true
	r := c.Compare("good.yaml", Against{Name: "files.yaml"})
	out, problems := text(r, terminal.Never)
	if !r.Valid || r.Note != "" || !strings.Contains(out, "controllers.deployment-controller.concurrentSyncs: 7 → 5\n") {
		t.Errorf("valid %t, note %q, plan\n%s", r.Valid, r.Note, out)
	}
	if problems != "files.yaml:3:32: warning: clientConnection.kubeconfig: the file none.conf does not exist\n" {
		t.Errorf("the problems are %q", problems)
	}
}

func TestParseFailOn(t *testing.T) {
	if _, err := ParseFailOn("never"); err == nil || err.Error() != `must be error or warning, not "never"` {
		t.Errorf("error is %v", err)
	}
	if s, err := ParseFailOn("warning"); err != nil || s != problem.SeverityWarning {
		t.Errorf("%q, %v", s, err)
	}
}

// A change to review is that of somebody else: names and values in it neither steer the terminal that shows the report,
// nor add lines to it.
func TestTextCannotSteerATerminal(t *testing.T) {
	const steering = `\e[1A\e[2K\u009b2K\u202e\nevil.yaml is valid`
	files["evil.yaml"] = `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: "a` + steering + `", name: "b` + steering + `"}, data: {"c` +
		steering + `": '{apiVersion: config.kcmd.dev/v1beta1, kind: KubeControllerManagerConfiguration, clientConnection: {kubeconfig: "/etc/k` + steering + `"}}'}}`
	files["evil\x1b[2K\nis valid.yaml"] = head
	defer delete(files, "evil.yaml")
	defer delete(files, "evil\x1b[2K\nis valid.yaml")
	c := checker(problem.SeverityError)
	for name, r := range map[string]*Report{
		"check":           c.Check([]string{"evil.yaml"}),
		"compare":         c.Compare("evil.yaml", Against{Name: "good.yaml"}),
		"compare with it": c.Compare("good.yaml", Against{Name: "evil.yaml"}),
		"name of a file":  c.Check([]string{"evil\x1b[2K\nis valid.yaml"}),
		"missing file":    c.Check([]string{"gone\x1b[2K\nis valid.yaml"}),
	} {
		out, problems := text(r, terminal.Never)
		if all := out + problems; strings.ContainsAny(all, "\x1b\u009b\u202e") || strings.Contains(all, "\nevil.yaml is valid") || strings.Contains(all, "\nis valid") {
			t.Errorf("%s: %q", name, all)
		}
		if name != "missing file" && !r.Valid {
			t.Errorf("%s: %q", name, problems)
		}
	}
}
