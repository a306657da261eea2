package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kcmd.dev/test/benchmark/report"
)

func TestInvocationNamesWhatMatters(t *testing.T) {
	command := newRunCommand()
	if err := command.ParseFlags([]string{"--scenarios=garbage,ttl", "--rounds", "2", "--out=/somewhere/x.json"}); err != nil {
		t.Fatal(err)
	}
	if got, want := invocation(command), "run --scenarios=garbage,ttl --rounds=2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRenderPrintOnlyLeavesTheDocumentation(t *testing.T) {
	in := filepath.Join(t.TempDir(), "results.json")
	f := report.File{Results: []report.Result{{Scenario: "ttl", Phase: "ttl", Mode: "unlimited", Subject: report.Ours, Void: "it took too long"}}}
	if err := f.Save(in); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join("..", "..", "..", report.Page)
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if err := render(in, true); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(page)
	if err != nil || string(after) != string(before) {
		t.Errorf("the page has changed, %v", err)
	}
}

func TestMistakesInFlagsAreErrors(t *testing.T) {
	for flag, want := range map[string]string{"--scenarios=flood": "flood", "--mode=fast": "fast", "--subjects=theirs": "theirs", "--rounds=0": "0 rounds"} {
		command := newCommand()
		command.SetArgs([]string{"run", flag, "--out=" + filepath.Join(t.TempDir(), "x.json")})
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
}
