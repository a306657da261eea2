package rules

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

// idPattern is the identifier of a rule: the prefix of its specification, its number, and a
// letter if it is a part of that rule.
const idPattern = `[A-Z]+-[0-9]+[a-z]?`

var (
	// A rule begins a line, an item of a list or a row of a table, with its identifier.
	ruleStart = regexp.MustCompile("^ *(?:[-*] +|[0-9]+\\. +|\\| *)?`(" + idPattern + ")` (.*)$")
	// The prefixes, and the highest number in use, are in the table of the README.
	prefixRow = regexp.MustCompile("(?m)^\\| `([A-Z]+)` \\| \\[([a-z-]+)\\.md\\]\\([a-z-]+\\.md\\) \\| ([0-9]+) \\|")
	replaces  = regexp.MustCompile(`^Instead of (` + idPattern + `(?:, ` + idPattern + `)*)(?:: |, )`)
	retired   = regexp.MustCompile("(?m)^Retired: (.*)$")
	anyID     = regexp.MustCompile(`\b` + idPattern + `\b`)
)

// specification is what a file of docs/specs says in rules.
type specification struct {
	name    string
	prefix  string
	last    int
	rules   []string
	retired []string
	// replaced are rules that a deviation of the same file stands in for: nothing keeps them.
	replaced []string
	// headings end with a colon: if they have parts, it is those that say something.
	headings []string
}

// specsFolder returns the folder of the specifications.
func specsFolder(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "docs", "specs")
}

