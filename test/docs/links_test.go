// Package docs tests the documentation: that a reader who follows a link arrives, and that
// the generated parts of pages are up to date, which -update writes.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	// What does not appear in the anchor that a page has for a heading.
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestEveryLinkLeadsSomewhere follows the links between the pages and to files of the
// repository, with their anchors.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	followed := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			followed++
			path, anchor, _ := strings.Cut(found[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", filepath.Base(page), found[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
				t.Errorf("%s: %s: the page has no such heading", filepath.Base(page), found[1])
			}
		}
	}
	if followed == 0 {
		t.Error("no link was found")
	}
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(data), "")
}

// anchors are what the headings of a page are linked by.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for _, found := range heading.FindAllStringSubmatch(read(t, page), -1) {
		text := punctuation.ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}
