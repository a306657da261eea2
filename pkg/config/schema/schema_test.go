package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

const typesDir = "../v1beta1"

const header = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

// What is made of the sources of the types is made once.
var (
	generated         = sync.OnceValues(func() ([]byte, error) { return Generate(typesDir) })
	generatedUpstream = sync.OnceValues(GenerateV1alpha1)
	referenceText     = sync.OnceValues(func() ([]byte, error) { return Reference(typesDir) })
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	for path, generate := range map[string]func() ([]byte, error){
		filepath.Join("schemas", V1alpha1FileName):        generatedUpstream,
		filepath.Join("schemas", V1alpha1CatalogFileName): generatedUpstream,
		filepath.Join("schemas", FileName):                generated,
		filepath.Join("schemas", CatalogFileName):         generated,
		filepath.Join("configs", SampleFileName):          func() ([]byte, error) { return Sample(typesDir) },
		filepath.Join("docs", ReferenceFileName):          referenceText,
	} {
		want, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s is out of date: run make generate", path)
		}
	}
}

// Whatever field the schema has, the reference has.
func TestReferenceHasEveryField(t *testing.T) {
	reference, err := referenceText()
	if err != nil {
		t.Fatal(err)
	}
	data, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	root := map[string]any{}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	fields := 0
	var check func(object map[string]any, path string)
	check = func(object map[string]any, path string) {
		properties, _ := object["properties"].(map[string]any)
		section := string(reference)
		heading := path
		if path == "" {
			heading = "Top level"
		}
		_, section, _ = strings.Cut(section, "# "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		for name, value := range properties {
			property := value.(map[string]any)
			switch {
			case property["properties"] != nil:
				check(property, strings.TrimPrefix(path+"."+name, "."))
			case name != "apiVersion" && name != "kind" && !strings.Contains(section, "| `"+name+"` | "):
				t.Errorf("the section %s of the reference has no %s:\n%s", path, name, section)
			default:
				fields++
			}
		}
	}
	check(root, "")
	if fields < 400 {
		t.Errorf("the schema has %d fields, want at least 400: the test looks in the wrong place", fields)
	}
}

func TestGenerateNeedsTheTypes(t *testing.T) {
	if _, err := Generate(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no doc comment") {
		t.Errorf("Generate without source returned %v, want an error about missing comments", err)
	}
}

var compileOnce = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(generated()) })

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := compileOnce()
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func compile(data []byte, err error) (*jsonschema.Schema, error) {
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(FileName, document); err != nil {
		return nil, err
	}
	return compiler.Compile(FileName)
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestSamplesAreValid(t *testing.T) {
	schema := compiled(t)
	files, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found samples %v (%v), want at least 3", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, data); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	data, err := config.Marshal(v1beta1.NewDefault())
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, compiled(t), data); err != nil {
		t.Error(err)
	}
}

// The schema and Load agree on what a single field may hold.
func TestSchemaAgreesWithLoad(t *testing.T) {
	tests := []struct {
		text  string
		valid bool
	}{
		{"", true},
		{"clientConnection: {qps: 12.5, burst: 20}", true},
		{"leaderElection: {leaseDuration: 1m30s, renewDeadline: 1.5s, retryPeriod: 500ms}", true},
		{"resync: {minPeriod: 0s}", true},
		{"serving: {authorization: {alwaysAllowPaths: []}}", true},
		{"logging: {vmodule: [{filePattern: a*, verbosity: 4}]}", true},
		{"featureGates: {PodDeletionCost: false}", true},
		{"controllers: {endpointslice-controller: {concurrentSyncs: 50, resyncPeriod: 1h, enabled: false}}", true},
		{"unknown: 1", false},
		{"controllers: {deployment: {}}", false},
		{"controllers: {serviceaccount-controller: {concurrentSyncs: 1}}", false},
		{"controllers: {deployment-controller: {concurrentSyncs: 0}}", false},
		{"controllers: {endpointslice-controller: {concurrentSyncs: 51}}", false},
		{"controllers: {deployment-controller: {enabled: 'true'}}", false},
		{"leaderElection: {leaseDuration: 15}", false},
		{"leaderElection: {leaseDuration: 15 s}", false},
		{"leaderElection: {resourceName: Main}", false},
		{"leaderElection: {resourceNamespace: a.b}", false},
		{"clientConnection: {contentType: text/plain}", false},
		{"clientConnection: {qps: -1}", false},
		{"serving: {port: 70000}", false},
		{"serving: {tls: {minVersion: '1.2'}}", false},
		{"serving: {tls: {cipherSuites: A}}", false},
		{"featureGates: {Foo: true}", false},
		{"featureGates: {LogarithmicScaleDown: false}", false},
		{"logging: {format: xml}", false},
		{"logging: {verbosity: -1}", false},
		{"logging: {options: {text: {infoBufferSize: lots}}}", false},
	}
	schema := compiled(t)
	for _, test := range tests {
		text := []byte(header + test.text + "\n")
		if err := validate(t, schema, text); (err == nil) != test.valid {
			t.Errorf("%q: the schema says %v, want valid %t", test.text, err, test.valid)
		}
		if _, err := config.Load("f.yaml", text); (err == nil) != test.valid {
			t.Errorf("%q: Load says %v, want valid %t", test.text, err, test.valid)
		}
	}
	if err := validate(t, schema, []byte("kind: Pod\n")); err == nil {
		t.Error("the schema accepts a file that is something else")
	}
}

