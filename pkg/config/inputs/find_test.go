package inputs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"kcmd.dev/pkg/config/problem"
)

const valid = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

const (
	pod       = "apiVersion: v1\nkind: Pod\n"
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: 'y: z'\n  config.yaml: |\n    apiVersion: config.kcmd.dev/v1beta1\n    kind: KubeControllerManagerConfiguration\n"
	otherMap  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: c}\ndata: {x: 'y: z'}\n"
	template  = "kind: {{ .Values.kind }\n  a: - b\n"
)

func labels(found Found) []string {
	var out []string
	for _, in := range found.Inputs {
		out = append(out, in.Label())
	}
	return out
}

func TestFindInAFile(t *testing.T) {
	tests := []struct {
		name, content string
		want          []string
		skipped       int
		problem       string
	}{
		{"a configuration", valid, []string{"f"}, 0, ""},
		{"a configuration after a marker", "# x\n---\n" + valid + "---\n# nothing\n", []string{"f"}, 0, ""},
		{"JSON", `{"apiVersion": "config.kcmd.dev/v1beta1", "kind": "KubeControllerManagerConfiguration"}`, []string{"f"}, 0, ""},
		{"upstream's", "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n", []string{"f"}, 0, ""},
		{"a ConfigMap", configMap, []string{"f: ConfigMap a, data[config.yaml]"}, 0, ""},
		{"a List", "kind: List\napiVersion: v1\nitems:\n- {kind: Pod}\n- kind: ConfigMap\n  metadata: {name: l}\n  data:\n    a: '" +
			strings.ReplaceAll(valid, "\n", "\n\n     ") + "'\n", []string{"f: ConfigMap l, data[a]"}, 1, ""},
		{"a List with other ConfigMaps", "kind: List\nitems:\n- {kind: ConfigMap, metadata: {name: o}, data: {a: b}}\n- kind: ConfigMap\n  metadata: {name: l}\n  data:\n    a: '" +
			strings.ReplaceAll(valid, "\n", "\n\n     ") + "'\n", []string{"f: ConfigMap l, data[a]"}, 1, ""},
		{"a List of other ConfigMaps", "kind: List\nitems: [{kind: ConfigMap, metadata: {name: o}, data: {a: b}}, {kind: ConfigMap}]\n",
			nil, 2, "f: contains no configuration: its 2 documents have other kinds"},
		{"two values", strings.Replace(configMap, "  x: 'y: z'", "  x: \"apiVersion: config.kcmd.dev/v1\"", 1),
			[]string{"f: ConfigMap a, data[x]", "f: ConfigMap a, data[config.yaml]"}, 0, ""},
		{"a stream", pod + "---\n" + valid + "---\n" + otherMap + "--- # x\n" + configMap + "\n---\n",
			[]string{"f: document 2", "f: ConfigMap a, data[config.yaml]"}, 2, ""},
		{"a broken document in a stream", pod + "---\n" + template + "---\n" + valid, []string{"f: document 3"}, 2, ""},
		{"a broken configuration in a stream", pod + "---\n" + valid + " x\n", []string{"f: document 2"}, 1, ""},
		{"directives", "%YAML 1.1\n---\n" + valid + "...\n%YAML 1.1\n---\n" + valid, []string{"f: document 1", "f: document 2"}, 0, ""},
		{"something else is said to be wrong by Load", pod, []string{"f"}, 0, ""},
		{"nothing", "", []string{"f"}, 0, ""},
		{"a scalar", "hello", []string{"f"}, 0, ""},
		{"a template", template, []string{"f"}, 0, ""},
		{"a stream of something else", pod + "---\n" + pod, nil, 2, "f: contains no configuration: its 2 documents have other kinds"},
		{"a ConfigMap of something else", otherMap, nil, 1, "f: ConfigMap c/b contains no configuration in its data"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := read(map[string]string{"f": test.content}).Find("f")
			if got := labels(found); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			if found.Skipped != test.skipped || found.Problems.Error() != test.problem {
				t.Errorf("skipped %d, problems %q, want %d and %q", found.Skipped, found.Problems.Error(), test.skipped, test.problem)
			}
		})
	}
}

// The value of a variable that is not set is no file, and its problem has to name something.
func TestAnEmptyNameIsNoFile(t *testing.T) {
	found := read(nil).Find("")
	if want := `"": is empty: must be the name of a file or folder, or - for the standard input`; found.Problems.Error() != want {
		t.Errorf("problems are %q, want %q", found.Problems.Error(), want)
	}
}

