package mutations

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Case is a failure of the past.
type Case struct {
	// Name is what the failing program did.
	Name string
	// Issues are those of kubernetes/kubernetes in which users reported it, at least one.
	Issues []int
	// Story is what happened to users.
	Story string
	// Edits put the failure into this code.
	Edits []Edit
	// Caught is the test that fails with the edits.
	Caught Test
}

// Edit replaces a snippet of a file, which occurs there exactly once.
type Edit struct {
	// File is named from the root of the repository.
	File     string
	Old, New string
}

// Test is a test, or a part of one.
type Test struct {
	// Package is the folder of the test, named from the root of the repository.
	Package string
	// Name is that of the function, Row that of the row of its table; empty for all of it.
	Name, Row string
}

// Cases are all cases.
func Cases() []Case {
	var all []Case
	for _, some := range [][]Case{collection(), nodes(), volumes(), leadership(), workloads(), services(), cluster()} {
		all = append(all, some...)
	}
	return all
}

// apply returns the contents of the files that the edits change, by their names from the root.
func (c Case) apply(root string) (map[string]string, error) {
	edited := map[string]string{}
	for _, e := range c.Edits {
		text, known := edited[e.File]
		if !known {
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		if e.Old == e.New {
			return nil, fmt.Errorf("%s: the edit changes nothing", e.File)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("%s has the snippet %d times, not once:\n%s", e.File, n, e.Old)
		}
		edited[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return edited, nil
}

// Overlay writes the edited files into a folder, and beside them the file for the flag -overlay of the go
// command, whose name it returns.
func (c Case) Overlay(root, folder string) (string, error) {
	edited, err := c.apply(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range edited {
		copied := filepath.Join(folder, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// Pattern selects the test with the flag -run.
func (t Test) Pattern() string {
	pattern := "^" + t.Name + "$"
	if t.Row != "" {
		pattern += "/^" + regexp.QuoteMeta(subtest(t.Row)) + "$"
	}
	return pattern
}

// Full is the name by which the test is reported.
func (t Test) Full() string {
	if t.Row == "" {
		return t.Name
	}
	return t.Name + "/" + subtest(t.Row)
}

// subtest is the name of the subtest of a row, as package testing makes it.
func subtest(row string) string { return strings.ReplaceAll(row, " ", "_") }

// Exists returns an error if there is no such test. Of a row, its name must be written in a test of the package.
func (t Test) Exists(root string) error {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(t.Package), "*_test.go"))
	if err != nil {
		return err
	}
	var function, row bool
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := string(data)
		function = function || strings.Contains(text, "\nfunc "+t.Name+"(t *testing.T) {")
		row = row || t.Row == "" || strings.Contains(text, `"`+t.Row+`"`)
	}
	var failures []error
	if !function {
		failures = append(failures, fmt.Errorf("%s has no test %s", t.Package, t.Name))
	}
	if !row {
		failures = append(failures, fmt.Errorf("%s has no row %q", t.Package, t.Row))
	}
	return errors.Join(failures...)
}
