package mutations

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
)

// cheap are the cases that are proved wherever the tests run.
var cheap = []string{
	"a CronJob that missed a hundred times never starts again",
	"eviction goes on when no zone has a ready node",
}

// all reports whether every case is proved.
//
//	KCMD_MUTATIONS  yes: make mutations
func all() bool { return os.Getenv("KCMD_MUTATIONS") != "" }

// required are the issues that have to be among the cases, whatever else is.
var required = []int{65200, 88097, 98471, 74397, 101078, 77864, 93902, 120571, 65392}

// TestCasesApply finds what has drifted: snippets that were edited, tests that were renamed.
func TestCasesApply(t *testing.T) {
	root := must.Get(binaries.Root())(t)
	names, issues := map[string]bool{}, []int{}
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if names[c.Name] {
				t.Error("another case has the name")
			}
			names[c.Name] = true
			issues = append(issues, c.Issues...)
			if len(c.Issues) == 0 || len(c.Edits) == 0 || c.Story == "" || strings.Contains(c.Story, "|") {
				t.Errorf("incomplete: %+v", c)
			}
			if _, err := c.apply(root); err != nil {
				t.Error(err)
			}
			if err := c.Caught.Exists(root); err != nil {
				t.Error(err)
			}
		})
	}
	for _, issue := range required {
		if !slices.Contains(issues, issue) {
			t.Errorf("no case is about #%d", issue)
		}
	}
	for _, name := range cheap {
		if !names[name] {
			t.Errorf("there is no case %q, which is to be proved everywhere", name)
		}
	}
}

// TestCasesAreCaught proves cases: without the edits the test passes, with them it fails.
func TestCasesAreCaught(t *testing.T) {
	root := must.Get(binaries.Root())(t)
	for _, c := range Cases() {
		if !all() && !slices.Contains(cheap, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if err := must.Get(c.Caught.run(t.Context(), root, ""))(t).passes(); err != nil {
				t.Fatalf("without the edits: %v", err)
			}
			overlay := must.Get(c.Overlay(root, t.TempDir()))(t)
			if err := must.Get(c.Caught.run(t.Context(), root, overlay))(t).catches(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		printed          string
		passes, isCaught bool
	}{
		"it passes": {`{"Action":"pass","Test":"TestX/a_row"}`, true, false},
		"it fails":  {`{"Action":"fail","Test":"TestX/a_row"}`, false, true},
		"another one fails, and so the function": {
			`{"Action":"pass","Test":"TestX/a_row"}` + "\n" + `{"Action":"fail","Test":"TestX/other"}` + "\n" + `{"Action":"fail","Test":"TestX"}`, true, false,
		},
		"it is skipped":        {`{"Action":"skip","Test":"TestX/a_row"}`, false, false},
		"it does not run":      {`{"Action":"pass"}`, false, false},
		"the process ends":     {`{"Action":"output","Output":"panic"}` + "\n" + `{"Action":"fail"}`, false, false},
		"it does not compile":  {`{"Action":"build-fail"}` + "\n" + `{"Action":"fail"}`, false, false},
		"nothing was printed ": {``, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := must.Get(outcomeOf("TestX/a_row", bytes.NewBufferString(tc.printed)))(t)
			if got := o.passes() == nil; got != tc.passes {
				t.Errorf("passes: %v", got)
			}
			if got := o.catches() == nil; got != tc.isCaught {
				t.Errorf("is caught: %v", got)
			}
		})
	}
}

func TestPatternSelectsARow(t *testing.T) {
	one := Test{Name: "TestX", Row: "is it (really)?"}
	if got, want := one.Pattern(), `^TestX$/^is_it_\(really\)\?$`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Test{Name: "TestX"}).Pattern(); got != "^TestX$" {
		t.Errorf("%s", got)
	}
}

func TestAnEditHasToApplyOnce(t *testing.T) {
	root := t.TempDir()
	must.Succeed(t, os.WriteFile(root+"/a.go", []byte("one two two"), 0o600))
	for snippet, applies := range map[string]bool{"one": true, "two": false, "three": false} {
		_, err := Case{Edits: []Edit{{File: "a.go", Old: snippet, New: "none"}}}.apply(root)
		if (err == nil) != applies {
			t.Errorf("%s: %v", snippet, err)
		}
	}
	both := Case{Edits: []Edit{{File: "a.go", Old: "one two", New: "two"}, {File: "a.go", Old: "two two", New: "done"}}}
	if got := must.Get(both.apply(root))(t); got["a.go"] != "done" {
		t.Errorf("got %q", got)
	}
}