// Every leaf has a description that states what a change of it does.
func TestEveryFieldSaysWhatAChangeDoes(t *testing.T) {
	data, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	root := map[string]any{}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	checkDescriptions(t, root, "")
}

func checkDescriptions(t *testing.T, schema map[string]any, path string) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range properties {
		property := value.(map[string]any)
		at := strings.TrimPrefix(path+"."+name, ".")
		description, _ := property["description"].(string)
		if description == "" {
			t.Errorf("%s has no description", at)
		}
		if property["type"] == "object" {
			checkDescriptions(t, property, at)
			continue
		}
		if path == "" || path == "featureGates" { // apiVersion and kind; gates say it together
			continue
		}
		if !strings.Contains(description, "change") || !strings.Contains(description, "Default: ") {
			t.Errorf("the description of %s states no default or effect of a change: %q", at, description)
		}
	}
}

// What an editor shows and inserts: a message in place of a regular expression, and no block of
// 242 gates.
func TestSchemaIsMadeForEditors(t *testing.T) {
	for name, generate := range map[string]func() ([]byte, error){
		"v1beta1": generated, "v1alpha1": generatedUpstream,
	} {
		data, err := generate()
		if err != nil {
			t.Fatal(err)
		}
		var root map[string]any
		if err := json.Unmarshal(data, &root); err != nil {
			t.Fatal(err)
		}
		patterns := 0
		eachSchema(root, func(n map[string]any) {
			if n["pattern"] == nil {
				return
			}
			patterns++
			if message, _ := n["patternErrorMessage"].(string); !strings.HasPrefix(message, "must be ") {
				t.Errorf("%s: the pattern %v has the message %q", name, n["pattern"], message)
			}
		})
		if patterns < 20 {
			t.Errorf("%s: %d patterns were found, want at least 20", name, patterns)
		}
		if name != "v1beta1" {
			continue
		}
		properties := root["properties"].(map[string]any)
		gates := properties["featureGates"].(map[string]any)
		if gates["default"] != nil {
			t.Errorf("featureGates has a default")
		}
		for gate, value := range gates["properties"].(map[string]any) {
			n := value.(map[string]any)
			text := n["description"].(string)
			if n["default"] != nil || !strings.Contains(text, "Default: ") && !strings.Contains(text, "Locked to ") && gate != "AllBeta" {
				t.Errorf("%s has the default %v and the description %q, want the default in the description only", gate, n["default"], text)
			}
			if !strings.Contains(text, "other components") && strings.HasPrefix(text, "Stage: ") {
				t.Errorf("%s is described without its purpose: %q", gate, text)
			}
		}
		tls := properties["serving"].(map[string]any)["properties"].(map[string]any)["tls"].(map[string]any)
		suites := tls["properties"].(map[string]any)["cipherSuites"].(map[string]any)["items"].(map[string]any)
		if enum, _ := suites["enum"].([]any); !slices.Contains(enum, any("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")) {
			t.Errorf("cipherSuites allows %v", suites["enum"])
		}
	}
}

// eachSchema calls visit for every object of a schema.
func eachSchema(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for _, inner := range value {
			eachSchema(inner, visit)
		}
	case []any:
		for _, inner := range value {
			eachSchema(inner, visit)
		}
	}
}
