package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/problem"
)

// The corpus has three kinds of files: those that the schema and Load accept, those that
// both refuse, and those of which only Load knows that their fields contradict each other.
// A file that is refused says in its first line what Load has to say about it.
func TestSchemaAndLoadAgreeOnTheCorpus(t *testing.T) {
	compiled := compiled(t)
	tests := []struct {
		folder               string
		atLeast              int
		schemaValid, loadsOK bool
	}{
		{"valid", 14, true, true},
		{"invalid", 61, false, false},
		{"contradictory", 28, true, false},
	}
	for _, test := range tests {
		files, err := filepath.Glob("../testdata/" + test.folder + "/*.yaml")
		if err != nil || len(files) < test.atLeast {
			t.Fatalf("found %d files in %s (%v), want at least %d", len(files), test.folder, err, test.atLeast)
		}
		for _, file := range files {
			t.Run(test.folder+"/"+filepath.Base(file), func(t *testing.T) {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(t, compiled, data); (err == nil) != test.schemaValid {
					t.Errorf("the schema says %v, want valid %t", err, test.schemaValid)
				}
				_, err = config.Load(file, data)
				if test.loadsOK {
					if err != nil {
						t.Errorf("Load says %v", err)
					}
					return
				}
				checkRefusal(t, data, err)
			})
		}
	}
}

// checkRefusal wants the message of the first line, at a place in the file.
func checkRefusal(t *testing.T, data []byte, err error) {
	t.Helper()
	first, _, _ := strings.Cut(string(data), "\n")
	wants, ok := strings.CutPrefix(first, "# wants: ")
	var problems problem.Errors
	if !ok || !errors.As(err, &problems) {
		t.Fatalf("Load returned %v; the file wants %q", err, wants)
	}
	found := false
	for _, p := range problems {
		if p.Severity == problem.SeverityError && p.Line < 1 {
			t.Errorf("the problem has no position: %v", p)
		}
		if p.Severity == problem.SeverityError && strings.Contains(p.Error(), wants) {
			found = true
		}
	}
	if !found {
		t.Errorf("no error says %q:\n%v", wants, err)
	}
}

// Each example is good for its field.
func TestExamplesAreValid(t *testing.T) {
	compiled := compiled(t)
	for path, example := range examples() {
		tree := example
		words := strings.Split(path, ".")
		for i := len(words) - 1; i >= 0; i-- {
			tree = map[string]any{words[i]: tree}
		}
		root := tree.(map[string]any)
		root["apiVersion"], root["kind"] = "config.kcmd.dev/v1beta1", "KubeControllerManagerConfiguration"
		if err := compiled.Validate(toNumbers(t, root)); err != nil {
			t.Errorf("the example of %s: %v", path, err)
		}
	}
}

// toNumbers gives numbers the type that the validator of schemas reads.
func toNumbers(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
