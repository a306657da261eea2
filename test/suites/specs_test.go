package suites

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/must"
)

func TestSpecsAreInOrder(t *testing.T) {
	if names := specs(); len(names) == 0 || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("the specs are %q", names)
	}
}

// The stages are made of kwok's, and one becomes two.
func TestPodsOfJobsEndAsTheirCommandsSay(t *testing.T) {
	standard := strings.Join([]string{
		"metadata:\n  name: pod-ready\nspec:\n" + next,
		"metadata:\n  name: pod-complete\nspec:\n  selector:\n    matchExpressions:" + ofJobs + next +
			"    exitCode: 0\n    reason: Completed\n    phase: Succeeded\n",
		"metadata:\n  name: pod-delete\nspec:\n" + next,
	}, separator)
	made := strings.Split(must.Get(stages(standard))(t), separator)
	var names []string
	for _, stage := range made {
		names = append(names, regexp.MustCompile(`name: \S+`).FindString(stage))
	}
	if want := []string{"name: pod-ready", "name: pod-complete", "name: pod-fail", "name: pod-delete"}; !slices.Equal(names, want) {
		t.Fatalf("the stages are %q, want %q", names, want)
	}
	for i, want := range map[int][]string{
		1: {"phase: Succeeded", "- 'completes'\n", soon},
		2: {"phase: Failed", "exitCode: 1", "- 'fails'\n", soon},
	} {
		for _, part := range want {
			if !strings.Contains(made[i], part) {
				t.Errorf("the stage lacks %q:\n%s", part, made[i])
			}
		}
	}
	for name, standard := range map[string]string{
		"no stage that completes pods": "name: pod-ready\n",
		"another one":                  complete + "spec: {}\n",
	} {
		if made, err := stages(standard); err == nil {
			t.Errorf("%s: %s", name, made)
		}
	}
}