// The document of a stream is what config.Load gets, and the process does not read streams.
func TestInputsOfAStreamLoad(t *testing.T) {
	found := read(map[string]string{"f": pod + "---\n# x\n" + valid + "---\n" + configMap}).Find("f")
	for _, in := range found.Inputs {
		document, problems := in.Load()
		if document == nil {
			t.Fatalf("%s is not valid: %v", in.Label(), problems)
		}
		want := ""
		if in.Object == "" {
			want = "f:5:1: the process reads files with one document only: put this one into its own file or ConfigMap"
		}
		if problems.Error() != want {
			t.Errorf("problems of %s are %q, want %q", in.Label(), problems, want)
		}
	}
}

// A document without content hides neither the configuration after it nor its version.
func TestAConfigurationAfterAnEmptyDocument(t *testing.T) {
	found := read(map[string]string{"f": "---\n# nothing\n---\n" + valid}).Find("f")
	if len(found.Inputs) != 1 {
		t.Fatalf("found %q", labels(found))
	}
	if version := found.Inputs[0].APIVersion(); version != "config.kcmd.dev/v1beta1" {
		t.Errorf("the version is %q", version)
	}
	if document, problems := found.Inputs[0].Load(); document == nil || len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}

func TestFindInAFolder(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{
		"a.yaml": valid, "deep/er/b.yml": configMap, "c.json": `{"kind": "KubeControllerManagerConfiguration"}`, "pod.yaml": pod,
		"template.yaml": template, "notes.txt": valid, ".hidden.yaml": valid, ".git/d.yaml": valid, "empty.yaml": "",
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// As the kubelet mounts a ConfigMap, and a folder that contains itself.
	for link, target := range map[string]string{"mounted.yaml": ".git/d.yaml", "loop.yaml": "."} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := Finder{Read: os.ReadFile}
	found := f.Find(root)
	var want []string
	for _, name := range []string{"a.yaml", "c.json", "deep/er/b.yml: ConfigMap a, data[config.yaml]", "mounted.yaml"} {
		want = append(want, filepath.Join(root, name))
	}
	if got := labels(found); !slices.Equal(got, want) || found.Skipped != 2 || len(found.Problems) != 0 {
		t.Errorf("found %q, skipped %d, problems %v, want %q, 2 and none", got, found.Skipped, found.Problems, want)
	}

	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(root, linked); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i] = strings.Replace(want[i], root, linked, 1)
	}
	if found := f.Find(linked); !slices.Equal(labels(found), want) || len(found.Problems) != 0 {
		t.Errorf("a link to the folder: found %q, problems %v, want %q", labels(found), found.Problems, want)
	}

	empty := filepath.Join(root, "empty")
	if err := os.Mkdir(empty, 0o750); err != nil {
		t.Fatal(err)
	}
	if got, want := f.Find(empty).Problems.Error(), empty+": contains no configuration: 0 files (*.yaml, *.yml, *.json) were checked"; got != want {
		t.Errorf("problems of an empty folder are %q, want %q", got, want)
	}
	f.Read = func(string) ([]byte, error) { return nil, errors.New("broken") }
	if got := f.Find(root); len(got.Problems) != 7 || len(got.Inputs) != 0 {
		t.Errorf("found %+v among files that cannot be read, want a problem for each", got)
	}
}

func TestFindOnTheStandardInput(t *testing.T) {
	f := Finder{Stdin: strings.NewReader(configMap)}
	if got := labels(f.Find(Stdin)); !slices.Equal(got, []string{"stdin: ConfigMap a, data[config.yaml]"}) {
		t.Errorf("found %q", got)
	}
	f.Stdin = iotest.ErrReader(errors.New("broken pipe"))
	if got := f.Find(Stdin).Problems.Error(); got != "stdin: reading standard input: broken pipe" {
		t.Errorf("problems are %q", got)
	}
	f.Stdin = endless{}
	if got, want := f.Find(Stdin).Problems.Error(), fmt.Sprintf("stdin: has more than %d bytes", MaxFileBytes); got != want {
		t.Errorf("problems are %q, want %q", got, want)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "# a"), nil }

func TestAMissingFile(t *testing.T) {
	f := Finder{Read: os.ReadFile}
	name := filepath.Join(t.TempDir(), "none.yaml")
	_, err := os.ReadFile(name)
	if err == nil {
		t.Fatal("the file exists")
	}
	want := problem.Errors{{File: name, Message: "no such file or directory", Severity: problem.SeverityError}}
	if got := f.Find(name); got.Problems.Error() != want.Error() {
		t.Errorf("problems are %q, want %q", got.Problems, want)
	}
}
