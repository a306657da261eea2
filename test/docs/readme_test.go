package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/controllers"
)

// The README says which controllers are in; somebody decides by that list what else a
// cluster needs.
func TestReadmeIsUpToDate(t *testing.T) {
	var names []string
	for _, d := range controllers.All() {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "- `%s`\n", name)
	}
	checkGenerated(t, "README.md", list.String())
}
