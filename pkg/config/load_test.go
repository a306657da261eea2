package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
)

// header is what every good file starts with; the rest starts in line 3.
const header = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

// problemsOf returns what Load reports, warnings included, one per line.
func problemsOf(t *testing.T, text string) string {
	t.Helper()
	doc, err := Load("f.yaml", []byte(text))
	if err != nil {
		var problems problem.Errors
		if !errors.As(err, &problems) || doc != nil {
			t.Fatalf("Load returned document %v and an error of type %T, want no document and Errors", doc, err)
		}
		return problems.Error()
	}
	return doc.Warnings.Error()
}

func TestLoadReportsBadFiles(t *testing.T) {
	minimum := "a configuration needs at least\n  apiVersion: config.kcmd.dev/v1beta1\n  kind: KubeControllerManagerConfiguration"
	tests := []struct {
		name, text, want string
	}{
		{"empty", "", "f.yaml:1:1: an empty file is not a configuration: " + minimum},
		{"white space", " \n\t\n", "f.yaml:1:1: an empty file is not a configuration: " + minimum},
		{"comments only", "# nothing\n", "f.yaml:1:1: a file without content is not a configuration: " + minimum},
		{"null", "~\n", "f.yaml:1:1: a file without content is not a configuration: " + minimum},
		{"list", "- a\n", "f.yaml:1:1: the file must be a mapping, not a list: " + minimum},
		{"word", "hello\n", `f.yaml:1:1: the file must be a mapping, not the string "hello": ` + minimum},
		{"invalid UTF-8", header + "# \xff\n", "f.yaml:3:3: invalid UTF-8 byte 0xff: the file must be UTF-8 text"},
		{"NUL", header + "resync: \x00\n", "f.yaml:3:9: NUL byte: the file must be UTF-8 text"},
		{"control character", header + "resync: \x01\n", "f.yaml:3:9: control character U+0001 is not allowed"},
		{"tab", header + "resync:\n\tminPeriod: 1h\n", "f.yaml:4:1: tab character in the indentation: YAML is indented with spaces"},
		{"tab after spaces", header + "resync:\n  minPeriod: 1h\n \tx: 1\n", "f.yaml:5:2: tab character in the indentation: YAML is indented with spaces"},
		{"half-written key", header + "leaderElection:\n  leaseDur", `f.yaml:4:3: leaderElection: must be a mapping with fields such as leaderElect, not the string "leaseDur"`},
		{"half-written second key", header + "leaderElection:\n  retryPeriod: 1s\n  leaseDur", "f.yaml:5:3: not valid YAML: could not find expected ':'"},
		{"half-written quote", header + "clientConnection:\n  kubeconfig: \"/etc/ku", "f.yaml:4:15: not valid YAML: found unexpected end of stream"},
		{"half-written flow", header + "resync: {minPeriod: 1h\n", "f.yaml:3:9: not valid YAML: did not find expected ',' or '}'"},
		{"bad indentation", header + "resync:\n  minPeriod: 1h\n reload: {}\n", "f.yaml:5:2: not valid YAML: did not find expected key: is this line indented like those that it belongs to?"},
		{"two values", header + "resync: a: b\n", "f.yaml:3:10: not valid YAML: mapping values are not allowed in this context"},
		{"unknown anchor", header + "resync: *base\n", "f.yaml:3:9: not valid YAML: no anchor &base is defined before this alias"},
		{"anchor in itself", header + "resync: &a {minPeriod: *a}\n", "f.yaml:3:9: resync.minPeriod: the anchor &a contains itself"},
		{"two documents", header + "---\nkind: Pod\n", "f.yaml:3:1: a second document starts here: a configuration is one document, remove the --- and what follows"},
		{"third document after an empty one", header + "---\n# nothing\n---\nkind: Pod\n", "f.yaml:5:1: a second document starts here: a configuration is one document, remove the --- and what follows"},
		{"tag of a mapping", header + "resync: !x {minPeriod: 1h}\n", "f.yaml:3:9: resync: the tag !x is not allowed"},
		{"tag of a list", header + "pausedNamespaces: !!set [a]\n", "f.yaml:3:19: pausedNamespaces: the tag !!set is not allowed"},
		{"broken second document", header + "---\n{\n", "f.yaml:5:1: not valid YAML: did not find expected node content"},
		{"custom tag", header + "resync: !!binary aGk=\n", "f.yaml:3:9: resync: the tag !!binary is not allowed"},
		{"value against its tag", header + "clientConnection: {burst: !!int x}\n", `f.yaml:3:27: clientConnection.burst: "x" does not match its tag !!int`},
		{"mapping as key", header + "? {a: b}\n: c\n", "f.yaml:3:3: a key must be a plain word"},
		{"merge of a word", header + "resync: {<<: word}\n", `f.yaml:3:14: resync: << merges mappings only, not the string "word"`},
		{"merge of nothing", header + "resync: {<<: [~]}\n", "f.yaml:3:15: resync: << merges mappings only, not nothing"},
		{"merge of what has a tag", header + "resync: {<<: [!x {minPeriod: 1h}]}\n", "f.yaml:3:15: resync[0]: the tag !x is not allowed"},
		{"tag of an element", header + "pausedNamespaces: [a, !x b, !x [c]]\n", "f.yaml:3:23: pausedNamespaces[1]: the tag !x is not allowed\n" +
			"f.yaml:3:29: pausedNamespaces[2]: the tag !x is not allowed"},
		{"duplicate key", header + "resync: {}\nreload: {}\nresync: {}\n", "f.yaml:5:1: resync: duplicate key, first set on line 3"},
		{"duplicate feature gate", header + "featureGates: {PodDeletionCost: true, PodDeletionCost: false}\n",
			"f.yaml:3:39: featureGates.PodDeletionCost: duplicate key, first set on line 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if difference := cmp.Diff(test.want, problemsOf(t, test.text)); difference != "" {
				t.Errorf("problems (-want +got):\n%s", difference)
			}
		})
	}
}

