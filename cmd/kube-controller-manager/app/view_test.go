package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/cli/effective"
	"kcmd.dev/pkg/config"
)

func TestConfigView(t *testing.T) {
	got := command("config", "view", "testdata/after.yaml")
	if got.code != exitGood || got.stderr != "" || !strings.Contains(got.stdout, "\n  qps: 50 ") || !strings.Contains(got.stdout, "# line 5\n") {
		t.Errorf("%+v", got)
	}
	file := filepath.Join(t.TempDir(), "view.yaml")
	if err := os.WriteFile(file, []byte(got.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	command("config", "diff", "--exit-code", "testdata/after.yaml", file).check(t, outcome{stdout: "no changes\n"})

	data, err := os.ReadFile("testdata/after.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := config.Load("after", data)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := config.Hash(document.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "yaml"} {
		got := command("config", "view", "testdata/after.yaml", "-o", format)
		var view effective.View
		if err := yaml.Unmarshal([]byte(got.stdout), &view); err != nil || got.code != exitGood {
			t.Fatalf("%v, %+v", err, got)
		}
		if view.Hash != hash || *view.Configuration.ClientConnection.QPS != 50 ||
			view.Origins["clientConnection.qps"] != (effective.Origin{From: effective.File, Line: 5, Column: 8}) ||
			view.Origins["clientConnection.burst"] != (effective.Origin{From: effective.Default}) || len(view.Inherited) < 50 ||
			view.NotRunning["replicationcontroller-controller"] == "" {
			t.Errorf("the view is\n%s", got.stdout)
		}
	}
}

// Warnings do not get between the lines of the output.
func TestConfigViewShowsProblems(t *testing.T) {
	if got := command("config", "view", "testdata/warning.yaml"); got.code != exitGood || strings.Contains(got.stdout, "warning:") || !strings.Contains(got.stderr, "warning:") {
		t.Errorf("%+v", got)
	}
	command("config", "view", "testdata/invalid.yaml").check(t, outcome{code: exitFailed, stderr: "Error: " + invalidMessages})
	command("config", "view", "testdata/manifests").check(t, outcome{
		code: exitFailed, stderr: "Error: testdata/manifests contains 2 configurations: view takes one at a time\n",
	})
	if got := command("config", "view", "testdata/manifests/deep/list.json"); got.code != exitGood || !strings.HasPrefix(got.stdout, "# testdata/manifests/deep/list.json: ConfigMap x/good, data[kcm.yaml] as ") {
		t.Errorf("%+v", got)
	}
}

// JSON may escape a slash, which the parser of YAML does not know.
func TestEscapedSlashesInJSON(t *testing.T) {
	dir := t.TempDir()
	plain, manifest := filepath.Join(dir, "plain.json"), filepath.Join(dir, "manifest.json")
	const text = `{"apiVersion": "config.kcmd.dev\/v1beta1", "kind": "KubeControllerManagerConfiguration", "clientConnection": {"kubeconfig": "\/etc\/x"}}`
	inner, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		plain:    text + "\n",
		manifest: `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {"a": "x\/y"}}, "data": {"c.json": ` + string(inner) + `}}`,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := command("check-config", name); got.code != exitGood {
			t.Errorf("%+v", got)
		}
		if got := command("config", "view", name); got.code != exitGood || !strings.Contains(got.stdout, "\n  kubeconfig: /etc/x ") {
			t.Errorf("%+v", got)
		}
	}
	command("config", "convert", plain).check(t, outcome{stdout: text + "\n"})
}

func TestConfigDiff(t *testing.T) {
	const want = `clientConnection.qps: 0 → 50  (default → line 5)
controllers.deployment-controller.concurrentSyncs: 5 → 20  (line 16 → line 17)
controllers.replicationcontroller-controller.enabled: true → false  (line 18 → line 19)
controllers.serviceaccount-token-controller.concurrentSyncs: 5 → 10  (line 21 → line 22)
logging.verbosity: 2 → 4  (line 6 → line 7)
`
	command("config", "diff", "testdata/before.yaml", "testdata/after.yaml").check(t, outcome{stdout: want})
	command("config", "diff", "testdata/before.yaml", "testdata/after.yaml", "--exit-code").check(t, outcome{code: exitChanged, stdout: want})
	command("config", "diff", "testdata/before.yaml", "testdata/invalid.yaml", "--exit-code").check(t, outcome{code: exitFailed, stderr: "Error: " + invalidMessages})
	got := command("config", "diff", "testdata/before.yaml", "testdata/after.yaml", "-o", "json")
	var diff effective.Diff
	if err := json.Unmarshal([]byte(got.stdout), &diff); err != nil {
		t.Fatal(err)
	}
	if got.code != exitGood || diff.Empty || len(diff.Changes) != 5 || diff.Changes[0].Path != "clientConnection.qps" || diff.Changes[0].NewOrigin.Line != 5 {
		t.Errorf("%+v", got)
	}
	if got := command("config", "diff", "testdata/before.yaml", "testdata/after.yaml", "-o", "yaml"); got.code != exitGood || !strings.HasPrefix(got.stdout, "apiVersion: cli.kcmd.dev/v1\n") {
		t.Errorf("%+v", got)
	}
}

// A pipeline learns from the exit code whether a new configuration does anything.
func TestCheckConfigExitCode(t *testing.T) {
	plan := readTestdata(t, "plan.txt")
	command("check-config", "--exit-code", "testdata/after.yaml", "--against", "testdata/before.yaml").check(t, outcome{code: exitChanged, stdout: plan})
	command("check-config", "testdata/after.yaml", "--against", "testdata/before.yaml").check(t, outcome{stdout: plan})
	command("check-config", "--exit-code", "testdata/before.yaml", "--against", "testdata/before.yaml").check(t, outcome{
		stdout: "no changes: 4 controllers keep running\n",
	})
	command("check-config", "--exit-code", "testdata/invalid.yaml", "--against", "testdata/before.yaml").check(t, outcome{
		code: exitFailed, stderr: invalidMessages,
	})
}

// What is read may be that of somebody else: no name in it adds a field to what is printed, which people save, nor steers
// their terminal.
func TestNamesInAManifestAreNoMoreThanNames(t *testing.T) {
	write := func(content string) string {
		file := filepath.Join(t.TempDir(), "manifest.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	configMap := write(`{apiVersion: v1, kind: ConfigMap, metadata: {name: "x\nclientConnection: {kubeconfig: /evil}\n# \e[2K"},
data: {kcm.yaml: "{apiVersion: config.kcmd.dev/v1beta1, kind: KubeControllerManagerConfiguration, clientConnection: {kubeconfig: \"/a\\eb\"}}"}}`)
	pod := write(`{apiVersion: v1, kind: Pod, spec: {containers: [{name: "x\e[2K", command: [sleep]}]}}`)
	for name, got := range map[string]outcome{
		"view":       command("config", "view", configMap),
		"diff":       command("config", "diff", "testdata/after.yaml", configMap),
		"from-flags": command("config", "from-flags", "--manifest", pod),
	} {
		if all := got.stdout + got.stderr; all == "" || strings.Contains(all, "\x1b") || strings.Contains(all, "\nclientConnection: {") {
			t.Errorf("%s: %q", name, all)
		}
	}
}
