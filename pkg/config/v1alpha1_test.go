package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
)

const v1alpha1Header = "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"

// errorsOf are what Load reports, without warnings: those depend on what this build has.
func errorsOf(t *testing.T, text string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(problemsOf(t, text)) {
		if !strings.Contains(line, " warning: ") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

func TestLoadReportsMistakesInFilesOfUpstreamWhereTheyAre(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"version", "apiVersion: kubecontrollermanager.config.k8s.io/v1\nkind: KubeControllerManagerConfiguration\n",
			`f.yaml:1:13: apiVersion: unknown value "kubecontrollermanager.config.k8s.io/v1", did you mean "kubecontrollermanager.config.k8s.io/v1alpha1"?`},
		{"no kind", "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\n", `f.yaml:1:1: kind: is missing: must be "KubeControllerManagerConfiguration"`},
		{"kind in an answer of /configz", "kubecontrollermanager.config.k8s.io: {kind: Pod}\n",
			`f.yaml:1:45: kind: must be "KubeControllerManagerConfiguration", not "Pod"`},
		{"kind", "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: Pod\n",
			`f.yaml:2:7: kind: must be "KubeControllerManagerConfiguration", not "Pod"`},
		{"unknown field", v1alpha1Header + "JobController: {ConcurentJobSyncs: 3}\n",
			`f.yaml:3:17: JobController.ConcurentJobSyncs: unknown field, did you mean "ConcurrentJobSyncs"?`},
		{"wrong letter case", v1alpha1Header + "jobcontroller: {}\n",
			`f.yaml:3:1: jobcontroller: unknown field, did you mean "JobController"?`},
		{"duplicate", v1alpha1Header + "JobController: {}\nJobController: {}\n", `f.yaml:4:1: JobController: duplicate key, first set on line 3`},
		{"duplicate in two spellings", v1alpha1Header + "JobController: {}\njobController: {}\n", `f.yaml:4:1: JobController: duplicate key, first set on line 3`},
		{"wrong type", v1alpha1Header + "jobController:\n  concurrentJobSyncs: many\n",
			`f.yaml:4:23: JobController.ConcurrentJobSyncs: must be a whole number, not the string "many"`},
		{"fields in place of a duration", v1alpha1Header + "Generic: {MinResyncPeriod: {hours: 12}}\n",
			`f.yaml:3:28: Generic.MinResyncPeriod: must be a duration such as 500ms, 10s, 5m or 1h30m, not a mapping`},
		{"out of our range", v1alpha1Header + "DeploymentController:\n  ConcurrentDeploymentSyncs: 0\n",
			`f.yaml:4:30: DeploymentController.ConcurrentDeploymentSyncs: must be 1 to 1000, not 0 (upstream accepts any number; with 0 it starts no workers, and the controller does nothing)`},
		{"across fields", v1alpha1Header + "Generic:\n  LeaderElection:\n    leaseDuration: 3s\n",
			`f.yaml:5:20: Generic.LeaderElection.leaseDuration: leaseDuration (3s) must be more than renewDeadline (10s) (upstream panics if the durations contradict each other)`},
		{"not across fields that could not be read", v1alpha1Header + "Generic:\n  LeaderElection:\n    leaseDuration: 3\n    renewDeadline: 20s\n",
			`f.yaml:5:20: Generic.LeaderElection.leaseDuration: must be a duration such as 500ms, 10s, 5m or 1h30m, not the number 3: did you mean 3s?`},
		{"not what lacks a field that could not be read", v1alpha1Header + "Generic: {LeaderMigration: {leaderName: x, controllerLeaders: [{name: service-controller, component: y}]}}\n",
			`f.yaml:3:102: Generic.LeaderMigration.controllerLeaders[0].component: must be a string, not the boolean y: write "y"`},
		{"element of a list", v1alpha1Header + "Generic:\n  Controllers:\n  - \"*\"\n  - deploy\n",
			`f.yaml:6:5: Generic.Controllers[1]: "deploy" is not in the list of known controllers`},
		{"element of a list that we split", v1alpha1Header + "KubeCloudShared: {ClusterCIDR: 10.0.0.0/99}\n",
			`f.yaml:3:32: KubeCloudShared.ClusterCIDR: must be a range in CIDR notation such as 10.244.0.0/16 or fd00:10:244::/56, not "10.0.0.0/99"`},
		{"all at once", v1alpha1Header + "Foo: 1\nJobController: {ConcurrentJobSyncs: 0}\nGeneric: {MinResyncPeriod: 1ms}\n",
			"f.yaml:3:1: Foo: unknown field, allowed: " + strings.Join(upstreamFields(), ", ") +
				"\nf.yaml:4:37: JobController.ConcurrentJobSyncs: must be 1 to 1000, not 0 (upstream rejects 0 too)" +
				"\nf.yaml:5:28: Generic.MinResyncPeriod: must be 0s (never), or 1s or more, not 1ms (upstream resyncs that often)"},
		{"what cannot be converted, and the rest", v1alpha1Header + "Generic: {Controllers: ['*', deploy], MinResyncPeriod: 1ms, ClientConnection: {qps: 5, burst: -1}}\n" +
			"KubeCloudShared: {ClusterCIDR: '10.0.0.0/16,fd00::/48', AllocateNodeCIDRs: true}\nNodeIPAMController: {NodeCIDRMaskSize: 24}\n",
			"f.yaml:3:30: Generic.Controllers[1]: \"deploy\" is not in the list of known controllers" +
				"\nf.yaml:3:56: Generic.MinResyncPeriod: must be 0s (never), or 1s or more, not 1ms (upstream resyncs that often)" +
				"\nf.yaml:3:95: Generic.ClientConnection.burst: must be 1 or more with a qps, not -1: upstream fails to build its clients" +
				"\nf.yaml:5:40: NodeIPAMController.NodeCIDRMaskSize: must be a size for each family with two ranges in KubeCloudShared.ClusterCIDR: upstream rejects it too"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := errorsOf(t, test.text); got != test.want {
				t.Errorf("Load reports\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func upstreamFields() []string {
	names := []string{"apiVersion", "kind"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.KubeControllerManagerConfiguration]()) {
		if len(f.Index) == 1 && !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestLoadReadsUpstreamInEverySpelling(t *testing.T) {
	want := v1beta1.NewDefault()
	workers := int32(7)
	want.Controllers.HorizontalPodAutoscaler.ConcurrentSyncs = &workers
	for name, text := range map[string]string{
		"as /configz prints it":        v1alpha1Header + "HPAController: {ConcurrentHorizontalPodAutoscalerSyncs: 7}\n",
		"by the conventions":           v1alpha1Header + "hpaController: {concurrentHorizontalPodAutoscalerSyncs: 7}\n",
		"as /configz answers":          `{"kubecontrollermanager.config.k8s.io": {"HPAController": {"ConcurrentHorizontalPodAutoscalerSyncs": 7}}}`,
		"with fields that are not set": v1alpha1Header + "Generic: {LeaderMigration: {controllerLeaders: null}, Debugging: }\nHPAController: {ConcurrentHorizontalPodAutoscalerSyncs: 7}\n",
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := Load("f.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, doc.Config); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadReadsWhatOurOwnConfigzAnswers(t *testing.T) {
	const text = `{"config.kcmd.dev": {"apiVersion": "config.kcmd.dev/v1beta1", "kind": "KubeControllerManagerConfiguration", "serving": {"port": 1}},
		"kubecontrollermanager.config.k8s.io": {}}`
	doc, err := Load("f.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if *doc.Config.Serving.Port != 1 {
		t.Errorf("the port is %d", *doc.Config.Serving.Port)
	}
	if got, want := doc.Position("serving.port"), (problem.Position{Line: 1, Column: 129}); got != want {
		t.Errorf("it is at %v, want %v", got, want)
	}
}

func TestLimitsThatNobodySetAreNone(t *testing.T) {
	for text, want := range map[string][2]float32{
		"{}":                  {0, 0},
		"{qps: 20}":           {20, 30},
		"{burst: 50}":         {20, 50},
		"{qps: 20,burst: 30}": {20, 30},
		"{qps: -1}":           {0, 0},
	} {
		doc, err := Load("f.yaml", []byte(v1alpha1Header+"Generic: {ClientConnection: "+text+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if c := doc.Config.ClientConnection; *c.QPS != want[0] || float32(*c.Burst) != want[1] {
			t.Errorf("%s: qps %v, burst %v, want %v", text, *c.QPS, *c.Burst, want)
		}
	}
}

// A list in a file replaces the default; nothing of the default shows through.
func TestListsOfUpstreamAreReplaced(t *testing.T) {
	doc, err := Load("f.yaml", []byte(v1alpha1Header+"GarbageCollectorController: {GCIgnoredResources: [{Group: a, Resource: b}, {Resource: c}]}\nGeneric: {Controllers: []}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []v1beta1.GroupResource{{Group: "a", Resource: "b"}, {Resource: "c"}}
	if diff := cmp.Diff(want, doc.Config.Controllers.GarbageCollector.IgnoredResources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if doc.Config.ControllerEnabled("deployment-controller") {
		t.Error("an empty list of controllers selects one")
	}
}

func TestPositionsOfAConvertedDocumentPointIntoTheFile(t *testing.T) {
	doc, err := Load("f.yaml", []byte(v1alpha1Header+"Generic:\n  ClientConnection:\n    kubeconfig: /nowhere/at/all\nSAController: {RootCAFile: /nor/here}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := doc.Position("clientConnection.kubeconfig"), (problem.Position{Line: 5, Column: 17}); got != want {
		t.Errorf("kubeconfig is at %v, want %v", got, want)
	}
	var lines []int
	for _, problem := range doc.CheckFiles() {
		lines = append(lines, problem.Line)
	}
	if diff := cmp.Diff([]int{5, 6}, lines); diff != "" {
		t.Errorf("files are missing in the lines (-want +got):\n%s", diff)
	}
}

func TestNotesOfTheConversionAreWarnings(t *testing.T) {
	doc, err := Load("f.yaml", []byte(v1alpha1Header+"KubeCloudShared:\n  ExternalCloudVolumePlugin: blue\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "f.yaml:4:30: warning: KubeCloudShared.ExternalCloudVolumePlugin: blue is left out: has no effect in Kubernetes 1.36"
	if !strings.Contains(doc.Warnings.Error(), want) {
		t.Errorf("warnings\n%s\nwant also\n%s", doc.Warnings.Error(), want)
	}
}

func TestConvertedConfigurationIsWhatTheConversionMade(t *testing.T) {
	in := conversion.NewDefault()
	in.Generic.Controllers = []string{"-job-controller", "*"}
	in.KubeCloudShared.ClusterCIDR = "10.0.0.0/16"
	in.NodeLifecycleController.UnhealthyZoneThreshold = 0.7
	result, err := conversion.ToHub(in)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{conversion.Group: in})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := LoadV1alpha1("configz", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(result.Config, doc.Config); diff != "" {
		t.Errorf("checking it changed it (-before +after):\n%s", diff)
	}
}
