package rules

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

var (
	update = flag.Bool("update", false, "take rules that are pinned by now out of docs/specs/unpinned.txt")
	grow   = flag.Bool("grow", false, "with -update: also add rules that no test pins")
)

var (
	// The name of a row or a subtest begins with the rules it pins: "DEP-12, DEP-13: scales up".
	rowName = regexp.MustCompile(`^(` + idPattern + `(?:, ` + idPattern + `)*): `)
	// The doc comment of a test says what it pins: "Pins DEP-12, DEP-13 and DEP-14."
	sentence = regexp.MustCompile(`\bPins (` + idPattern + `(?:, ` + idPattern + `)*(?: and ` + idPattern + `)?)\.`)
	// What looks like such a sentence.
	attempt = regexp.MustCompile(`\bPins ` + idPattern)
)

// lists are the specifications that list names and defaults: their rules need not be pinned.
var lists = []string{"controllers", "config-fields", "feature-gates"}

// pin is a rule that a test names, and where.
type pin struct {
	rule string
	at   token.Position
}

// TestTestsNameRulesThatExist, and the rules that no test names are those of
// docs/specs/unpinned.txt: the list may shrink, not grow.
func TestTestsNameRulesThatExist(t *testing.T) {
	specs := readSpecifications(t)
	exists, replaced := map[string]bool{}, map[string]bool{}
	for _, spec := range specs {
		for _, id := range spec.rules {
			exists[id] = true
		}
		for _, id := range spec.replaced {
			replaced[id] = true
		}
	}
	pinned := map[string]bool{}
	for _, pin := range pinsOfTests(t) {
		switch {
		case !exists[pin.rule]:
			t.Errorf("%s: docs/specs has no rule %s", pin.at, pin.rule)
		case replaced[pin.rule]:
			t.Errorf("%s: a deviation stands instead of %s: name the deviation", pin.at, pin.rule)
		}
		pinned[pin.rule] = true
	}
	var unpinned []string
	for _, spec := range specs {
		if slices.Contains(lists, spec.name) {
			continue
		}
		var open []string
		for _, id := range spec.inForce() {
			if !pinned[id] {
				open = append(open, id)
			}
		}
		slices.SortFunc(open, compareIDs)
		t.Logf("%s: %d rules, %d pinned, %d not", spec.name, len(spec.inForce()), len(spec.inForce())-len(open), len(open))
		unpinned = append(unpinned, open...)
	}
	t.Logf("%d rules are pinned by no test", len(unpinned))
	compareWithList(t, unpinned)
}

// compareWithList compares the rules no test pins with docs/specs/unpinned.txt.
func compareWithList(t *testing.T, unpinned []string) {
	t.Helper()
	path := filepath.Join(specsFolder(t), "unpinned.txt")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var comment, listed []string
	for line := range strings.Lines(string(data)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#"):
			comment = append(comment, line)
		case line != "":
			listed = append(listed, line)
		}
	}
	keep := unpinned
	if !*grow {
		keep = slices.DeleteFunc(slices.Clone(unpinned), func(id string) bool { return !slices.Contains(listed, id) })
	}
	if *update {
		text := strings.Join(slices.Concat(comment, keep), "\n") + "\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		listed = keep
	}
	for _, id := range unpinned {
		if !slices.Contains(listed, id) {
			t.Errorf("no test pins %s: name it in the test that would fail if the rule were broken", id)
		}
	}
	for _, id := range listed {
		if !slices.Contains(unpinned, id) {
			t.Errorf("docs/specs/unpinned.txt: remove %s from the list: it is pinned, replaced or gone by now", id)
		}
	}
}

// pinsOfTests returns the rules that the tests of the repository name.
func pinsOfTests(t *testing.T) []pin {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	var pins []pin
	for _, folder := range []string{"cmd", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || path == filepath.Join(root, "test", "rules", "pins_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			found, misplaced := pinsOf(files, file)
			pins = append(pins, found...)
			for _, at := range misplaced {
				t.Errorf("%s: what a test pins is a sentence of its own in the doc comment of the test: \"Pins DEP-12, DEP-13 and DEP-14.\"", at)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pins
}

// pinsOf returns the rules that the tests of one file name, and comments that try to.
func pinsOf(files *token.FileSet, file *ast.File) (pins []pin, misplaced []token.Position) {
	understood := map[*ast.CommentGroup]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Doc == nil || n.Recv != nil || !strings.HasPrefix(n.Name.Name, "Test") {
				return true
			}
			text := strings.Join(strings.Fields(n.Doc.Text()), " ")
			matches := sentence.FindAllStringSubmatch(text, -1)
			understood[n.Doc] = len(matches) == len(attempt.FindAllString(text, -1))
			for _, match := range matches {
				pins = append(pins, pinsAt(files, n.Pos(), match[1])...)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				if match := rowName.FindStringSubmatch(text); match != nil {
					pins = append(pins, pinsAt(files, n.Pos(), match[1])...)
				}
			}
		}
		return true
	})
	for _, group := range file.Comments {
		if attempt.MatchString(strings.Join(strings.Fields(group.Text()), " ")) && !understood[group] {
			misplaced = append(misplaced, files.Position(group.Pos()))
		}
	}
	return pins, misplaced
}

// pinsAt returns a pin for each identifier in a text.
func pinsAt(files *token.FileSet, pos token.Pos, text string) []pin {
	var pins []pin
	for _, id := range anyID.FindAllString(text, -1) {
		pins = append(pins, pin{rule: id, at: files.Position(pos)})
	}
	return pins
}

// TestPinsAreFound pins which texts of a test file name rules.
func TestPinsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		source    string
		want      []string
		misplaced bool
	}{
		"the name of a row":            {source: `var _ = map[string]int{"X-1: scales up": 1}`, want: []string{"X-1"}},
		"rules of one row":             {source: `var _ = row{name: "X-1, Y-2b: scales up"}`, want: []string{"X-1", "Y-2b"}},
		"a rule inside a name":         {source: `var _ = row{name: "as X-1: scales up"}`},
		"the comment of a test":        {source: "// TestX tests x.\n// Pins X-1, X-2\n// and X-3.\nfunc TestX() {}", want: []string{"X-1", "X-2", "X-3"}},
		"a sentence that does not end": {source: "// TestX tests x. Pins X-1, and x\nfunc TestX() {}", misplaced: true},
		"the comment of a helper":      {source: "// Pins X-1.\nfunc helper() {}", misplaced: true},
		"a comment on nothing":         {source: "// Pins X-1.\n\nfunc TestX() {}", misplaced: true},
		"other pins":                   {source: "// TestX pins rule 3.\nfunc TestX() {}"},
	} {
		t.Run(name, func(t *testing.T) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, "x_test.go", "package x\n\n"+test.source+"\n", parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			pins, misplaced := pinsOf(files, file)
			var got []string
			for _, pin := range pins {
				got = append(got, pin.rule)
			}
			if !slices.Equal(got, test.want) || (len(misplaced) > 0) != test.misplaced {
				t.Errorf("got %v and misplaced %v, want %v and %v", got, misplaced, test.want, test.misplaced)
			}
		})
	}
}
