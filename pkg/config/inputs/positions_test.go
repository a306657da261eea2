package inputs

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/problem"
)

// faulty has mistakes at words that occur once: what is reported is known by the word at
// the position.
const faulty = `apiVersion: config.kcmd.dev/v1beta1
kind: KubeControllerManagerConfiguration

# ä comment with 'quotes', "quotes" and a \ backslash
leaderElection: {identity: "a ü identity", resourceNam: x}
resync: {minPeriod: 3ms}
controllers:
  deployment-controler:

    concurrentSyncs: 20
  replicaset-controller:
    enabled: 'perhaps'
    concurrentSyncs: 4711
`

var faultyWords = []string{`"a ü identity"`, "resourceNam", "3ms", "deployment-controler", "'perhaps'", "4711"}

func read(files map[string]string) Finder {
	return Finder{Read: func(name string) ([]byte, error) {
		content, ok := files[name]
		if !ok {
			return nil, os.ErrNotExist
		}
		return []byte(content), nil
	}}
}

// indent puts spaces before each line that is not empty.
func indent(text string, spaces int) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = strings.Repeat(" ", spaces) + line
		}
	}
	return strings.Join(lines, "")
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// doubled has every line break twice: what is folded reads as it was.
func doubled(text string) string { return strings.ReplaceAll(text, "\n", "\n\n") }

// Whatever the style of the value, positions are those of the manifest.
func TestPositionsAreThoseOfTheManifest(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kcm, namespace: kube-system}\ndata:\n"
	// Leading spaces are lost in single quotes.
	single := strings.ReplaceAll(`{"apiVersion": "config.kcmd.dev/v1beta1", "kind": "KubeControllerManagerConfiguration",

leaderElection: {identity: "a ü identity", resourceNam: x},
resync: {minPeriod: 3ms}, controllers: {deployment-controler: {},
replicaset-controller: {enabled: 'perhaps', concurrentSyncs: 4711}}}`, "'", "''")
	pretty, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "List", "items": []any{
			map[string]any{"kind": "Secret", "apiVersion": "v1"},
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "kcm", "namespace": "kube-system"},
				"data": map[string]any{"a": "other", "config.yaml": faulty}},
		},
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]string{
		"literal":                head + "  other: x\n  config.yaml: |\n" + indent(faulty, 4) + "  more: y\n",
		"literal, stripped":      head + "  config.yaml: |-\n" + indent(faulty, 4),
		"literal, kept":          head + "  config.yaml: |+ # a comment\n" + indent(faulty, 10) + "\n\n",
		"literal, indent given":  head + "  config.yaml: |2\n" + indent(faulty, 4),
		"literal, blank at head": head + "  config.yaml: |\n\n\n" + indent(faulty, 4),
		"literal, Windows":       strings.ReplaceAll(head+"  config.yaml: |\n"+indent(faulty, 4), "\n", "\r\n"),
		"literal, anchored":      head + "  config.yaml: &c |\n" + indent(faulty, 4),
		"folded":                 head + "  config.yaml: >\n" + indent(doubled(faulty), 4),
		"single quotes":          head + "  config.yaml: '" + strings.ReplaceAll(single, "\n", "\n    ") + "'\n",
		"double quotes":          head + "  config.yaml: " + quoted(t, faulty) + "\n",
		"double quotes, on several lines": head + "  config.yaml: \"" +
			strings.NewReplacer(`\n `, "\\n\\\n      \\ ", `\n`, "\\n\\\n      ").Replace(quoted(t, faulty)[1:]) + "\n",
		"tagged":            head + "  config.yaml: !!str &x\n    " + quoted(t, faulty) + "\n",
		"JSON":              string(pretty),
		"in a stream":       "# Source: chart\n---\nkind: Service\napiVersion: v1\n---\n" + head + "  config.yaml: |\n" + indent(faulty, 4) + "---\nkind: Pod\n",
		"after a byte mark": "\ufeff" + head + "  config.yaml: |\n" + indent(faulty, 4),
		"in a list of YAML": "kind: List\napiVersion: v1\nitems:\n- " + strings.TrimLeft(indent(head+"  config.yaml: |\n"+indent(faulty, 4), 2), " "),
	}
	for name, manifest := range manifests {
		t.Run(name, func(t *testing.T) {
			found := read(map[string]string{"m.yaml": manifest}).Find("m.yaml")
			if len(found.Inputs) != 1 || len(found.Problems) != 0 {
				t.Fatalf("found %+v in\n%s", found, manifest)
			}
			in := found.Inputs[0]
			if in.Object != "ConfigMap kube-system/kcm" || in.Key != "data[config.yaml]" {
				t.Errorf("it is said to be %s of %s", in.Key, in.Object)
			}
			checkWords(t, in, manifest, faultyWords)
		})
	}
}