func TestLoadReportsWrongVersion(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"no apiVersion", "kind: KubeControllerManagerConfiguration\n",
			`f.yaml:1:1: apiVersion: is missing: must be "config.kcmd.dev/v1beta1"`},
		{"no kind", "apiVersion: config.kcmd.dev/v1beta1\n",
			`f.yaml:1:1: kind: is missing: must be "KubeControllerManagerConfiguration"`},
		{"neither, and more", "resink: {}\n",
			`f.yaml:1:1: apiVersion: is missing: must be "config.kcmd.dev/v1beta1"` + "\n" +
				`f.yaml:1:1: kind: is missing: must be "KubeControllerManagerConfiguration"` + "\n" +
				`f.yaml:1:1: resink: unknown field, did you mean "resync"?`},
		{"empty kind", "apiVersion: config.kcmd.dev/v1beta1\nkind: ''\n",
			`f.yaml:2:7: kind: is empty: must be "KubeControllerManagerConfiguration"`},
		{"near version, and more", "apiVersion: config.kcmd.dev/v1beta2\nkind: KubeControllerManagerConfiguration\nresink: {}\n",
			`f.yaml:1:13: apiVersion: unknown value "config.kcmd.dev/v1beta2", did you mean "config.kcmd.dev/v1beta1"?` + "\n" +
				`f.yaml:3:1: resink: unknown field, did you mean "resync"?`},
		{"something else altogether", "apiVersion: v1\nkind: Pod\nspec: {}\n",
			`f.yaml:1:13: apiVersion: must be "config.kcmd.dev/v1beta1", not "v1"` + "\n" +
				`f.yaml:2:7: kind: must be "KubeControllerManagerConfiguration", not "Pod"`},
		{"number", "apiVersion: 1\nkind: KubeControllerManagerConfiguration\n",
			`f.yaml:1:13: apiVersion: must be a string, not the number 1: write "1"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if difference := cmp.Diff(test.want, problemsOf(t, test.text)); difference != "" {
				t.Errorf("problems (-want +got):\n%s", difference)
			}
		})
	}
}

// Pins MGR-26.
func TestLoadReportsEverythingAtOnceByPosition(t *testing.T) {
	text := header + `leaderElecton: {}
leaderElection:
  leaseDuration: 5
  renewDeadline: 20s
  leaderElect: yes
resync:
controllers:
  deployment: {}
  xyzzy: {concurrentSyncs: 3}
  deploymnt-controller: {}
  replicaset-controller:
    concurrentSyncs: 0
    consurrentSyncs: 3
featureGates: {PodDeletionCots: true}
clientConnection: {burst: 5, kubeconfig: 12}
`
	want := `f.yaml:3:1: leaderElecton: unknown field, did you mean "leaderElection"?
f.yaml:5:18: leaderElection.leaseDuration: must be a duration such as 500ms, 10s, 5m or 1h30m, not the number 5: did you mean 5s?
f.yaml:7:16: warning: leaderElection.leaderElect: yes is read as true: write true
f.yaml:8:8: warning: resync: is empty and has no effect: set a value or remove it
f.yaml:10:3: controllers.deployment: "deployment" is a former name: write "deployment-controller"
f.yaml:11:3: controllers.xyzzy: unknown controller: none has this or a similar name
f.yaml:12:3: controllers.deploymnt-controller: unknown controller, did you mean "deployment-controller"?
f.yaml:14:22: controllers.replicaset-controller.concurrentSyncs: must be 1 to 1000, not 0
f.yaml:15:5: controllers.replicaset-controller.consurrentSyncs: unknown field, did you mean "concurrentSyncs"?
f.yaml:16:16: featureGates.PodDeletionCots: unknown feature gate, did you mean "PodDeletionCost"?
f.yaml:17:27: clientConnection.burst: must be 0 without qps, not 5: set clientConnection.qps too, or remove burst
f.yaml:17:42: clientConnection.kubeconfig: must be a string, not the number 12: write "12"`
	for range 20 { // the order of maps must not show
		if difference := cmp.Diff(want, problemsOf(t, text)); difference != "" {
			t.Fatalf("problems (-want +got):\n%s", difference)
		}
	}
}

// anchorsBomb is a short text that aliases expand to 9^26 words.
func anchorsBomb() []byte {
	bomb := header + "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i <= 'z'; i++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 9), ","))
	}
	return []byte(bomb)
}

func TestLoadIsBounded(t *testing.T) {
	var manyUnknown strings.Builder
	manyUnknown.WriteString(header)
	for i := range 15_000 {
		fmt.Fprintf(&manyUnknown, "unknownField%d: 1\n", i)
	}
	tests := []struct {
		name     string
		text     []byte
		wantLast string
	}{
		{"10 MB", bytes.Repeat([]byte("a: b\n"), 2<<20), "f.yaml:1:1: the file has 10485760 bytes: a configuration has at most 1048576"},
		{"anchors bomb", anchorsBomb(), "aliases expand to more than 10000 values"},
		{"flow nesting", []byte(header + "resync: " + strings.Repeat("[", 100) + strings.Repeat("]", 100)), "nested deeper than 64 levels"},
		{"extreme nesting", bytes.Repeat([]byte("["), separators), "f.yaml:1:1: not valid YAML: exceeded max depth of 10000"},
		{"everything unknown", []byte(manyUnknown.String()), "and more: only the first 1000 errors are shown"},
		{"only bad bytes", bytes.Repeat([]byte{0xff}, MaxFileBytes), "f.yaml:1:1000: and more: only the first 1000 errors are shown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := loadBounded(t, test.text)
			if err == nil {
				t.Fatal("Load accepted the file")
			}
			lines := strings.Split(err.Error(), "\n")
			if last := lines[len(lines)-1]; !strings.HasSuffix(last, test.wantLast) {
				t.Errorf("last problem is %q, want it to end in %q", last, test.wantLast)
			}
			if len(lines) > 1001 {
				t.Errorf("%d problems reported", len(lines))
			}
		})
	}
}

// Warnings never keep a file from being used, however many there are, and errors are not lost
// among them.
func TestManyWarningsAreNoError(t *testing.T) {
	var names strings.Builder
	for i := range 1_500 {
		fmt.Fprintf(&names, "n%d,", i)
	}
	text := header + "pausedNamespaces: [" + names.String() + "]\ncontrollers: {job-controller: {pausedNamespaces: [" + names.String() + "]}}\n"
	doc, err := Load("f.yaml", []byte(text))
	if err != nil {
		t.Fatalf("Load rejected a file without errors: %.300s", err)
	}
	const more = "warning: and more: only the first 1000 warnings are shown"
	if last := doc.Warnings[len(doc.Warnings)-1].Error(); len(doc.Warnings) != 1001 || !strings.HasSuffix(last, more) {
		t.Errorf("%d warnings, the last is %q", len(doc.Warnings), last)
	}
	if problems := problemsOf(t, text+"deletionBreaker: {mode: Warn, share: 0}\n"); !strings.Contains(problems, "deletionBreaker.share: must be 1 to 100, not 0") || !strings.HasSuffix(problems, more) {
		t.Errorf("an error is lost among warnings: %.300s", problems)
	}
}

func TestLoadBombUsesLittleMemory(t *testing.T) {
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Load("f.yaml", anchorsBomb()); err == nil {
				b.Fatal("Load accepted the bomb")
			}
		}
	})
	t.Logf("%s, %d bytes per Load", result, result.AllocedBytesPerOp())
	if got := result.AllocedBytesPerOp(); got > 32<<20 {
		t.Errorf("Load allocated %d bytes", got)
	}
}

func TestLoadAcceptsSpellings(t *testing.T) {
	want, err := Load("f.yaml", []byte(header+"leaderElection: {leaderElect: false, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 8}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"JSON": "{\n\t\"apiVersion\": \"config.kcmd.dev/v1beta1\", \"kind\": \"KubeControllerManagerConfiguration\",\n" +
			"\t\"leaderElection\": {\"leaderElect\": false, \"leaseDuration\": \"20s\"},\n\t\"controllers\": {\"deployment-controller\": {\"concurrentSyncs\": 8}}\n}\n",
		"byte order mark":   "\ufeff" + header + "leaderElection: {leaderElect: false, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 8}}\n",
		"one marker":        "---\n" + header + "leaderElection: {leaderElect: false, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 8}}\n---\n",
		"CRLF":              strings.ReplaceAll(header, "\n", "\r\n") + "leaderElection: {leaderElect: false, leaseDuration: 20s}\r\ncontrollers: {deployment-controller: {concurrentSyncs: 8}}\r\n",
		"YAML 1.1 boolean":  header + "leaderElection: {leaderElect: off, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 8}}\n",
		"octal":             header + "leaderElection: {leaderElect: no, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 0o10}}\n",
		"hexadecimal":       header + "leaderElection: {leaderElect: false, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 0x8}}\n",
		"whole float":       header + "leaderElection: {leaderElect: n, leaseDuration: 20s}\ncontrollers: {deployment-controller: {concurrentSyncs: 8.0}}\n",
		"anchors and merge": header + "leaderElection: {leaderElect: FALSE, leaseDuration: &d 20s}\ncontrollers:\n  deployment-controller: {concurrentSyncs: 8}\n  replicaset-controller: &c {concurrentSyncs: 5}\n  replicationcontroller-controller: {<<: *c}\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			doc, err := Load("f.yaml", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want.Config, doc.Config); difference != "" {
				t.Errorf("configuration (-want +got):\n%s", difference)
			}
			// What sigs.k8s.io/yaml makes of the same bytes.
			other := &v1beta1.KubeControllerManagerConfiguration{}
			text = strings.TrimSuffix(strings.TrimPrefix(text, "\ufeff"), "---\n")
			if err := yaml.UnmarshalStrict([]byte(text), other); err != nil {
				t.Fatal(err)
			}
			v1beta1.SetDefaults(other)
			if difference := cmp.Diff(other, doc.Config); difference != "" {
				t.Errorf("configuration (-sigs.k8s.io/yaml +got):\n%s", difference)
			}
		})
	}
}

func TestPositionOfFields(t *testing.T) {
	doc, err := Load("f.yaml", []byte(header+"serving:\n  tls:\n    minVersion: VersionTLS13\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]problem.Position{
		"serving.tls.minVersion":          {Line: 5, Column: 17},
		"serving.tls.certFile":            {Line: 4, Column: 3}, // not set: the block around it
		"serving.tls":                     {Line: 5, Column: 5},
		"clientConnection.kubeconfig":     {Line: 1, Column: 1},
		"serving.authentication.cacheTTL": {Line: 3, Column: 1},
	} {
		if got := doc.Position(path); got != want {
			t.Errorf("Position(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestSamplesLoadWithoutWarnings(t *testing.T) {
	const schema = "schemas/kubecontrollermanagerconfiguration-v1beta1.schema.json"
	samples := 0
	err := filepath.WalkDir("../../configs", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\n"+string(data), "\napiVersion: "+v1beta1.APIVersion+"\n") {
			return err
		}
		samples++
		root, err := filepath.Rel(filepath.Dir(path), "../..")
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(data, []byte("# yaml-language-server: $schema="+filepath.ToSlash(root)+"/"+schema+"\n")) {
			t.Errorf("%s does not name its schema in the first line", path)
		}
		doc, err := Load(path, data)
		if err != nil {
			t.Errorf("loading a sample:\n%v", err)
			return nil
		}
		if len(doc.Warnings) > 0 {
			t.Errorf("sample has warnings:\n%v", doc.Warnings)
		}
		return nil
	})
	if err != nil || samples < 5 {
		t.Fatalf("found %d samples (%v), want at least 5", samples, err)
	}
}

func TestFullSampleIsTheDefaults(t *testing.T) {
	data, err := os.ReadFile("../../configs/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Load("full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	got := doc.Config.DeepCopy()
	for _, gate := range gates.All() {
		value, ok := got.FeatureGates[gate.Name]
		removed := gate.Stage == gates.GA || gate.Stage == gates.Deprecated // naming one is a warning
		wanted := gate.Read && !gate.Locked && !removed && gate.Name != gates.AllAlpha && gate.Name != gates.AllBeta
		if ok != wanted || (ok && value != gate.Default) {
			t.Errorf("gate %s: spelled out %t as %t, want the default of each gate that can be changed with effect and will stay", gate.Name, ok, value)
		}
	}
	got.FeatureGates = nil
	if changes := diff.Between(v1beta1.NewDefault(), got); len(changes) > 0 {
		t.Errorf("full.yaml differs from the defaults: %v", changes)
	}
	// Every field with a default is spelled out.
	for _, change := range diff.Between(&v1beta1.KubeControllerManagerConfiguration{}, v1beta1.NewDefault()) {
		if _, ok := doc.places.Values[change.Path]; !ok {
			t.Errorf("full.yaml does not set %s", change.Path)
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	data, err := Marshal(v1beta1.NewDefault())
	if err != nil {
		t.Fatal(err)
	}
	if problems := problemsOf(t, string(data)); problems != "" {
		t.Errorf("the defaults are not valid: %s", problems)
	}
}

func TestMarshalRoundTrip(t *testing.T) {
	doc, err := Load("f.yaml", []byte(header+"serving: {authorization: {alwaysAllowPaths: []}}\nlogging: {vmodule: [{filePattern: a, verbosity: 3}]}\nclientConnection: {qps: 12.5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := Marshal(doc.Config)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load("again.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Warnings) > 0 {
		t.Errorf("a marshalled configuration has warnings: %v", again.Warnings)
	}
	if difference := cmp.Diff(doc.Config, again.Config); difference != "" {
		t.Errorf("round trip (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff(doc.Config, doc.Config.DeepCopy()); difference != "" {
		t.Errorf("DeepCopy (-want +got):\n%s", difference)
	}
	first, second := mustHash(t, doc.Config), mustHash(t, again.Config)
	if first != second || len(first) != 64 {
		t.Errorf("hashes %s and %s of equal configurations", first, second)
	}
	if other := mustHash(t, v1beta1.NewDefault()); other == first {
		t.Error("different configurations have the same hash")
	}
}

func mustHash(t *testing.T, cfg *v1beta1.KubeControllerManagerConfiguration) string {
	t.Helper()
	hash, err := Hash(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func BenchmarkLoad(b *testing.B) {
	data, err := os.ReadFile("../../configs/full.yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load("full.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}

// A time that is right once stays so: a file that was valid is valid when a process starts later,
// or follows itself, even if the clock was set back.
func TestDeletionsAreAllowedForADayAtMost(t *testing.T) {
	const tooFar, nothing = "deletionBreaker.allowUntil: must be at most 24 hours from now, ", ": it allows nothing; is the clock right?"
	check := func(ahead time.Duration, want bool) {
		t.Helper()
		until := time.Now().Add(ahead).Format(time.RFC3339)
		doc, err := Load("f.yaml", []byte("apiVersion: "+v1beta1.APIVersion+"\nkind: "+v1beta1.Kind+"\ndeletionBreaker:\n  mode: Stop\n  allowUntil: "+until+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		edited, _ := doc.CheckEdit(v1beta1.NewDefault())
		for _, problems := range []problem.Errors{doc.CheckFiles(), edited} {
			text := problems.Error()
			if problems.HasErrors() == want || !want && (!strings.HasPrefix(text, "f.yaml:5:15: "+tooFar) || !strings.HasSuffix(text, ", not "+until)) {
				t.Errorf("%s: %v, want it to be valid: %t", ahead, problems, want)
			}
		}
		kept, _ := doc.CheckEdit(doc.Config)
		for _, problems := range []problem.Errors{doc.CheckStart(), kept} {
			text := problems.Error()
			if problems.HasErrors() || want != (text == "") || !want && (!strings.HasPrefix(text, "f.yaml:5:15: warning: "+tooFar) || !strings.HasSuffix(text, ", not "+until+nothing)) {
				t.Errorf("%s: %v, want at most a warning", ahead, problems)
			}
		}
	}
	check(-time.Hour, true)
	check(23*time.Hour, true)
	check(25*time.Hour, false)
}
