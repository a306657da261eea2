package effective

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/inputs"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
)

const head = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

func load(t *testing.T, name, text string) Loaded {
	t.Helper()
	found := inputs.Finder{Read: func(string) ([]byte, error) { return []byte(text), nil }}.Find(name)
	if len(found.Inputs) != 1 {
		t.Fatalf("%s leads to %+v", name, found)
	}
	document, problems := found.Inputs[0].Load()
	if document == nil {
		t.Fatal(problems)
	}
	return Loaded{Input: found.Inputs[0], Document: document}
}

var subjects = []plan.Subject{{
	Name: "job-controller",
	Enabled: func(c *v1beta1.KubeControllerManagerConfiguration) (bool, string) {
		return c.ControllerEnabled("job-controller"), "disabled in the configuration"
	},
	Value: func(*v1beta1.KubeControllerManagerConfiguration) any { return 0 },
}}

var tree = sync.OnceValue(func() *fields.Field {
	tree, err := fields.Tree()
	if err != nil {
		panic(err)
	}
	return tree
})

func view(t *testing.T, l Loaded) (*View, string) {
	t.Helper()
	v, err := NewView(l, tree(), subjects)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := v.Text(&out, terminal.Colors{}); err != nil {
		t.Fatal(err)
	}
	return v, out.String()
}

func TestOrigins(t *testing.T) {
	const anchors = head + `leaderElection:
  leaseDuration: &lease 30s
  groups:
  - name: a
    controllers: [job-controller]
controllers:
  replicaset-controller: &common
    concurrentSyncs: 7
    resyncPeriod: *lease
  deployment-controller:
    <<: *common
    resyncPeriod: 1h
`
	const upstream = "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n" +
		"generic: {leaderElection: {leaseDuration: 40s}}\n"
	const manifest = "kind: ConfigMap\napiVersion: v1\ndata:\n  c.yaml: |\n" +
		"    apiVersion: config.kcmd.dev/v1beta1\n    kind: KubeControllerManagerConfiguration\n    logging: {verbosity: 2}\n"
	tests := []struct {
		name, text, path string
		want             Origin
		words            string
	}{
		{"set", anchors, "leaderElection.leaseDuration", Origin{From: File, Line: 4, Column: 18}, "line 4"},
		{"default", anchors, "leaderElection.retryPeriod", Origin{From: Default}, "default"},
		{"in a list", anchors, "leaderElection.groups[0].name", Origin{From: File, Line: 6, Column: 11}, "line 6"},
		{"alias", anchors, "controllers.replicaset-controller.resyncPeriod", Origin{From: File, Line: 11, Column: 19, Anchor: 4}, "line 11, anchor on line 4"},
		{"merged", anchors, "controllers.deployment-controller.concurrentSyncs", Origin{From: File, Line: 10, Column: 22}, "line 10"},
		{"set beside a merge", anchors, "controllers.deployment-controller.resyncPeriod", Origin{From: File, Line: 14, Column: 19}, "line 14"},
		{
			"converted", upstream, "leaderElection.leaseDuration",
			Origin{From: File, Line: 3, Column: 43, Field: "Generic.LeaderElection.leaseDuration"}, "line 3, Generic.LeaderElection.leaseDuration",
		},
		{
			"upstream's default", upstream, "leaderElection.renewDeadline",
			Origin{From: Upstream, Field: "Generic.LeaderElection.renewDeadline"}, "default of upstream, Generic.LeaderElection.renewDeadline",
		},
		{"unknown to upstream", upstream, "reload.settleTime", Origin{From: Default}, "default"},
		{"in a ConfigMap", manifest, "logging.verbosity", Origin{From: File, Line: 7, Column: 26}, "line 7"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v, _ := view(t, load(t, "c.yaml", test.text))
			got := v.Origins[test.path]
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the origin differs (-want +got):\n%s", diff)
			}
			if got.String() != test.words {
				t.Errorf("the origin reads %q, want %q", got, test.words)
			}
		})
	}
}

func TestTextHasTheOriginOfEachValue(t *testing.T) {
	_, text := view(t, load(t, "c.yaml", head+`metrics: {allowListMapping: {"a,b": c}}
featureGates: {AllAlpha: true}
clientConnection: {qps: 20}
leaderElection: {groups: [{name: a, controllers: [job-controller]}, {name: b, controllers: [replicaset-controller]}]}
controllers: {job-controller: {enabled: false}}
`))
	lines := map[string]bool{}
	for line := range strings.Lines(text) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"apiVersion: config.kcmd.dev/v1beta1 # line 1",
		"qps: 20 # line 5",
		"# burst: 40 (twice clientConnection.qps)",
		"leaseDuration: 15s # default",
		"- name: a # line 6",
		"controllers: [job-controller] # line 6",
		`"a,b": c # line 3`,
		"AllAlpha: true # line 4",
		"# GenericWorkload: true (featureGates.AllAlpha)",
		"# JobManagedBy: true (default in 1.36, GA)",
		"enabled: false # line 7",
		"# does not run: disabled in the configuration",
		"# does not run: not part of this build",
		"# enabled: true (controllerDefaults.enabled)",
		"# enabled: false (off by default)",
		"# resyncPeriod: 12h (resync.minPeriod)",
	} {
		if !lines[want] {
			t.Errorf("no line is %q in\n%s", want, text)
		}
	}
}

// The text of a View is a configuration with the same meaning, whatever the file looks like.
func TestTextMeansTheSame(t *testing.T) {
	files, err := filepath.Glob("../../config/testdata/valid/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, samples...)
	if len(files) < 15 {
		t.Fatalf("only %d configurations", len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v, text := view(t, load(t, "c.yaml", string(data)))
		again, err := config.Load("text", []byte(text))
		if err != nil {
			t.Errorf("%s: %v in\n%s", file, err, text)
			continue
		}
		if hash, err := config.Hash(again.Config); err != nil || hash != v.Hash {
			t.Errorf("%s: the hash of the text is %s (%v), want %s:\n%s", file, hash, err, v.Hash, text)
		}
		for path, origin := range v.Origins {
			if origin.From == File && (origin.Line < 1 || origin.Column < 1) {
				t.Errorf("%s: the origin of %s is %+v", file, path, origin)
			}
		}
	}
}

func TestDiff(t *testing.T) {
	before := load(t, "a.yaml", head+"logging: {verbosity: 2}\nresync: {minPeriod: 12h}\nclientConnection: {server: 'https://a'}\n")
	after := load(t, "b.yaml", head+"# other order, and a default that is written out\nleaderElection: {leaseDuration: 15s, groups: [{name: g, controllers: [job-controller]}]}\nlogging: {verbosity: 4}\n")
	d := NewDiff(before, after)
	var out bytes.Buffer
	if err := d.Text(&out, terminal.Colors{}); err != nil {
		t.Fatal(err)
	}
	const want = `clientConnection.server: https://a → (not set)  (line 5 → default)
leaderElection.groups: (not set) → [{"controllers":["job-controller"],"name":"g"}]  (default → line 4)
logging.verbosity: 2 → 4  (line 3 → line 5)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the difference reads otherwise (-want +got):\n%s", diff)
	}
	if d.Empty || d.Old != "a.yaml" || d.New != "b.yaml" || len(d.Changes) != 3 {
		t.Errorf("the difference is %+v", d)
	}
	same := NewDiff(before, before)
	out.Reset()
	if err := same.Text(&out, terminal.Colors{}); err != nil || !same.Empty || out.String() != "no changes\n" {
		t.Errorf("%+v reads %q (%v), want no changes", same, out.String(), err)
	}
}
