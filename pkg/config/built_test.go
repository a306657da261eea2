package config

import (
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
)

// What concerns only controllers that are not in this build is an error where it would
// enable one, and a warning where it would change one of its settings.
func TestWhatIsNotInThisBuild(t *testing.T) {
	defaults := v1beta1.NewDefault()
	tried := 0
	for _, change := range changedLeaves(object{}, toObject(defaults)) {
		number, isNumber := change.New.(float64)
		name, inBlock := strings.CutPrefix(change.Path, "controllers.")
		name, _, _ = strings.Cut(name, ".")
		if !inBlock || !isNumber || number < 2 || strings.Count(change.Path, ".") != 2 {
			continue
		}
		tried++
		data, err := Marshal(toObject(defaults).with(change.keys, number-1).config(t))
		if err != nil {
			t.Fatal(err)
		}
		want := "warning: " + change.Path + ": has no effect until " + name + " is part of the build"
		if got := strings.Contains(problemsOf(t, string(data)), want); got == Built(name) {
			t.Errorf("warning about %s: %t, although built is %t", change.Path, got, Built(name))
		}
	}
	if tried < 15 {
		t.Errorf("tried %d settings, want at least 15: the test looks in the wrong place", tried)
	}
	for _, c := range defaults.Controllers.All() {
		want := "controllers." + c.Name + ".enabled: " + c.Name + " is not part of this build and cannot be enabled"
		text := header + "controllers: {" + c.Name + ": {enabled: true}}\n"
		if got := strings.Contains(problemsOf(t, text), want); got == Built(c.Name) {
			t.Errorf("error about enabling %s: %t, although built is %t", c.Name, got, Built(c.Name))
		}
		if problems := problemsOf(t, header+"controllers: {"+c.Name+": {enabled: false}}\n"); problems != "" {
			t.Errorf("disabling %s has problems: %s", c.Name, problems)
		}
	}
}

func TestReadBy(t *testing.T) {
	tests := []struct {
		path string
		want []string
	}{
		{"controllers.job-controller.concurrentSyncs", []string{"job-controller"}},
		{"controllers.node-ipam-controller", []string{"node-ipam-controller"}},
		{"networking.serviceCIDRs", []string{"node-ipam-controller"}},
		{"serviceAccounts.rootCAFile", nil},
		{"logging.verbosity", nil},
	}
	for _, test := range tests {
		if got, ok := ReadBy(test.path); !slices.Equal(got, test.want) || ok != (test.want != nil) {
			t.Errorf("ReadBy(%s) = %v, %t, want %v", test.path, got, ok, test.want)
		}
	}
	for path, names := range readers() {
		for _, name := range names {
			if !slices.Contains(controllerNames(), name) {
				t.Errorf("%s is said to be read by %s, which is no controller", path, name)
			}
		}
	}
}

// Every controller is known by its canonical name and by its former ones.
func TestNamesOfControllers(t *testing.T) {
	var known []string
	for _, c := range KnownControllers() {
		known = append(known, c.Name)
		for _, former := range c.FormerNames {
			if got, ok := CanonicalName(former); got != c.Name || !ok {
				t.Errorf("CanonicalName(%s) = %s, %t, want %s", former, got, ok, c.Name)
			}
		}
		if got, ok := CanonicalName(c.Name); got != c.Name || !ok {
			t.Errorf("CanonicalName(%s) = %s, %t", c.Name, got, ok)
		}
	}
	blocks := slices.Sorted(slices.Values(controllerNames()))
	if !slices.Equal(known, blocks) {
		t.Errorf("known controllers and blocks differ:\n%v\n%v", known, blocks)
	}
	if _, ok := CanonicalName("no-such-controller"); ok {
		t.Error("CanonicalName knows a controller that is none")
	}
}

func TestCurves(t *testing.T) {
	for _, name := range CurveNames() {
		if id, ok := CurveID(name); !ok || id.String() != name {
			t.Errorf("CurveID(%s) = %v, %t", name, id, ok)
		}
	}
	if _, ok := CurveID("P256"); ok {
		t.Error("CurveID knows a name that is none")
	}
}
