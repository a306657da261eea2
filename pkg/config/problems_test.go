package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// problemTest is a text that follows the header, so it starts in line 3, and what Load
// reports about it, without the name of the file.
type problemTest struct {
	text string
	want []string
}

// checkProblems leaves out what is only said because something is not in this build yet; see
// TestWhatIsNotInThisBuild.
func checkProblems(t *testing.T, tests []problemTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(problemsOf(t, header+test.text+"\n")) {
				if notInBuild(line) {
					continue
				}
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(line, "f.yaml:"), "\n"))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func notInBuild(line string) bool {
	return strings.Contains(line, "is part of the build") || strings.Contains(line, "nothing in this build reads")
}
