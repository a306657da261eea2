package suites

import (
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

// The stages are made of kwok's, of which some become several.
func TestPodsEndAsSpecsWant(t *testing.T) {
	plain := func(name, rest string) string {
		return "metadata:\n  name: " + name + "\nspec:\n  selector:\n    matchExpressions:\n" + condition("before", "x") + next + rest
	}
	ready := "        status: \"True\"\n        type: Ready\n"
	after := func(milliseconds string) string {
		return "  delay:\n    durationMilliseconds: " + milliseconds + "\n" + next
	}
	succeeds := "    restartCount: 0\n    exitCode: 0\n    reason: Completed\n    phase: Succeeded\n"
	standard := []string{plain("pod-ready", ready), plain("pod-complete", succeeds), plain("pod-delete", "    delete: true\n"), plain("node", "")}
	made := strings.Split(must.Get(stages(strings.Join(standard, separator)))(t), separator)
	wanted := []struct {
		name  string
		parts []string
	}{
		{"pod-ready", []string{"- 'there'\n", "- 'soon'\n" + next, ready}},
		{"pod-run", []string{"- 'there'\n", "- 'never'\n" + next, strings.ReplaceAll(ready, "True", "False")}},
		{"pod-complete", []string{"- 'completes'\n      - 'varies'\n" + after(briefly), succeeds}},
		{"pod-complete-later", []string{"- 'lasts'\n" + after(inTheEnd), succeeds}},
		{"pod-fail", []string{"- 'fails'\n      - 'varies'\n", "- 'Never'\n" + after(briefly), "exitCode: 1", "reason: Error", "phase: Failed"}},
		{"pod-restart", []string{"- 'fails'\n", "- 'OnFailure'\n", "- 'no'\n" + after(briefly), "exitCode: 1", "restartCount: 1", "phase: Running"}},
		{"pod-kill", []string{"- 'killed'\n" + after(slowly), "exitCode: 137", "phase: Failed"}},
		{"pod-delete", []string{"- 'ended'\n" + next, "delete: true"}},
		{"node", []string{standard[3]}},
	}
	if len(made) != len(wanted) {
		t.Fatalf("the stages are %q", made)
	}
	for i, want := range wanted {
		if got := stage(made[i]).name(); got != want.name {
			t.Errorf("stage %d is %s, want %s", i, got, want.name)
		}
		for _, part := range append(want.parts, condition("before", "x")) {
			if !strings.Contains(made[i], part) {
				t.Errorf("the stage lacks %q:\n%s", part, made[i])
			}
		}
	}
	standard[1] = strings.ReplaceAll(standard[1], next, "")
	for name, standard := range map[string][]string{"one lacks what follows": standard, "one is not there": standard[2:]} {
		if made, err := stages(strings.Join(standard, separator)); err == nil {
			t.Errorf("%s: %s", name, made)
		}
	}
}
