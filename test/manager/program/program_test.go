package program

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

// TestLinkerDropsWhatNothingCalls: a program that calls a method by a name it computes, as
// templates do, keeps every exported method of every type in it. client-go has so many that
// they would make the program larger by a third.
// `go build -ldflags=-dumpdep` tells what refers to the function named here.
func TestLinkerDropsWhatNothingCalls(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), Name)
	if err := Build(t.Context(), root, to); err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name })
	}
	if !has("main.main") {
		t.Fatal("the symbols are not those of a Go program")
	}
	if has("text/template.(*state).evalField") {
		t.Error("the program executes templates, so that the linker keeps every method of every type")
	}
}
