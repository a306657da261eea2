package sample

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
)

func tree(t *testing.T) *fields.Field {
	t.Helper()
	tree, err := fields.Tree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func write(t *testing.T, o Options) string {
	t.Helper()
	text, err := Write(tree(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What is printed as the default is the default, and nobody is warned of it.
func TestWhatIsWrittenMeansTheDefault(t *testing.T) {
	for _, o := range []Options{{}, {Full: true}, {Controller: "namespace-controller"}, {Controller: "job", Full: true}, {Controller: "ttl-controller"}} {
		text := write(t, o)
		document, err := config.Load("sample", []byte(text))
		if err != nil {
			t.Fatalf("%+v: not valid: %v\n%s", o, err, text)
		}
		if len(document.Warnings) > 0 {
			t.Errorf("%+v: %v\n%s", o, document.Warnings, text)
		}
		if diff := cmp.Diff(v1beta1.NewDefault(), document.Config); diff != "" {
			t.Errorf("%+v: what is written is not the default:\n%s", o, diff)
		}
	}
}

// A full sample has every field that can be written, with what it is for.
func TestFullHasEveryField(t *testing.T) {
	text := write(t, Options{Full: true})
	var check func(f *fields.Field)
	check = func(f *fields.Field) {
		if !f.Fixed && !strings.Contains(text, f.Name+":") {
			t.Errorf("%s is missing", f.Path)
		}
		if f.IsBlock() || f.Path == "" {
			for _, child := range f.Fields {
				check(child)
			}
		}
	}
	check(tree(t))
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > width+20 {
			t.Errorf("the line is long: %s", line)
		}
	}
}

func TestOneController(t *testing.T) {
	want := `apiVersion: config.kcmd.dev/v1beta1
kind: KubeControllerManagerConfiguration
controllers:
  namespace-controller:
    concurrentSyncs: 10
    resyncPeriod: 5m
`
	if got := write(t, Options{Controller: "namespace-controller"}); got != want {
		t.Errorf("the sample is\n%s\nwant\n%s", got, want)
	}
	if _, err := Write(tree(t), Options{Controller: "namespaces-controller"}); err == nil || !strings.Contains(err.Error(), "did you mean controllers.namespace-controller?") {
		t.Errorf("error is %v", err)
	}
}
