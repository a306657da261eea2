package fromflags

import (
	"slices"
	"strings"
	"testing"
)

func TestCommandLines(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"flags alone", "--v=2 --leader-elect", []string{"--v=2", "--leader-elect"}},
		{"a line of ps", "root  1234  0.5  kube-controller-manager --v=2 --kubeconfig /a", []string{"--v=2", "--kubeconfig", "/a"}},
		{"a unit", "[Unit]\nDescription=x\n[Service]\nExecStartPre=/bin/true\nExecStart=/usr/local/bin/kube-controller-manager \\\n  --v=2 \\\n  --leader-elect\nRestart=on-failure\n",
			[]string{"--v=2", "--leader-elect"}},
		{"a unit with a prefix", "ExecStart=-/usr/local/bin/kube-controller-manager --v=2\n", []string{"--v=2"}},
		{"lines that end as on Windows", "kube-controller-manager \\\r\n --v=2\r\n", []string{"--v=2"}},
		{"quotes", `kube-controller-manager --controllers='*,-job' "--allow-metric-labels=a,b='c,d'" --cluster-name=a\ b`,
			[]string{"--controllers=*,-job", "--allow-metric-labels=a,b='c,d'", "--cluster-name=a b"}},
		{"an empty word", `kube-controller-manager --kubeconfig ""`, []string{"--kubeconfig", ""}},
		{"the output goes elsewhere", "kube-controller-manager --v=2 2>&1 | tee log", []string{"--v=2"}},
		{"in the background", "exec kube-controller-manager --v=2 >>log &", []string{"--v=2"}},
		{"the words of a process", "/usr/local/bin/kube-controller-manager\x00--cluster-name=a b\x00--v=2\x00", []string{"--cluster-name=a b", "--v=2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := commandLine(test.text)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestCommandLinesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "no command line of kube-controller-manager in it",
		"ls -l":                                "no command line of kube-controller-manager in it",
		"kube-controller-manager --v='2":       "the command line ends within quotes or after a backslash",
		"kube-controller-manager $OPTIONS":     `what the variable in "$OPTIONS" stands for is not known here: replace it by its value`,
		"kube-controller-manager --v=${LEVEL}": `what the variable in "--v=${LEVEL}" stands for is not known here: replace it by its value`,
	} {
		if _, err := FromCommandLine(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestFromCommandLineConverts(t *testing.T) {
	result, err := FromCommandLine("kube-controller-manager --concurrent-gc-syncs=3")
	if err != nil || !strings.Contains(string(result.File), "concurrentSyncs: 3") {
		t.Errorf("%v, %v", result, err)
	}
}

func TestManifests(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n"
	tests := []struct {
		name, manifest string
	}{
		{"flags in the command", pod + "  - {name: a, command: [kube-controller-manager, --v=2]}\n"},
		{"flags in the arguments", pod + "  - {name: a, command: [/usr/bin/kube-controller-manager], args: [--v=2]}\n"},
		{"everything in the arguments", pod + "  - {name: a, args: [kube-controller-manager, --v=2]}\n"},
		{"an entry point in front", pod + "  - {name: a, command: [/go-runner, --log-file=/log, kube-controller-manager, --v=2]}\n"},
		{"a shell", pod + "  - {name: a, command: [/bin/sh, -c, 'exec /usr/bin/kube-controller-manager --v=2 1>>/log 2>&1']}\n"},
		{"not the first container", pod + "  - {name: b, command: [sleep]}\n  - {name: a, command: [kube-controller-manager, --v=2]}\n"},
		{"a variable that is not known in another container", pod + "  - {name: b, command: [sleep, $(L)], env: [{name: L, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}\n" +
			"  - {name: a, command: [kube-controller-manager, --v=2]}\n"},
		{"a variable", pod + "  - {name: a, command: [kube-controller-manager, --v=$(LEVEL)], env: [{name: LEVEL, value: '2'}]}\n"},
		{"not the first object", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n" + pod + "  - {name: a, command: [kube-controller-manager, --v=2]}\n"},
		{"a deployment", "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a, command: [kube-controller-manager, --v=2]}]}}}\n"},
		{"JSON", `{"kind": "Pod", "spec": {"containers": [{"name": "a", "command": ["kube-controller-manager", "--v=2"]}]}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := FromManifest([]byte(test.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if result.Config.Logging.Verbosity != 2 {
				t.Errorf("the file is\n%s", result.File)
			}
		})
	}
}

func TestManifestsWithoutAnAnswer(t *testing.T) {
	for manifest, want := range map[string]string{
		"kind: Namespace\n": "the manifest has no pod with containers",
		"kind: Pod\nspec: {containers: [{name: a, command: [sleep]}, {name: b}]}\n": "no container of the manifest runs kube-controller-manager: it has a, b",
		"kind: Pod\nspec: {containers: [{name: a, command: [kube-controller-manager, --v=$(L)], env: [{name: L, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}\n": "container a: the value of $(L) in " +
			`"--v=$(L)" is not in the manifest: replace it by its value`,
		"kind: Pod\nspec: {containers: [{name: a, command: [sh, -c, 'kube-controller-manager $FLAGS']}]}\n": "container a: what the variable in " +
			`"$FLAGS" stands for is not known here: replace it by its value`,
	} {
		if _, err := FromManifest([]byte(manifest)); err == nil || err.Error() != want {
			t.Errorf("%s\n%v\nwant\n%s", manifest, err, want)
		}
	}
	if _, err := FromManifest([]byte("a: [")); err == nil || !strings.HasPrefix(err.Error(), "reading the manifest: ") {
		t.Errorf("no YAML: %v", err)
	}
}

func FuzzFromCommandLine(f *testing.F) {
	f.Add("ExecStart=kube-controller-manager \\\n --v=2 'a'")
	f.Fuzz(func(t *testing.T, text string) {
		args, err := commandLine(text)
		if err == nil && slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, "$") }) && !strings.Contains(text, "\x00") {
			t.Errorf("a variable is passed on: %q", args)
		}
	})
}
