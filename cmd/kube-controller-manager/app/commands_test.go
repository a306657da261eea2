package app

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kcmd.dev/pkg/cli/controllerlist"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/upstream/conversion"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/why"
	"kcmd.dev/schemas"
	"kcmd.dev/test/must"
)

func readTestdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// startServer stands for a running process that answers to the token "good". It returns
// the flags that lead to it.
func startServer(t *testing.T, answers map[string]any) []string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch answer, ok := answers[r.URL.Path]; {
		case r.Header.Get("Authorization") != "Bearer good":
			http.Error(w, `forbidden: User "jane" cannot get path "`+r.URL.Path+`"`, http.StatusForbidden)
		case ok:
			_ = json.NewEncoder(w).Encode(answer)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	for name, content := range map[string][]byte{
		ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), token: []byte("good\n"),
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"--server", server.URL, "--ca-file", ca, "--token-file", token}
}

func sampleStatus() status.Status {
	return status.Status{
		Started: time.Now().Add(-time.Hour), Version: "v1.36.3-kcmd.0",
		Configuration: status.Configuration{File: "config.yaml", Hash: "abc", Generation: 1},
		Controllers:   []supervisor.Status{{Name: "job-controller", State: supervisor.Running, Generation: 2}},
	}
}

func TestStatus(t *testing.T) {
	flags := startServer(t, map[string]any{"/statusz": sampleStatus()})
	got := command(append([]string{"status"}, flags...)...)
	if got.code != exitGood || !strings.Contains(got.stdout, "job-controller  Running  2 ") || !strings.Contains(got.stdout, "generation 1, sha256:abc, from config.yaml") {
		t.Errorf("%+v", got)
	}
	got = command(append([]string{"status", "-o", "json"}, flags...)...)
	var shown status.Status
	if err := json.Unmarshal([]byte(got.stdout), &shown); err != nil || shown.Controllers[0].Generation != 2 {
		t.Errorf("%v, %+v", err, got)
	}
	flags[len(flags)-1] = "testdata/token" // which is no token that anybody has
	got = command(append([]string{"status"}, flags...)...)
	if got.code != exitFailed || !strings.Contains(got.stderr, "--clusterrole=kube-controller-manager-viewer --user=jane\n") {
		t.Errorf("%+v", got)
	}
}

