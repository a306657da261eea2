package app

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// outcome is what a command line leads to.
type outcome struct {
	code           int
	stdout, stderr string
}

func command(args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := execute(append([]string{}, args...), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func (o outcome) check(t *testing.T, want outcome) {
	t.Helper()
	if o.code != want.code {
		t.Errorf("exit code %d, want %d", o.code, want.code)
	}
	if o.stdout != want.stdout {
		t.Errorf("stdout is\n%s\nwant\n%s", o.stdout, want.stdout)
	}
	if o.stderr != want.stderr {
		t.Errorf("stderr is\n%s\nwant\n%s", o.stderr, want.stderr)
	}
}

// Pins MGR-163.
func TestMisuse(t *testing.T) {
	const program = "kube-controller-manager"
	tests := []struct {
		name    string
		args    []string
		message string
		usage   string // of the command to which the error points, without the program
	}{
		{"nothing to run", nil, `--config FILE is required`, ""},
		{"no directory", []string{"--config", "testdata/before.yaml", "--last-good", ""}, `--last-good must name a directory`, ""},
		{
			"two files", []string{"--config", "a.yaml", "--config=b.yaml"},
			`invalid argument "b.yaml" for "--config" flag: it is given twice, and was "a.yaml" before`, "",
		},
		{
			"two directories", []string{"--config", "a.yaml", "--last-good", "a", "--last-good", "b"},
			`invalid argument "b" for "--last-good" flag: it is given twice, and was "a" before`, "",
		},
		{
			"a file without its flag", []string{"testdata/before.yaml"},
			`"testdata/before.yaml" is neither a command nor a flag of "kube-controller-manager", did you mean --config testdata/before.yaml?`, "",
		},
		{"unknown command", []string{"start"}, `"start" is neither a command nor a flag of "kube-controller-manager"`, ""},
		{
			"unknown flag", []string{"--kubeconfig", "x"},
			`unknown flag: --kubeconfig, which is a flag of upstream: 'kube-controller-manager config from-flags' converts flags to a configuration`, "",
		},
		{"flag without value", []string{"--config"}, `flag needs an argument: --config`, ""},
		{"argument of version", []string{"version", "1"}, `"1" is neither a command nor a flag of "kube-controller-manager version"`, "version"},
		{"nothing to check", []string{"check-config"}, `check-config needs a FILE`, "check-config"},
		{"unknown flag of check-config", []string{"check-config", "--what", "x"}, `unknown flag: --what`, "check-config"},
		{"several files against one", []string{"check-config", "a", "b", "--against", "c"}, `--against takes one FILE, not several`, "check-config"},
		{"two standard inputs", []string{"check-config", "-", "--against", "-"}, `FILE and --against cannot both be the standard input`, "check-config"},
		{"a connection without live", []string{"check-config", "a", "--server", "x"}, `--server needs --against live`, "check-config"},
		{"unknown output", []string{"check-config", "a", "-o", "xml"}, `--output must be one of text, json, yaml, github, not "xml"`, "check-config"},
		{"unknown severity", []string{"check-config", "a", "--fail-on", "info"}, `--fail-on must be error or warning, not "info"`, "check-config"},
		{"unknown colour", []string{"check-config", "a", "--color", "red"}, `--color must be auto, always or never, not "red"`, "check-config"},
		{
			"no command of config", []string{"config"},
			`"kube-controller-manager config" needs a subcommand: convert, diff, explain, from-flags, print-defaults, schema, view`, "config",
		},
		{"unknown command of config", []string{"config", "x"}, `"x" is neither a command nor a flag of "kube-controller-manager config"`, "config"},
		{
			"unknown field", []string{"config", "explain", "leaderElection.leaseduration"},
			`there is no field "leaseduration" in leaderElection, did you mean leaderElection.leaseDuration?`, "config explain",
		},
		{"two fields", []string{"config", "explain", "a", "b"}, `"kube-controller-manager config explain" takes one PATH, not 2`, "config explain"},
		{
			"defaults of no controller", []string{"config", "print-defaults", "--controller", "jobs"},
			`there is no field "jobs" in controllers, did you mean controllers.job-controller?`, "config print-defaults",
		},
		{
			"defaults of a field", []string{"config", "print-defaults", "--controller", "job-controller.enabled"},
			`there is no controller "job-controller.enabled"`, "config print-defaults",
		},
		{"defaults of nothing", []string{"config", "print-defaults", "--controller", "."}, `there is no controller "."`, "config print-defaults"},
		{"unknown version", []string{"config", "schema", "--version", "v1"}, `there is no schema of version "v1", only of v1alpha1, v1beta1`, "config schema"},
		{"nothing to convert", []string{"config", "convert"}, `"kube-controller-manager config convert" takes one FILE, not 0`, "config convert"},
		{
			"no flags to convert", []string{"config", "from-flags"},
			`from-flags needs either --manifest FILE, --command-line FILE, or flags after --`, "config from-flags",
		},
		{
			"flags to convert without dashes", []string{"config", "from-flags", "--leader-elect"},
			`unknown flag: --leader-elect: write the flags to convert after --`, "config from-flags",
		},
		{
			"two things to convert", []string{"config", "from-flags", "--manifest", "a", "--", "--leader-elect"},
			`from-flags needs either --manifest FILE, --command-line FILE, or flags after --`, "config from-flags",
		},
		{"an argument to convert", []string{"config", "from-flags", "a", "--", "b"}, `"a" is not a flag: write the flags to convert after --`, "config from-flags"},
		{"unknown controller", []string{"controllers", "deploymnt"}, `there is no controller "deploymnt", did you mean deployment?`, "controllers"},
		{"argument of status", []string{"status", "x"}, `"x" is neither a command nor a flag of "kube-controller-manager status"`, "status"},
		{"no interval", []string{"status", "--interval", "0s"}, `--interval must be more than 0s`, "status"},
		{"two credentials", []string{"status", "--kubeconfig", "a", "--token-file", "b"}, `--token-file and --kubeconfig cannot be combined`, "status"},
		{
			"trust and none", []string{"status", "--ca-file", "a", "--insecure-skip-tls-verify"},
			`--ca-file and --insecure-skip-tls-verify cannot be combined`, "status",
		},
		{"a context of a token", []string{"status", "--context", "a", "--token-file", "b"}, `--token-file and --context cannot be combined`, "status"},
		{"an interval of one look", []string{"status", "--interval", "1s"}, `--interval needs --watch`, "status"},
		{"a connection to nothing", []string{"controllers", "--token-file", "x"}, `--token-file needs --live`, "controllers"},
		{"a configuration of nothing", []string{"controllers", "podgc", "--config", "x"}, `--config needs --live`, "controllers"},
		{"a server without TLS", []string{"status", "--server", "http://x"}, `--server: "http://x" must use https`, "status"},
		{"no server", []string{"status", "--server", "https://:1"}, `--server: "https://:1" is not a URL such as https://127.0.0.1:10257`, "status"},
		{"no time", []string{"status", "--timeout", "0s"}, `--timeout must be more than 0s`, "status"},
		{
			"mistyped command", []string{"chek-config", "a"},
			`"chek-config" is neither a command nor a flag of "kube-controller-manager", did you mean "check-config"?`, "",
		},
		{
			"mistyped subcommand", []string{"config", "explan"},
			`"explan" is neither a command nor a flag of "kube-controller-manager config", did you mean "explain"?`, "config",
		},
		{"mistyped flag", []string{"check-config", "--aagainst", "x"}, `unknown flag: --aagainst, did you mean --against?`, "check-config"},
		{"mistyped flag of the process", []string{"--confg=x"}, `unknown flag: --confg, did you mean --config?`, ""},
		{
			"mistyped flag of from-flags", []string{"config", "from-flags", "--manifset", "x"},
			`unknown flag: --manifset, did you mean --manifest?`, "config from-flags",
		},
		{"unknown short flag", []string{"status", "-x"}, `unknown shorthand flag: 'x' in -x`, "status"},
		{"help of nothing", []string{"help", "nope"}, `"nope" is neither a command nor a flag of "kube-controller-manager"`, ""},
		{
			"help of a mistyped command", []string{"help", "config", "vew"},
			`"vew" is neither a command nor a flag of "kube-controller-manager config", did you mean "view"?`, "",
		},
		{
			"unknown shell", []string{"completion", "tcsh"},
			`there is no completion for the shell "tcsh", only for bash, fish, powershell, zsh`, "completion",
		},
		{"no shell", []string{"completion"}, `"kube-controller-manager completion" needs a subcommand: bash, fish, powershell, zsh`, "completion"},
		{
			"two shells", []string{"completion", "bash", "zsh"},
			`"zsh" is neither a command nor a flag of "kube-controller-manager completion bash"`, "completion bash",
		},
		{"an exit code of nothing", []string{"check-config", "a", "--exit-code"}, `--exit-code needs --against`, "check-config"},
		{
			"standard input by two names", []string{"check-config", "-", "--against", "/dev/stdin"},
			`FILE and --against cannot both be the standard input`, "check-config",
		},
		{"nothing to view", []string{"config", "view"}, `"kube-controller-manager config view" takes one FILE, not 0`, "config view"},
		{"unknown output of view", []string{"config", "view", "a", "-o", "toml"}, `--output must be one of text, json, yaml, not "toml"`, "config view"},
		{"one side of a difference", []string{"config", "diff", "a"}, `"kube-controller-manager config diff" takes OLD and NEW, not 1 arguments`, "config diff"},
		{"both sides from one input", []string{"config", "diff", "-", "/dev/fd/0"}, `OLD and NEW cannot both be the standard input`, "config diff"},
		{"unknown output of version", []string{"version", "-o", "raw"}, `--output must be one of text, json, yaml, not "raw"`, "version"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			command(test.args...).check(t, outcome{
				code:   exitMisuse,
				stderr: "Error: " + test.message + "\nRun '" + strings.TrimSpace(program+" "+test.usage) + " --help' for usage.\n",
			})
		})
	}
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"-h"}} {
		got := command(args...)
		if got.code != exitGood || got.stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q, want 0 and nothing", args, got.code, got.stderr)
		}
		for _, part := range []string{
			"kube-controller-manager --config FILE",
			"kube-controller-manager check-config new.yaml --against config.yaml",
			"Exit codes: 0 success, or the file is valid; 1 failure, or the file is invalid; 2 invalid\nusage; 3 something changes, with --exit-code.",
			"check-config Check whether configurations are valid",
			"config       View, compare, explain, print and convert configurations",
			"controllers  List the controllers",
			"status       Show the status of a running process",
			"completion   Generate the autocompletion script",
			"version      Print the version",
		} {
			if !strings.Contains(got.stdout, part) {
				t.Errorf("%v: the help does not contain %q:\n%s", args, part, got.stdout)
			}
		}
	}
	for _, args := range [][]string{{"help", "config", "view"}, {"config", "view", "--help"}, {"help", "completion", "zsh"}} {
		if got := command(args...); got.code != exitGood || got.stderr != "" || !strings.Contains(got.stdout, "--help ") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	got := command("check-config", "--help")
	for _, part := range []string{"file:line:column: field: message", "--against FILE", "--environment"} {
		if got.code != exitGood || !strings.Contains(got.stdout, part) {
			t.Errorf("check-config --help: exit code %d, does not contain %q:\n%s", got.code, part, got.stdout)
		}
	}
}

