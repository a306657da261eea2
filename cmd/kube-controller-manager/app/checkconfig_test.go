package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/cli/check"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

const (
	manifestMessage = "testdata/manifests/configmap.yaml:19:26: controllers.deployment-controller.concurrentSyncs: must be 1 to 1000, not 2000\n"
	listIsValid     = "testdata/manifests/deep/list.json: ConfigMap x/good, data[kcm.yaml] is valid\n"
)

func TestCheckConfigInManifests(t *testing.T) {
	command("check-config", "testdata/manifests").check(t, outcome{
		code: exitFailed, stdout: listIsValid + "2 other documents were skipped\n", stderr: manifestMessage,
	})
	command("check-config", "testdata/manifests/deep/list.json").check(t, outcome{
		stdout: listIsValid + "1 other document was skipped\n",
	})
	command("check-config", "../../../Makefile").check(t, outcome{
		code: exitFailed, stderr: command("check-config", "../../../Makefile").stderr,
	})
}

func TestCheckConfigForGitHub(t *testing.T) {
	command("check-config", "-o", "github", "testdata/manifests/configmap.yaml").check(t, outcome{
		code: exitFailed,
		stdout: "::error file=testdata/manifests/configmap.yaml,line=19,col=26,title=controllers.deployment-controller.concurrentSyncs" +
			"::must be 1 to 1000, not 2000\n",
	})
	got := command("check-config", "-o", "github", "testdata/after.yaml", "--against", "testdata/before.yaml")
	if got.code != exitGood || !strings.HasPrefix(got.stdout, "::notice title=Effect of a change from testdata/before.yaml to testdata/after.yaml::replicationcontroller-controller  stop ") {
		t.Errorf("exit code %d, annotations\n%s", got.code, got.stdout)
	}
}

func TestCheckConfigInJSON(t *testing.T) {
	got := command("check-config", "--output=json", "testdata/after.yaml", "--against", "testdata/before.yaml")
	var report check.Report
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if got.code != exitGood || !report.Valid || len(report.Configurations) != 2 || report.Comparison == nil || report.Comparison.Empty {
		t.Errorf("exit code %d, report\n%s", got.code, got.stdout)
	}
	got = command("check-config", "-o", "json", "testdata/invalid.yaml")
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if got.code != exitFailed || report.Valid || len(report.Configurations[0].Problems) != 3 || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q, report\n%s", got.code, got.stderr, got.stdout)
	}
	if yaml := command("check-config", "-o", "yaml", "testdata/invalid.yaml"); yaml.code != exitFailed || !strings.HasPrefix(yaml.stdout, "apiVersion: cli.kcmd.dev/v1\n") {
		t.Errorf("exit code %d, report\n%s", yaml.code, yaml.stdout)
	}
}

// What a variable that is not set leaves on the command line is not taken for something that was not asked for.
func TestEmptyNamesAreRefused(t *testing.T) {
	const problem = `"": is empty: must be the name of a file or folder, or - for the standard input` + "\n"
	command("check-config", "").check(t, outcome{code: exitFailed, stderr: problem})
	command("config", "view", "").check(t, outcome{code: exitFailed, stderr: "Error: " + problem})
	for _, args := range [][]string{
		{"check-config", "testdata/before.yaml", "--against", ""},
		{"check-config", "testdata/before.yaml", "--against", "live", "--server", ""},
		{"status", "--config", ""},
		{"status", "--token-file="},
		{"status", "--kubeconfig", ""},
		{"config", "from-flags", "--manifest", "", "--command-line", "x"},
		{"config", "print-defaults", "--controller", ""},
		{"why", "deployment/web", "-n", ""},
	} {
		if got := command(args...); got.code != exitMisuse || got.stdout != "" || !strings.Contains(got.stderr, " must not be empty\n") {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

func TestCheckConfigFailsOnWarnings(t *testing.T) {
	if got := command("check-config", "--fail-on", "warning", "testdata/warning.yaml"); got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, "warning:") {
		t.Errorf("%+v", got)
	}
}

func TestCheckConfigColors(t *testing.T) {
	for when, want := range map[string]string{
		"always": "testdata/before.yaml is \x1b[32mvalid\x1b[0m\n", "never": "testdata/before.yaml is valid\n", "auto": "testdata/before.yaml is valid\n",
	} {
		command("check-config", "testdata/before.yaml", "--color", when).check(t, outcome{stdout: want})
	}
}

func TestCheckConfigReadsUpstreamsVersion(t *testing.T) {
	got := command("check-config", "testdata/v1alpha1.yaml")
	if got.code != exitGood || got.stdout != "testdata/v1alpha1.yaml is valid\n" {
		t.Errorf("%+v", got)
	}
}

// The configuration in force is asked for with the code that reads files.
func TestCheckConfigAgainstLive(t *testing.T) {
	document, err := config.Load("before", []byte(readTestdata(t, "before.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	inForce := document.Config
	server := startServer(t, map[string]any{"/configz": map[string]any{v1beta1.GroupName: inForce}})
	args := append([]string{"check-config", "testdata/after.yaml", "--against", "live"}, server...)
	command(args...).check(t, outcome{stdout: readTestdata(t, "plan.txt")})

	inForce.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](0)
	if got := command(args...); got.code != exitFailed || !strings.Contains(got.stderr, "the configuration in force is invalid for this program") {
		t.Errorf("%+v", got)
	}
	got := command("check-config", "testdata/after.yaml", "--against", "live", "--server", "127.0.0.1:1", "--token-file", "testdata/token")
	if got.code != exitFailed || !strings.HasPrefix(got.stderr, "Error: nothing listens on https://127.0.0.1:1: connection refused\n") {
		t.Errorf("%+v", got)
	}
}

// A manifest on the standard input, as from kustomize build.
func TestCheckConfigReadsAStream(t *testing.T) {
	root := newRoot()
	root.SetIn(strings.NewReader(readTestdata(t, "manifests/configmap.yaml")))
	var stdout, stderr bytes.Buffer
	code := executeRoot(root, []string{"check-config", "-"}, &stdout, &stderr)
	outcome{code, stdout.String(), stderr.String()}.check(t, outcome{
		code: exitFailed, stdout: "1 other document was skipped\n",
		stderr: strings.Replace(manifestMessage, "testdata/manifests/configmap.yaml", "stdin", 1),
	})
}
