package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/config"
)

// header is what every good file starts with; the rest starts in line 3.
const header = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

// problemsOf returns what Load reports, warnings included, one per line.
func problemsOf(t *testing.T, text string) string {
	t.Helper()
	doc, err := config.Load("f.yaml", []byte(text))
	if err != nil {
		return err.Error()
	}
	return doc.Warnings.Error()
}

// problemTest is a text that follows the header, so it starts in line 3, and what Load
// reports about it, without the name of the file.
type problemTest struct {
	text string
	want []string
}

func checkProblems(t *testing.T, tests []problemTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(problemsOf(t, header+test.text+"\n")) {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(line, "f.yaml:"), "\n"))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