const invalidMessages = `testdata/invalid.yaml:4:18: leaderElection.leaseDuration: leaseDuration (5s) must be more than renewDeadline (10s)
testdata/invalid.yaml:6:3: controllers.deployment-controler: unknown controller, did you mean "deployment-controller"?
testdata/invalid.yaml:9:22: controllers.replicaset-controller.concurrentSyncs: must be 1 to 1000, not 0
`

// The process refuses to start with what check-config refuses, in the same words.
func TestRunNeedsAValidFile(t *testing.T) {
	command("--config", "testdata/invalid.yaml").check(t, outcome{code: exitFailed, stderr: "Error: " + invalidMessages})
	command("--config", "testdata/none.yaml").check(t, outcome{
		code:   exitFailed,
		stderr: "Error: reading the configuration: read testdata/none.yaml: no such file or directory\n",
	})
}

// With a directory, it refuses to start as well if nothing is kept there, and says so.
func TestRunNeedsAValidFileOrALastGoodOne(t *testing.T) {
	dir := t.TempDir()
	command("--config", "testdata/none.yaml", "--last-good", dir).check(t, outcome{
		code: exitFailed,
		stderr: "Error: reading the configuration: read testdata/none.yaml: no such file or directory\n" +
			"starting with the last good configuration instead: reading " + dir + "/last-good.yaml: nothing is kept there\n",
	})
}