func TestWhy(t *testing.T) {
	answer := why.Answer{
		Object: why.Object{Resource: "deployments.apps", Namespace: "shop", Name: "web"}, Findings: []string{"The object does not exist."},
		Controllers: []why.Controller{}, Keys: []why.Key{}, Writes: []why.Write{},
	}
	flags := startServer(t, map[string]any{"/debug/why": answer})
	for _, object := range [][]string{{"deployment/web"}, {"deployment", "web"}} {
		got := command(slices.Concat([]string{"why", "-n", "shop"}, object, flags)...)
		if got.code != exitGood || got.stdout != answer.Text() {
			t.Errorf("%v: %+v", object, got)
		}
	}
	got := command(append([]string{"why", "deployment/web", "-o", "json"}, flags...)...)
	var shown why.Answer
	if err := json.Unmarshal([]byte(got.stdout), &shown); err != nil || shown.Object != answer.Object {
		t.Errorf("%v, %+v", err, got)
	}
	for _, args := range [][]string{{}, {"web"}, {"deployment/"}, {"/web"}, {"a/b/c"}, {"a", "b", "c"}, {"deployment/web", "c"}, {"deployment", "web/c"}, {"deployment/web", "--last", "0"}, {"deployment/web", "-o", "yaml"}} {
		if got := command(slices.Concat([]string{"why"}, args, flags)...); got.code != exitMisuse {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if got := command(append([]string{"why", "deployment/web"}, startServer(t, map[string]any{"/debug/why": map[string]any{}})...)...); got.code != exitFailed || !strings.Contains(got.stderr, "is it kcmd") {
		t.Errorf("%+v", got)
	}
	flags[len(flags)-1] = "testdata/token" // which is no token that anybody has
	got = command(append([]string{"why", "deployment/web"}, flags...)...)
	if got.code != exitFailed || !strings.Contains(got.stderr, "clusterrole kube-controller-manager-why --verb=get --non-resource-url=/debug/why\n") {
		t.Errorf("%+v", got)
	}
}

// Where a process serves is in its configuration.
func TestStatusAsksWhereTheConfigurationSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const head = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"
	for text, want := range map[string]string{
		head + "serving: {bindAddress: 127.0.0.1, port: 1}\n":               "Error: nothing listens on https://127.0.0.1:1: connection refused\n",
		head + "serving: {bindAddress: 127.0.0.1, port: 1}\nnew: mistake\n": "Error: nothing listens on https://127.0.0.1:1: connection refused\n",
		head + "serving: {port: 0}\n":                                       "Error: the configuration disables the endpoint: serving.port is 0\n",
		"serving: [":                                                        "Error: " + file + ":1:10: not valid YAML: did not find expected node content\nThe address of the process cannot be read from this file: set --server https://HOST:PORT\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := command("status", "--config", file, "--token-file", "testdata/token"); got.code != exitFailed || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	must.Succeed(t, os.Remove(file))
	want := "Error: reading the configuration: read " + file + ": no such file or directory\n" +
		"The address of the process cannot be read from this file: set --server https://HOST:PORT\n"
	if got := command("status", "--config", file, "--token-file", "testdata/token"); got.code != exitFailed || got.stderr != want {
		t.Errorf("%+v, want %s", got, want)
	}
}

func TestControllers(t *testing.T) {
	got := command("controllers")
	if got.code != exitGood || !strings.Contains(got.stdout, "\njob-controller  ") || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	for _, d := range controllers.All() {
		if !strings.Contains(got.stdout, "\n"+d.Name+" ") {
			t.Errorf("%s is not listed", d.Name)
		}
	}
	got = command("controllers", "podgc", "job-controller", "-o", "yaml")
	if got.code != exitGood || strings.Count(got.stdout, "\n  name: ") != 2 || !strings.Contains(got.stdout, "  name: pod-garbage-collector-controller\n") {
		t.Errorf("%+v", got)
	}
	got = command(append([]string{"controllers", "--live", "-o", "json"}, startServer(t, map[string]any{"/statusz": sampleStatus()})...)...)
	var list controllerlist.List
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(e controllerlist.Entry) bool { return e.Name == "job-controller" })
	if !list.Live || list.Items[i].Status == nil || list.Items[i].Status.State != supervisor.Running {
		t.Errorf("%+v", got)
	}
	if wide := command("controllers", "-o", "wide", "job"); !strings.Contains(wide.stdout, "SERVICE ACCOUNT") {
		t.Errorf("%+v", wide)
	}
}

func TestConfigExplain(t *testing.T) {
	const want = "FIELD:   controllers.job-controller.concurrentSyncs\nTYPE:    integer\nDEFAULT: 5\nALLOWED: 1 to 1000\nCHANGE:  restarts that controller\n"
	if got := command("config", "explain", "controllers.job.concurrentSyncs"); got.code != exitGood || !strings.HasPrefix(got.stdout, want) {
		t.Errorf("%+v", got)
	}
	if got := command("config", "explain"); got.code != exitGood || !strings.Contains(got.stdout, "\n  leaderElection ") {
		t.Errorf("%+v", got)
	}
	if got := command("config", "explain", "serving", "--recursive"); got.code != exitGood || !strings.Contains(got.stdout, "\n    minVersion  <string> = VersionTLS12\n") {
		t.Errorf("%+v", got)
	}
}

func TestConfigPrintDefaults(t *testing.T) {
	for _, args := range [][]string{nil, {"--full"}, {"--controller", "job"}} {
		got := command(append([]string{"config", "print-defaults"}, args...)...)
		if got.code != exitGood {
			t.Fatalf("%v: %+v", args, got)
		}
		if _, err := config.Load("defaults", []byte(got.stdout)); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestConfigSchema(t *testing.T) {
	for version, args := range map[string][]string{"v1beta1": nil, "v1alpha1": {"--version", "v1alpha1"}} {
		want, err := schemas.Read(version)
		if err != nil {
			t.Fatal(err)
		}
		command(append([]string{"config", "schema"}, args...)...).check(t, outcome{stdout: string(want)})
	}
}

func TestConfigConvert(t *testing.T) {
	got := command("config", "convert", "testdata/v1alpha1.yaml")
	for _, part := range []string{"Ours since 2021.\n", "apiVersion: config.kcmd.dev/v1beta1\n", "# More rollouts at once.\n", "concurrentSyncs: 20\n", "leaseDuration: 30s\n"} {
		if got.code != exitGood || !strings.Contains(got.stdout, part) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", got.code, part, got.stdout, got.stderr)
		}
	}
	if _, err := config.Load("converted", []byte(got.stdout)); err != nil {
		t.Error(err)
	}
	command("config", "convert", "testdata/before.yaml").check(t, outcome{stdout: readTestdata(t, "before.yaml")})
	command("config", "convert", "testdata/invalid.yaml").check(t, outcome{code: exitFailed, stderr: "Error: " + invalidMessages})
	command("config", "convert", "testdata/manifests").check(t, outcome{
		code: exitFailed, stderr: "Error: testdata/manifests contains 2 configurations: convert takes one at a time\n",
	})
	command("config", "convert", "testdata/none.yaml").check(t, outcome{code: exitFailed, stderr: "Error: testdata/none.yaml: no such file or directory\n"})
}

// What a running process shows can be kept as a file.
func TestConfigConvertOfOwnConfigz(t *testing.T) {
	document, err := config.Load("before.yaml", []byte(readTestdata(t, "before.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(map[string]any{v1beta1.GroupName: document.Config, conversion.Group: conversion.FromHub(document.Config)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "configz.json")
	if err := os.WriteFile(file, answer, 0o600); err != nil {
		t.Fatal(err)
	}
	got := command("config", "convert", file)
	converted, err := config.Load("converted", []byte(got.stdout))
	if err != nil {
		t.Fatalf("%v\n%s%s", err, got.stdout, got.stderr)
	}
	if got.code != exitGood || got.stderr != "" || !reflect.DeepEqual(converted.Config, document.Config) {
		t.Errorf("%+v", got)
	}
}

func TestConfigFromFlags(t *testing.T) {
	flags := []string{"--concurrent-job-syncs=7", "--leader-elect-lease-duration=30s", "--leader-elect-renew-deadline=20s"}
	want, err := fromflags.Convert(flags)
	if err != nil {
		t.Fatal(err)
	}
	got := command(append([]string{"config", "from-flags", "--"}, flags...)...)
	if got.code != exitGood || got.stdout != string(want.File) || strings.Count(got.stderr, "\n") != len(want.Notes) {
		t.Errorf("%+v, want\n%s", got, want.File)
	}
	if len(want.Notes) > 0 && !strings.Contains(got.stderr, want.Notes[0].Message) {
		t.Errorf("the notes are\n%s\nwant %v", got.stderr, want.Notes)
	}
	unit := filepath.Join(t.TempDir(), "unit")
	if err := os.WriteFile(unit, []byte("[Service]\nExecStart=/usr/bin/kube-controller-manager "+strings.Join(flags, " ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := command("config", "from-flags", "--command-line", unit); got.stdout != string(want.File) {
		t.Errorf("%+v, want\n%s", got, want.File)
	}
	if got := command("config", "from-flags", "--", "--concurrent-job-sync=7"); got.code != exitFailed || !strings.Contains(got.stderr, "did you mean --concurrent-job-syncs?") {
		t.Errorf("%+v", got)
	}
}

// What is wrong with a file is said with its name.
func TestConfigFromFlagsNamesTheFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--command-line": "contains no command line of kube-controller-manager", "--manifest": "the manifest has no pod with containers",
	} {
		command("config", "from-flags", flag, empty).check(t, outcome{code: exitFailed, stderr: "Error: " + empty + ": " + want + "\n"})
	}
	unit := filepath.Join(t.TempDir(), "unit")
	if err := os.WriteFile(unit, []byte("[Service]\nExecStart=/usr/bin/kube-controller-manager --one=1 --two=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command("config", "from-flags", "--command-line", unit).check(t, outcome{code: exitFailed, stderr: "Error: " + unit + ":\nunknown flag: --one\nunknown flag: --two\n"})
}

// No note says that the behaviour changes, and the file passes the strictest check.
func TestAKubeadmControlPlaneConvertsWithoutAWarning(t *testing.T) {
	got := command("config", "from-flags", "--manifest", "../../../pkg/config/fromflags/testdata/kubeadm-1.36.yaml")
	if got.code != exitGood || strings.Contains(got.stderr, "IMPORTANT") || strings.Contains(got.stdout, "NOTE") {
		t.Errorf("%+v", got)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(got.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	command("check-config", "--fail-on", "warning", file).check(t, outcome{stdout: file + " is valid\n"})
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := command("completion", shell); got.code != exitGood || !strings.Contains(got.stdout, "kube-controller-manager") {
			t.Errorf("%s: exit code %d, %d bytes", shell, got.code, len(got.stdout))
		}
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"config", "explain", "leaderElection.r"}, []string{"leaderElection.renewDeadline", "leaderElection.retryPeriod"}},
		{[]string{"config", "print-defaults", "--controller", "job"}, []string{"job-controller"}},
		{[]string{"controllers", "deploy"}, []string{"deployment-controller"}},
		{[]string{"check-config", "--output", ""}, []string{"text", "json", "yaml", "github"}},
		{[]string{"config", "schema", "--version", ""}, []string{"v1beta1"}},
	} {
		got := command(append([]string{"__complete"}, test.args...)...)
		lines := strings.Split(got.stdout, "\n")
		for _, want := range test.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%v completes to\n%s\nwithout %s", test.args, got.stdout, want)
			}
		}
	}
}

// Whoever looks for a command finds it in the documentation, with its flags in --help.
func TestEveryCommandIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(data)
	root := newRoot()
	root.InitDefaultCompletionCmd()
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" || (cmd.HasParent() && cmd.Parent().Name() == "completion") {
			return
		}
		if path := cmd.CommandPath(); cmd != root && !cmd.HasSubCommands() && !strings.Contains(document, "$ "+path) && cmd.Name() != "completion" {
			t.Errorf("docs/commands.md has no example of %s", path)
		}
		if cmd.Name() == "completion" && !strings.Contains(document, "completion bash") {
			t.Error("docs/commands.md does not tell of completion")
		}
		if cmd.Name() != "completion" && (cmd.Short == "" || strings.HasSuffix(cmd.Short, ".")) {
			t.Errorf("%s needs a short description without a full stop: %q", cmd.CommandPath(), cmd.Short)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("--%s of %s has no description", f.Name, cmd.CommandPath())
			}
		})
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(root)
}
