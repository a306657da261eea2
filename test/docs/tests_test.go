package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

var (
	namedTest   = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)")
	definedTest = regexp.MustCompile(`(?m)^func (Test[A-Z][A-Za-z0-9]*)\(`)
)

// TestTestsThatPagesNameExist: pages name the tests that prove what they say.
func TestTestsThatPagesNameExist(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	defined := testsIn(t, filepath.Join(root, "cmd"), filepath.Join(root, "pkg"), filepath.Join(root, "test"))
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		for _, name := range namedTest.FindAllStringSubmatch(read(t, page), -1) {
			found++
			if !defined[name[1]] {
				t.Errorf("%s names %s, and there is no such test", filepath.Base(page), name[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("the pages name %d tests only", found)
	}
}

// testsIn are the names of the tests in some folders.
func testsIn(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	defined := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, name := range definedTest.FindAllSubmatch(data, -1) {
				defined[string(name[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return defined
}