// readSpecifications returns all specifications, in the order of the table in the README.
func readSpecifications(t *testing.T) []specification {
	t.Helper()
	folder := specsFolder(t)
	read := func(file string) string {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var specs []specification
	for _, row := range prefixRow.FindAllStringSubmatch(read("README.md"), -1) {
		last, err := strconv.Atoi(row[3])
		if err != nil {
			t.Fatal(err)
		}
		spec := parseSpecification(row[2], row[1], read(row[2]+".md"))
		spec.last = last
		specs = append(specs, spec)
	}
	return specs
}

// parseSpecification finds the rules in the text of a specification.
func parseSpecification(name, prefix, text string) specification {
	spec := specification{name: name, prefix: prefix}
	for line := range strings.Lines(text) {
		if match := ruleStart.FindStringSubmatch(strings.TrimRight(line, "\n")); match != nil {
			spec.rules = append(spec.rules, match[1])
			if strings.HasSuffix(match[2], ":") {
				spec.headings = append(spec.headings, match[1])
			}
			if instead := replaces.FindStringSubmatch(match[2]); instead != nil {
				spec.replaced = append(spec.replaced, strings.Split(instead[1], ", ")...)
			}
		}
	}
	for _, line := range retired.FindAllStringSubmatch(text, -1) {
		spec.retired = append(spec.retired, anyID.FindAllString(line[1], -1)...)
	}
	return spec
}

// number returns the number in an identifier, without the letter of a part.
func number(id string) int {
	_, digits, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(strings.TrimRight(digits, "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		panic(fmt.Sprintf("%s is no identifier of a rule: %v", id, err))
	}
	return n
}

// problems returns what is wrong with the identifiers of a specification.
func (s specification) problems() []string {
	var found []string
	wrong := func(format string, args ...any) {
		found = append(found, s.name+".md: "+fmt.Sprintf(format, args...))
	}
	seen := map[string]bool{}
	used := map[int]bool{}
	highest := 0
	for _, id := range slices.Concat(s.rules, s.retired) {
		if prefix, _, _ := strings.Cut(id, "-"); prefix != s.prefix {
			wrong("%s has not the prefix %s that the README gives this file", id, s.prefix)
			continue
		}
		if seen[id] {
			wrong("%s is there twice: every rule has an identifier of its own, and one of a retired rule is not used again", id)
		}
		seen[id] = true
		used[number(id)] = true
		highest = max(highest, number(id))
	}
	for n := 1; n < max(highest, s.last); n++ {
		if !used[n] {
			wrong("%s-%d is gone: add it to the line \"Retired:\" at the end, so that the number is not given again", s.prefix, n)
		}
	}
	if highest != s.last {
		wrong("the highest number is %d and the README says %d: correct the README when a rule was added; a rule that was removed is listed as retired", highest, s.last)
	}
	for _, id := range s.replaced {
		if !slices.Contains(s.rules, id) {
			wrong("a deviation stands instead of %s, which is no rule of this file", id)
		}
	}
	return found
}

// inForce returns the rules that something has to keep: all but those a deviation replaces, and
// those that only introduce their parts.
func (s specification) inForce() []string {
	return slices.DeleteFunc(slices.Clone(s.rules), func(id string) bool {
		return slices.Contains(s.replaced, id) || slices.Contains(s.headings, id) && s.hasParts(id)
	})
}

// hasParts reports whether a rule has lettered parts.
func (s specification) hasParts(id string) bool {
	return slices.ContainsFunc(s.rules, func(other string) bool {
		return len(other) == len(id)+1 && strings.HasPrefix(other, id) && other[len(id)] >= 'a'
	})
}

// TestEveryRuleHasAnIdentifierOfItsOwn checks docs/specs against the table in its README.
func TestEveryRuleHasAnIdentifierOfItsOwn(t *testing.T) {
	specs := readSpecifications(t)
	files, err := filepath.Glob(filepath.Join(specsFolder(t), "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name != "README" && !slices.ContainsFunc(specs, func(s specification) bool { return s.name == name }) {
			t.Errorf("docs/specs/README.md gives %s.md no prefix", name)
		}
	}
	prefixes := map[string]string{}
	for _, spec := range specs {
		if other, taken := prefixes[spec.prefix]; taken {
			t.Errorf("%s.md and %s.md have the same prefix %s", other, spec.name, spec.prefix)
		}
		prefixes[spec.prefix] = spec.name
		for _, problem := range spec.problems() {
			t.Error(problem)
		}
	}
}

// TestProblemsOfIdentifiersAreFound pins what the check above sees.
func TestProblemsOfIdentifiersAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		last int
		want string
	}{
		"in order":                 {text: "- `X-1` a\n  - `X-1a` b\n2. `X-2` c\n| `X-3` d | e |\n`X-4` f\n", last: 4},
		"in another order":         {text: "- `X-2` a\n- `X-1` b\n", last: 2},
		"in the middle of a line":  {text: "- see `X-9`\n- `X-1` b\n", last: 1},
		"twice":                    {text: "- `X-1` a\n- `X-1` b\n", last: 1, want: "X-1 is there twice"},
		"another prefix":           {text: "- `X-1` a\n- `Y-2` b\n", last: 1, want: "Y-2 has not the prefix X"},
		"a number left out":        {text: "- `X-1` a\n- `X-3` b\n", last: 3, want: "X-2 is gone"},
		"the highest number gone":  {text: "- `X-1` a\n", last: 2, want: "the README says 2"},
		"a rule nobody counted":    {text: "- `X-1` a\n- `X-2` b\n", last: 1, want: "the README says 1"},
		"retired":                  {text: "- `X-1` a\n- `X-3` b\n\nRetired: `X-2`.\n", last: 3},
		"retired and used again":   {text: "- `X-1` a\n\nRetired: `X-1`.\n", last: 1, want: "X-1 is there twice"},
		"instead of a rule":        {text: "- `X-1` a\n- `X-2` Instead of X-1: b\n", last: 2},
		"instead of an unknown":    {text: "- `X-1` a\n- `X-2` Instead of X-1, X-7: b\n", last: 2, want: "X-7, which is no rule"},
		"a part without the whole": {text: "- `X-1a` a\n", last: 1},
	} {
		t.Run(name, func(t *testing.T) {
			spec := parseSpecification("x", "X", test.text)
			spec.last = test.last
			got := strings.Join(spec.problems(), "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// compareIDs orders identifiers by number, then by letter.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(a, b))
}

// TestRulesInForce pins which rules a test has to name.
func TestRulesInForce(t *testing.T) {
	text := "- `X-1` Cases:\n  - `X-1a` a\n- `X-2` Later:\n- `X-3` c\n- `X-4` d\n- `X-5` Instead of X-3: e\n- `X-6` Instead of X-4, differs from X-2: f\n"
	if got, want := parseSpecification("x", "X", text).inForce(), []string{"X-1a", "X-2", "X-5", "X-6"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