// checkWords checks that the problems of an input are at these words of the file.
func checkWords(t *testing.T, in Input, source string, words []string) {
	t.Helper()
	document, problems := in.Load()
	if document != nil || len(problems) != len(words) {
		t.Fatalf("%d problems, want %d:\n%v", len(problems), len(words), problems)
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(source, "\ufeff"), "\r\n", "\n"), "\n")
	for i, p := range problems {
		if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len([]rune(lines[p.Line-1])) {
			t.Errorf("the problem %v is outside of the file", p)
			continue
		}
		got := string([]rune(lines[p.Line-1])[p.Column-1:])
		want := words[i]
		if !strings.HasPrefix(got, want) && !strings.HasPrefix(strings.NewReplacer(`\"`, `"`, "''", "'").Replace(got), want) {
			t.Errorf("the problem %v points to %q, want %q", p, got, want)
		}
		if strings.Contains(p.Message, " of the value of ") {
			t.Errorf("the place is not exact: %v", p)
		}
	}
}

// Where the place cannot be told exactly, the key is named, and the line in the value.
func TestInexactPositionsAreAtTheKey(t *testing.T) {
	manifests := map[string]string{
		"base64": "kind: ConfigMap\napiVersion: v1\nbinaryData:\n  c: YXBpVmVyc2lvbjogY29uZmlnLmtjbWQuZGV2L3YxYmV0YTEKa2luZDogS3ViZUNvbnRyb2xs\n" +
			"     ZXJNYW5hZ2VyQ29uZmlndXJhdGlvbgpyZXN5bmM6IHttaW5QZXJpb2Q6IDNtc30K\n",
	}
	for name, manifest := range manifests {
		t.Run(name, func(t *testing.T) {
			found := read(map[string]string{"m.yaml": manifest}).Find("m.yaml")
			if len(found.Inputs) != 1 {
				t.Fatalf("found %+v", found)
			}
			_, problems := found.Inputs[0].Load()
			if len(problems) != 1 || problems[0].Position != (problem.Position{Line: 4, Column: 3}) ||
				!strings.Contains(problems[0].Message, "(line 3, column 21 of the value of ") {
				t.Errorf("problems are %+v, want one at the key in line 4", problems)
			}
		})
	}
}

// Positions in a stream are those of the stream.
func TestPositionsInAStream(t *testing.T) {
	stream := "kind: Pod\n---\n# first\n" + faulty + "...\n# between\n--- # second\n" + faulty
	found := read(map[string]string{"s.yaml": stream}).Find("s.yaml")
	if len(found.Inputs) != 2 || found.Skipped != 1 {
		t.Fatalf("found %+v", found)
	}
	for i, in := range found.Inputs {
		if in.Document != i+2 {
			t.Errorf("input %d is document %d", i, in.Document)
		}
		checkWords(t, in, stream, faultyWords)
	}
}

// Any value of a manifest is placed exactly or not at all, whatever it holds.
func FuzzTextMap(f *testing.F) {
	for _, seed := range []string{"kind: x", "a: 'b'\n  c: |\n d", "\"a\\n\\u00e4\\x41 \\\n  b\"", ">\n a\n b\n\n  c\n", "|2\n   x\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, scalar string) {
		manifest := "data:\n  k: " + scalar + "\n"
		root, err := parse([]byte(manifest))
		if err != nil || root == nil {
			return
		}
		v := resolve(value(resolve(value(root, "data")), "k"))
		m := newTextMap(v, []byte(manifest))
		for l, line := range strings.Split(v.Value, "\n") {
			column := 0
			for _, char := range line {
				column++
				at, exact := m.place(problem.Position{Line: l + 1, Column: column})
				if !exact || isSpace(char) {
					continue
				}
				if got := charAt(manifest, at); got != char && got != '\\' && got != '\'' {
					t.Errorf("%q: %q at %d:%d is said to be at %+v, where there is %q", manifest, char, l+1, column, at, got)
				}
			}
		}
	})
}

func charAt(text string, at problem.Position) rune {
	lines := strings.Split(text, "\n")
	if at.Line < 1 || at.Line > len(lines) {
		return 0
	}
	line := []rune(lines[at.Line-1])
	if at.Column < 1 || at.Column > len(line) {
		return 0
	}
	return line[at.Column-1]
}