func TestCheckConfig(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil { // sparse; reading it would never end
		t.Fatal(err)
	}
	const warning = "testdata/warning.yaml:4:3: warning: featureGates.LogarithmicScaleDown: " +
		"the gate is GA and locked to true; setting it has no effect: remove it\n"
	tests := []struct {
		name string
		args []string
		want outcome
	}{
		{"valid", []string{"testdata/before.yaml"}, outcome{stdout: "testdata/before.yaml is valid\n"}},
		{"every problem", []string{"testdata/invalid.yaml"}, outcome{code: exitFailed, stderr: invalidMessages}},
		{
			"one of several is invalid", []string{"testdata/invalid.yaml", "testdata/after.yaml"},
			outcome{code: exitFailed, stdout: "testdata/after.yaml is valid\n", stderr: invalidMessages},
		},
		{"a warning is no error", []string{"testdata/warning.yaml"}, outcome{stdout: "testdata/warning.yaml is valid\n", stderr: warning}},
		{"missing", []string{"testdata/none.yaml"}, outcome{code: exitFailed, stderr: "testdata/none.yaml: no such file or directory\n"}},
		{"too large", []string{large}, outcome{code: exitFailed, stderr: large + ": is larger than 16777216 bytes\n"}},
		{
			"the files it names are missing", []string{"--environment", "testdata/before.yaml"},
			outcome{code: exitFailed, stderr: "testdata/before.yaml:4:15: clientConnection.kubeconfig: the file manager.conf does not exist\n"},
		},
		{
			"compared with a missing file", []string{"testdata/before.yaml", "--against", "testdata/none.yaml"},
			outcome{code: exitFailed, stderr: "testdata/none.yaml: no such file or directory\n"},
		},
		{
			"an invalid file compared", []string{"testdata/invalid.yaml", "--against", "testdata/before.yaml"},
			outcome{code: exitFailed, stderr: invalidMessages},
		},
		{
			"nothing changes", []string{"testdata/before.yaml", "--against", "testdata/before.yaml"},
			outcome{stdout: "no changes: 4 controllers keep running\n"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			command(append([]string{"check-config"}, test.args...)...).check(t, test.want)
		})
	}
}

