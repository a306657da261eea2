package fromflags

import (
	"fmt"
	"os"
	"path/filepath"
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
		{"a script", "#!/bin/sh\nset -e; export A=b\n# the manager\nmkdir -p /log && exec /usr/local/bin/kube-controller-manager \\\n  --v=2 > /log/out 2>&1\necho done $?\n", []string{"--v=2"}},
		{"a shell that runs a shell", `docker run x sh -ec "cd /; exec kube-controller-manager --v=2 --leader-elect"`, []string{"--v=2", "--leader-elect"}},
		{"flags after a redirection", "kube-controller-manager --v=2 >/log 2>&1 --leader-elect", []string{"--v=2", "--leader-elect"}},
		{"a word per line", "kube-controller-manager\n--v=2\n--leader-elect\n", []string{"--v=2", "--leader-elect"}},
		{"a flag per line and comments", "# first\n--v=2\n\n# - second\n#\n--leader-elect # third\n--profiling=false\n", []string{"--v=2", "--leader-elect", "--profiling=false"}},
		{"a word per line without the program", "--leader-elect\n--kubeconfig\n/a\n# level\n-v\n2\n", []string{"--leader-elect", "--kubeconfig", "/a", "-v", "2"}},
		{"a script that goes on after a comment", "kube-controller-manager --v=2\n# - done\necho done\n", []string{"--v=2"}},
		{"comments within a command", "[Service]\nExecStart=/usr/bin/kube-controller-manager \\\n  --v=2 \\\n# --v=3 \\\n  ; none\n  --leader-elect\n", []string{"--v=2", "--leader-elect"}},
		{"variables of a unit", "[Service]\nEnvironment=LEVEL=2 \"ARGS=--leader-elect --profiling=false\"\nExecStart=/usr/bin/kube-controller-manager --v=${LEVEL} $ARGS\n",
			[]string{"--v=2", "--leader-elect", "--profiling=false"}},
		{"a variable with spaces", "[Service]\nEnvironment=\"NAME=my own cluster\" 'Q=a\"b;c'\nExecStart=kube-controller-manager --cluster-name=${NAME} ${NAME} --v=${Q} $NAME\n",
			[]string{"--cluster-name=my own cluster", "my own cluster", `--v=a"b;c`, "my", "own", "cluster"}},
		{"a variable with spaces in quotes", "[Service]\nEnvironment=\"NAME=my own\"\nExecStart=kube-controller-manager \"--cluster-name=${NAME}\" '--v=${NAME}'\n",
			[]string{"--cluster-name=my own", "--v=my own"}},
		{"a variable with spaces in a shell", "[Service]\nEnvironment=\"ARGS=--v=2 --leader-elect\"\nExecStart=/bin/sh -c \"exec kube-controller-manager ${ARGS}\"\n",
			[]string{"--v=2", "--leader-elect"}},
		{"variables that are cleared", "[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\nEnvironmentFile=/a\nEnvironmentFile=\nExecStart=kube-controller-manager --v=$B\n", []string{"--v=2"}},
		{"percent signs of a unit", "[Service]\nEnvironment=A=%%2 B=%H\nExecStart=kube-controller-manager --cluster-name=50%% --v=$A\n", []string{"--cluster-name=50%", "--v=%2"}},
		{"backslashes in the quotes of a shell", `kube-controller-manager "--cluster-name=a\b\"c" '--v=a\b' --kubeconfig=a\b`,
			[]string{`--cluster-name=a\b"c`, `--v=a\b`, "--kubeconfig=ab"}},
		{"escapes of a unit", "[Service]\nEnvironment=A=b\\x20c \"B=\\x22\"\nExecStart=kube-controller-manager --cluster-name=a\\x20b\\x2dc '--v=\\t\\\\x20' \"--kubeconfig=\\x22\\s\\q\" ${A} ${B}\n",
			[]string{"--cluster-name=a b-c", "--v=\t\\x20", `--kubeconfig=" \q`, "b c", `"`}},
		{"a shell in a unit", "[Service]\nEnvironment=LEVEL=2\nExecStart=/bin/sh -c 'exec kube-controller-manager --v=$LEVEL >> /log'\n", []string{"--v=2"}},
		{"the program is named before it runs", "#!/bin/sh\ntest -x /usr/bin/kube-controller-manager && echo starting kube-controller-manager\nexec /usr/bin/kube-controller-manager --v=2\n", []string{"--v=2"}},
		{"ps shows who searches for the program", "root 9 0.0 grep kube-controller-manager\nroot 10 0.5 kube-controller-manager --v=2\n", []string{"--v=2"}},
		{"a subshell", "(kube-controller-manager --v=2) || exit 1", []string{"--v=2"}},
		{"a substitution elsewhere", "cd $(dirname $0); if true; then kube-controller-manager --v=2; fi", []string{"--v=2"}},
		{"a folder with the name of the program", "--cert-dir=/var/lib/kube-controller-manager --v=2", []string{"--cert-dir=/var/lib/kube-controller-manager", "--v=2"}},
		{"a value with the name of the program", "--v=2 --leader-elect-resource-name kube-controller-manager", []string{"--v=2", "--leader-elect-resource-name", "kube-controller-manager"}},
		{"no flags", "exec kube-controller-manager", nil},
		{"no flags after a path", "LEVEL=2 nohup /usr/bin/kube-controller-manager &", nil},
		{"the program is named before it runs, and its user", "sudo -u kube-controller-manager kube-controller-manager --v=2", []string{"--v=2"}},
		{"flags after the output goes to a command", "kube-controller-manager --v=2 > >(tee log) 2>&1 --leader-elect", []string{"--v=2", "--leader-elect"}},
		{"variables of a unit are no shell", "[Service]\nEnvironment=A=x;y(z)#w\nExecStart=kube-controller-manager --cluster-name=${A}\n", []string{"--cluster-name=x;y(z)#w"}},
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
		"":                                      "contains no command line of kube-controller-manager",
		"ps aux | grep kube-controller-manager": "contains no command line of kube-controller-manager",
		"KCM=/usr/bin/kube-controller-manager\n$KCM --v=2":                              "contains no command line of kube-controller-manager",
		"kube-controller-manager --cluster-name=`hostname`":                             "the value of the variable in \"--cluster-name=`hostname`\" is not known here: replace it with its value",
		"kube-controller-manager --kubeconfig <(cat x) --v=2":                           `the value of the variable in "<(cat x)" is not known here: replace it with its value`,
		"kube-controller-manager --cluster-name=$(hostname -s) --v=2":                   `the value of the variable in "--cluster-name=$(hostname -s)" is not known here: replace it with its value`,
		"test -x /bin/kube-controller-manager && /bin/kube-controller-manager $OPTIONS": `the value of the variable in "$OPTIONS" is not known here: replace it with its value`,
		"ls -l":                            "contains no command line of kube-controller-manager",
		"kube-controller-manager --v='2":   "the command line ends within quotes or after a backslash",
		"kube-controller-manager $OPTIONS": `the value of the variable in "$OPTIONS" is not known here: replace it with its value`,
		"[Service]\nExecStart=/bin/true":   "the unit has no ExecStart of kube-controller-manager",
		"[Service]\nEnvironmentFile=-/etc/kcm\nExecStart=kube-controller-manager $ARGS": `the value of the variable in "$ARGS" is not known here: replace it with its value, which /etc/kcm may set`,
		"[Service]\nExecStart=kube-controller-manager --kubeconfig=%E/kcm.conf":         "reading ExecStart: the value of the specifier %E is not known here: replace it with its value",
		"[Service]\nEnvironment=A=%H\nExecStart=kube-controller-manager --v=$A":         `the value of the variable in "--v=$A" is not known here: replace it with its value`,
		"kube-controller-manager --v=${LEVEL}":                                          `the value of the variable in "--v=${LEVEL}" is not known here: replace it with its value`,
	} {
		if _, err := FromCommandLine(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// What a unit reads from files is known if the files are there.
func TestEnvironmentFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.env": "# flags\nLEVEL=2\n; more\nNAME=\"my own\"\nARGS=--leader-elect \\\n --profiling=false\r\nexport X='a\"b'\nSPACED= a b \nnothing\nMORE=x;\"y\"(z)\\ \"w\"\n",
		"b.env": "LEVEL=3\n", "c.conf": "LEVEL=4\nBROKEN='x\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unit := func(files ...string) string {
		text := "[Service]\nEnvironment=LEVEL=1\n"
		for _, file := range files {
			text += "EnvironmentFile=" + strings.Replace(file, "DIR", dir, 1) + "\n"
		}
		return text + "ExecStart=/usr/bin/kube-controller-manager --v=$LEVEL "
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"values", unit("DIR/a.env") + "--cluster-name=${NAME} $ARGS ${X} ${SPACED} ${MORE}\n", []string{"--v=2", "--cluster-name=my own", "--leader-elect", "--profiling=false", `a"b`, "a b", "x;y(z) w"}},
		{"the last one wins", unit("DIR/a.env", "DIR/b.env"), []string{"--v=3"}},
		{"several by a pattern", unit("-DIR/*.env") + "$ARGS", []string{"--v=3", "--leader-elect", "--profiling=false"}},
		{"one that is missing", unit("-DIR/none", "DIR/b.env"), []string{"--v=3"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := commandLine(test.text)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
	for file, want := range map[string]string{
		"DIR/none": "which " + dir + "/none may set", "DIR/c.conf": "which " + dir + "/c.conf may set", "DIR": "which " + dir + " may set",
		"DIR/b.env": `the value of the variable in "$OTHER" is not known here: replace it with its value`,
	} {
		if _, err := commandLine(unit(file) + "$OTHER"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func TestFromCommandLineConverts(t *testing.T) {
	result, err := FromCommandLine("kube-controller-manager --concurrent-gc-syncs=3")
	if err != nil || !strings.Contains(string(result.File), "concurrentSyncs: 3") {
		t.Errorf("%v, %v", result, err)
	}
}

func TestAManifestIsReadWhereACommandLineIsExpected(t *testing.T) {
	result, err := FromCommandLine("kind: Pod\nspec: {containers: [{name: a, command: [kube-controller-manager, --v=2]}]}\n")
	if err != nil || result.Config.Logging.Verbosity != 2 {
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
		{"a script", pod + "  - {name: a, command: [/bin/bash, -ec, \"mkdir -p /log; exec /usr/bin/kube-controller-manager --v=2\"]}\n"},
		{"a shell with options in another order", pod + "  - {name: a, command: [/bin/sh, -ce, 'exec kube-controller-manager --v=2']}\n"},
		{"a shell and its arguments", pod + "  - {name: a, command: [/bin/sh], args: [-c, 'sleep 1 && kube-controller-manager --v=2']}\n"},
		{"a unit after all", "[Service]\nExecStart=/usr/bin/kube-controller-manager --v=2\n"},
		{"not the first container", pod + "  - {name: b, command: [sleep]}\n  - {name: a, command: [kube-controller-manager, --v=2]}\n"},
		{"a variable that is not known in another container", pod + "  - {name: b, command: [sleep, $(L)], env: [{name: L, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}\n" +
			"  - {name: a, command: [kube-controller-manager, --v=2]}\n"},
		{"a variable", pod + "  - {name: a, command: [kube-controller-manager, --v=$(LEVEL)], env: [{name: LEVEL, value: '2'}]}\n"},
		{"a variable made of another one", pod + "  - {name: a, command: [kube-controller-manager, --v=$(B)], env: [{name: A, value: '2'}, {name: B, value: $(A)}]}\n"},
		{"a variable that is set twice", pod + "  - {name: a, command: [kube-controller-manager, --v=$(A)], env: [{name: A, value: '1'}, {name: A, value: '2'}]}\n"},
		{"a variable that is not used", pod + "  - {name: a, command: [kube-controller-manager, --v=2], env: [{name: A, value: $(B)}], envFrom: [{configMapRef: {name: x}}]}\n"},
		{"the output of a command in a shell", pod + "  - {name: a, command: [sh, -c, 'cd $(dirname); exec kube-controller-manager --v=2']}\n"},
		{"a folder with the name of the program", pod + "  - {name: a, command: [/go-runner, --log-file=/log/kube-controller-manager, /bin/kube-controller-manager, --v=2]}\n"},
		{"a list, as kubectl prints it", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec: {containers: [{name: a, command: [kube-controller-manager, --v=2]}]}\n"},
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
			`"--v=$(L)" is not in the manifest: replace it with its value`,
		"kind: Pod\nspec: {containers: [{name: a, command: [kube-controller-manager, --cluster-name=$(A)], env: [{name: A, value: x-$(B)}, {name: B, value: q}]}]}\n": "container a: the value of $(A) in " +
			`"--cluster-name=$(A)" is not in the manifest: replace it with its value`,
		"kind: Pod\nspec: {containers: [{name: a, command: [kube-controller-manager, --master=https://$(KUBERNETES_SERVICE_HOST)]}]}\n": "container a: the value of $(KUBERNETES_SERVICE_HOST) in " +
			`"--master=https://$(KUBERNETES_SERVICE_HOST)" is not in the manifest: replace it with its value`,
		"kind: Pod\nspec: {containers: [{name: a, command: [kube-controller-manager, --cluster-name=$(A)], envFrom: [{configMapRef: {name: x}}]}]}\n": "container a: the value of $(A) in " +
			`"--cluster-name=$(A)" is not in the manifest: replace it with its value`,
		"kind: Pod\nspec: {containers: [{name: a, command: [sh, -c, 'kube-controller-manager $FLAGS']}]}\n": "container a: the value of the variable in " +
			`"$FLAGS" is not known here: replace it with its value`,
		"- kind: Pod\n":           "reading the manifest: a document must be an object, not array",
		"kind: Pod\nspec: none\n": "reading the manifest: spec must be an object, not string",
		`{"kind": "Pod", "spec": {"containers": [{"command": "kube-controller-manager"}]}}`: "reading the manifest: spec.containers.command must be an array, not string",
		"kind: List\nitems: [{spec: {containers: [{name: 3}]}}]\n":                          "reading the manifest: items.spec.containers.name must be a string, not number",
		"kind: Pod\nspec: {containers: [{stdin: a}]}\n":                                     "reading the manifest: spec.containers.stdin must be a boolean, not string",
		"kind: Pod\nspec: {containers: [{ports: [{containerPort: a}]}]}\n":                  "reading the manifest: spec.containers.ports.containerPort must be a number, not string",
		"---\n---\n": "the manifest has no pod with containers",
	} {
		if _, err := FromManifest([]byte(manifest)); err == nil || err.Error() != want {
			t.Errorf("%s\n%v\nwant\n%s", manifest, err, want)
		}
	}
	if _, err := FromManifest([]byte("a: [")); err == nil || !strings.HasPrefix(err.Error(), "reading the manifest: ") {
		t.Errorf("no YAML: %v", err)
	}
}

// Values that refer twice to the one above double with each line of the manifest.
func TestVariablesOfAManifestAreLimited(t *testing.T) {
	var manifest strings.Builder
	manifest.WriteString("kind: Pod\nspec:\n  containers:\n  - name: a\n    command: [kube-controller-manager, --cluster-name=$(A24)]\n    env:\n    - {name: A0, value: x}\n")
	for n := range 24 {
		fmt.Fprintf(&manifest, "    - {name: A%d, value: $(A%d)$(A%d)}\n", n+1, n, n)
	}
	_, err := FromManifest([]byte(manifest.String()))
	if err == nil || !strings.Contains(err.Error(), "the value of $(A24)") {
		t.Errorf("16 MiB are the name of a cluster: %v", err)
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
