package explain

import (
	"strings"
	"testing"

	"kcmd.dev/pkg/cli/fields"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
)

func explanation(t *testing.T, path string, recursive bool) string {
	t.Helper()
	tree, err := fields.Tree()
	if err != nil {
		t.Fatal(err)
	}
	f, err := tree.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	subject := func(name string, value func(*v1beta1.KubeControllerManagerConfiguration) any) plan.Subject {
		return plan.Subject{Name: name, Value: value, Enabled: func(c *v1beta1.KubeControllerManagerConfiguration) (bool, string) {
			return c.ControllerEnabled(name), "disabled"
		}}
	}
	subjects := []plan.Subject{
		subject("namespace-controller", func(c *v1beta1.KubeControllerManagerConfiguration) any {
			return *c.Controllers.Namespace.ConcurrentSyncs
		}),
		subject("ttl-after-finished-controller", func(*v1beta1.KubeControllerManagerConfiguration) any { return nil }),
	}
	var out strings.Builder
	e := Explainer{Out: &out, Subjects: subjects, Colors: terminal.Colors{}}
	if err := e.Explain(f, recursive); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestExplainAField(t *testing.T) {
	const want = `FIELD:   controllers.namespace-controller.concurrentSyncs
TYPE:    integer
DEFAULT: 10
ALLOWED: 1 to 1000
CHANGE:  restarts that controller

Namespaces`
	if got := explanation(t, "controllers.namespace.concurrentSyncs", false); !strings.HasPrefix(got, want) {
		t.Errorf("the explanation is\n%s\nwant\n%s", got, want)
	}
	const nobody = "CHANGE:  does nothing: no part of this build reads it\n"
	if got := explanation(t, "serving.authentication.tolerateLookupFailure", false); !strings.Contains(got, nobody) {
		t.Errorf("the explanation is\n%s\nwant\n%s", got, nobody)
	}
}

func TestExplainABlock(t *testing.T) {
	got := explanation(t, "resync", false)
	const want = `FIELD:   resync
TYPE:    object
CHANGE:  applies in place

How often controllers reconcile every object again although nothing changed.

FIELDS:
  minPeriod  <duration> = 12h  Period after which`
	if !strings.HasPrefix(got, want) {
		t.Errorf("the explanation is\n%s\nwant\n%s", got, want)
	}
}

func TestRecursive(t *testing.T) {
	got := explanation(t, "leaderElection", true)
	for _, line := range []string{"\n  leaseDuration  <duration> = 15s\n", "\n  groups  <list of objects>\n    name  <string>\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""}, {"one", "one"}, {"one two  three", "one two\nthree"}, {"a very-long-word b", "a\nvery-long-word\nb"}, {"ää ää ää", "ää ää\nää"},
	} {
		if got := Wrap(test.text, 7); got != test.want {
			t.Errorf("Wrap(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}