func TestCheckConfigPrintsThePlan(t *testing.T) {
	want, err := os.ReadFile("testdata/plan.txt")
	if err != nil {
		t.Fatal(err)
	}
	command("check-config", "testdata/after.yaml", "--against", "testdata/before.yaml").check(t, outcome{stdout: string(want)})
}

func TestCheckConfigReadsTheStandardInput(t *testing.T) {
	const header = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"
	tests := []struct {
		name  string
		input io.Reader
		want  outcome
	}{
		{"valid", strings.NewReader(header), outcome{stdout: "stdin is valid\n"}},
		{
			"invalid", strings.NewReader(header + "resync: {minPeriod: 1ms}\n"),
			outcome{code: exitFailed, stderr: "stdin:3:21: resync.minPeriod: must be 0s (never), or 1s or more, not 1ms\n"},
		},
		{
			"endless", endless{},
			outcome{code: exitFailed, stderr: "stdin: has more than 16777216 bytes\n"},
		},
		{"broken", iotest.ErrReader(errors.New("broken pipe")), outcome{code: exitFailed, stderr: "stdin: reading standard input: broken pipe\n"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := newRoot()
			var stdout, stderr bytes.Buffer
			root.SetIn(test.input)
			code := executeRoot(root, []string{"check-config", "-"}, &stdout, &stderr)
			outcome{code, stdout.String(), stderr.String()}.check(t, test.want)
		})
	}
}

// endless is an input that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestSamplesAreValid(t *testing.T) {
	samples, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil || len(samples) < 3 {
		t.Fatalf("found samples %v (%v), want at least 3", samples, err)
	}
	for _, sample := range samples {
		command("check-config", sample).check(t, outcome{stdout: sample + " is valid\n"})
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What was not written is missing in a file that is read later: a command that has lost its output fails.
func TestCommandsThatCannotWriteTheirOutputFail(t *testing.T) {
	const file, against = "testdata/after.yaml", "--against=testdata/before.yaml"
	for _, args := range [][]string{
		{"config", "print-defaults"}, {"config", "view", file}, {"config", "diff", file, file}, {"config", "convert", file}, {"config", "schema"},
		{"check-config", file, against}, {"check-config", file, against, "-o", "github"}, {"check-config", file, "-o", "json"},
		{"config", "explain", "logging"}, {"controllers"}, {"version"},
	} {
		if code := execute(args, full{}, io.Discard); code != exitFailed {
			t.Errorf("%q: exit code %d, want %d", args, code, exitFailed)
		}
	}
}
