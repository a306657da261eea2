package fields

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

var readTree = sync.OnceValues(Tree)

func tree(t *testing.T) *Field {
	t.Helper()
	tree, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func find(t *testing.T, path string) *Field {
	t.Helper()
	f, err := tree(t).Find(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheTreeIsThatOfTheTypes(t *testing.T) {
	root := tree(t)
	var names []string
	for _, f := range root.Fields[:5] {
		names = append(names, f.Name)
	}
	if want := []string{"kind", "apiVersion", "clientConnection", "leaderElection", "leaderMigration"}; !slices.Equal(names, want) {
		t.Errorf("the first fields are %v, want %v as in the types", names, want)
	}
	block, err := root.Find("controllers")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, f := range block.Fields {
		blocks = append(blocks, f.Name)
	}
	var want []string
	for _, c := range new(v1beta1.Controllers).All() {
		want = append(want, c.Name)
	}
	slices.Sort(blocks)
	slices.Sort(want)
	if !slices.Equal(blocks, want) {
		t.Errorf("the blocks are %v, want %v", blocks, want)
	}
	for _, path := range root.Paths() {
		f, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Path != path || f.Type == "" || (f.Description == "" && path != "kind" && path != "apiVersion") {
			t.Errorf("%s is incomplete: %+v", path, f)
		}
	}
}

func TestFieldsSayWhatTheyMayHold(t *testing.T) {
	tests := []struct{ path, kind, value, allowed string }{
		{"controllers.deployment-controller.concurrentSyncs", "integer", "5", "1 to 1000"},
		{"leaderElection.leaseDuration", "duration", "15s", "1s to 1h"},
		{"reload.drainTimeout", "duration", "10s", "0s to 10m, where 0s means do not wait"},
		{"logging.format", "string", "text", "text, json"},
		{"logging.options.text.infoBufferSize", "quantity", `"0"`, ""},
		{"emulatedVersion", "string", `"1.36"`, ""},
		{"serving.authorization.alwaysAllowPaths", "list of strings", `["/healthz","/readyz","/livez"]`, ""},
		{"leaderElection.groups", "list of objects", "", ""},
		{"leaderElection.groups[].controllers", "list of strings", "", ""},
		{"clientConnection.useServiceAccountCredentials", "boolean", "false", ""},
		{"featureGates", "object", "", ""},
		{"apiVersion", "string", "", "only config.kcmd.dev/v1beta1"},
	}
	for _, test := range tests {
		f := find(t, test.path)
		value := ""
		if f.Default != nil {
			value = Format(f.Default)
		}
		if f.Type != test.kind || value != test.value || (test.allowed != "" && f.Allowed != test.allowed) {
			t.Errorf("%s: type %q, default %s, allowed %q, want %q, %s, %q", test.path, f.Type, value, f.Allowed, test.kind, test.value, test.allowed)
		}
	}
}

func TestFind(t *testing.T) {
	tests := []struct{ path, want, problem string }{
		{"", "", ""},
		{".leaderElection", "leaderElection", ""},
		{"leaderElection.groups[0].name", "leaderElection.groups[].name", ""},
		{"leaderElection.groups.name", "leaderElection.groups[].name", ""},
		{"controllers.podgc.enabled", "controllers.pod-garbage-collector-controller.enabled", ""},
		{"leaderElections", "", `there is no field "leaderElections", did you mean leaderElection?`},
		{"leaderElection.leaseduration", "", `there is no field "leaseduration" in leaderElection, did you mean leaderElection.leaseDuration?`},
		{"controllers.deploymnt", "", `there is no field "deploymnt" in controllers, did you mean controllers.deployment-controller?`},
		{"bindAddress", "", `there is no field "bindAddress", did you mean serving.bindAddress?`},
		{"resync.x", "", `there is no field "x" in resync, there are: minPeriod`},
		{"featureGates.Bogus", "", fmt.Sprintf("there is no field \"Bogus\" in featureGates, 'config explain featureGates' lists its %d fields", len(gates.All()))},
		{"featureGates.JobManagdBy", "", `there is no field "JobManagdBy" in featureGates, did you mean featureGates.JobManagedBy?`},
		{"featureGates.podreplacement", "", `there is no field "podreplacement" in featureGates, did you mean featureGates.JobPodReplacementPolicy?`},
		{"controllers.x", "", fmt.Sprintf("there is no field \"x\" in controllers, 'config explain controllers' lists its %d fields", len(registry.Controllers()))},
		{"resync.minPeriod.x", "", `there is no field "x" in resync.minPeriod, which is not a block`},
	}
	for _, test := range tests {
		f, err := tree(t).Find(test.path)
		switch {
		case err != nil && err.Error() != test.problem:
			t.Errorf("%q: %v, want %q", test.path, err, test.problem)
		case err == nil && (f.Path != test.want || test.problem != ""):
			t.Errorf("%q is %q, want %q, %s", test.path, f.Path, test.want, test.problem)
		}
	}
}

// subjects are three controllers that read a file. One reads its workers, a gate and a range besides, one the range, and
// needs a gate.
func subjects() []plan.Subject {
	name := func(name string, value func(*v1beta1.KubeControllerManagerConfiguration) any) plan.Subject {
		return plan.Subject{Name: name, Value: value,
			Enabled: func(c *v1beta1.KubeControllerManagerConfiguration) (bool, string) {
				return c.ControllerEnabled(name), "disabled"
			}}
	}
	ranges := func(c *v1beta1.KubeControllerManagerConfiguration) string {
		return strings.Join(c.Networking.ServiceCIDRs, ",")
	}
	gated := name("podgroup-protection-controller", func(c *v1beta1.KubeControllerManagerConfiguration) any {
		return [2]any{ranges(c), c.ServiceAccounts.RootCAFile}
	})
	gated.Enabled = func(c *v1beta1.KubeControllerManagerConfiguration) (bool, string) {
		return gates.Enabled(c, gates.GenericWorkload), "needs a gate"
	}
	return []plan.Subject{
		name("deployment-controller", func(c *v1beta1.KubeControllerManagerConfiguration) any {
			terminating := gates.Enabled(c, gates.DeploymentReplicaSetTerminatingReplicas)
			return [4]any{*c.Controllers.Deployment.ConcurrentSyncs, terminating, c.ServiceAccounts.RootCAFile, ranges(c)}
		}),
		gated,
		name("replicaset-controller", func(c *v1beta1.KubeControllerManagerConfiguration) any { return c.ServiceAccounts.RootCAFile }),
	}
}

// What a change does is what the Plan says, not what a description says.
func TestEffect(t *testing.T) {
	tests := []struct{ path, want string }{
		{"controllers.deployment-controller.concurrentSyncs", "restarts that controller"},
		{"controllers.deployment-controller.enabled", "starts or stops that controller"},
		{"controllerDefaults.enabled", "starts or stops the controllers that inherit it"},
		{"featureGates." + gates.DeploymentReplicaSetTerminatingReplicas, "restarts deployment-controller"},
		{"clientConnection.kubeconfig", "rebuilds the clients and restarts every controller"},
		{"clientConnection.qps", "applies in place"},
		{"logging.vmodule[].verbosity", "applies in place"},
		{"reload", "applies in place"},
		{"serviceAccounts.rootCAFile", "restarts every controller"},
		// One of the two that read it needs a gate that is off by default.
		{"networking.serviceCIDRs", "restarts deployment-controller, podgroup-protection-controller"},
		{"featureGates." + gates.GenericWorkload, "starts or stops podgroup-protection-controller"},
		{"emulatedVersion", "starts, stops or restarts the controllers for which a gate changes; with the gate CoordinatedLeaderElection, " +
			"restarts every controller under the main lease"},
		{"featureGates.CoordinatedLeaderElection", "restarts every controller under the main lease"},
		{"minCompatibilityVersion", "applies in place"},
		{"leaderElection.groups", "restarts the controllers whose lease changes"},
		{"leaderElection.groups[].name", "restarts the controllers whose lease changes"},
		{"leaderMigration", "restarts the controllers whose lease changes, starts or stops those that change the component"},
		{"controllers.node-route-controller.enabled", Nothing},
		{"controllers.node-route-controller", Nothing},
		{"clientConnection", ""},
		{"kind", ""},
		{"", ""},
	}
	for _, test := range tests {
		got, err := find(t, test.path).Effect(subjects())
		if err != nil || got != test.want {
			t.Errorf("a change of %s %q (%v), want %q", test.path, got, err, test.want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{"5m", "5m"}, {"1.36", `"1.36"`}, {"", `""`}, {"true", `"true"`}, {"On", `"On"`}, {"a: b", `"a: b"`}, {"-x", `"-x"`},
		{"::", `"::"`}, {1.5, "1.5"}, {true, "true"}, {[]any{"a"}, `["a"]`}, {"null", `"null"`},
		{"a\nb\x1b\u202e", `"a\nb\x1b\u202e"`}, {"grün", "grün"},
		{"0x1f", `"0x1f"`}, {"0b1", `"0b1"`}, {"1_0", `"1_0"`}, {".5", `".5"`}, {"<<", `"\u003c\u003c"`}, {"?", `"?"`}, {"1h", "1h"}, {"a-1", "a-1"},
	} {
		if got := Format(test.value); got != test.want {
			t.Errorf("Format(%#v) = %s, want %s", test.value, got, test.want)
		}
	}
}

func TestEveryFieldCanBeChanged(t *testing.T) {
	root, base := tree(t), v1beta1.NewDefault()
	for _, path := range root.Paths() {
		f, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Fixed || len(f.Fields) > 0 || strings.Contains(path, "[]") {
			continue
		}
		values := f.schema.values()
		if len(values) == 0 {
			t.Errorf("%s has the type %v, of which no value is known", path, f.schema.Type)
			continue
		}
		if _, err := with(base, strings.Split(path, "."), values[0]); err != nil {
			t.Errorf("%s cannot be %v: %v", path, values[0], err)
		}
	}
}
