package program

import (
	"debug/elf"
	"debug/gosym"
	"os"
	"path/filepath"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
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
	if err := Provide(t.Context(), root, to); err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	functions := functionsOf(t, file)
	has := func(name string) bool { return functions.LookupFunc(name) != nil }
	if !has("main.main") {
		t.Fatal("the functions are not those of a Go program")
	}
	if has("text/template.(*state).evalField") {
		t.Error("the program executes templates, so that the linker keeps every method of every type")
	}
}

// TestWhatIsCurrentIsNotLinkedAgain: linking takes seconds, and most packages of tests start the program.
func TestWhatIsCurrentIsNotLinkedAgain(t *testing.T) {
	root := must.Get(binaries.Root())(t)
	provide := func() os.FileInfo {
		t.Helper()
		to := filepath.Join(t.TempDir(), Name)
		must.Succeed(t, Provide(t.Context(), root, to))
		must.Succeed(t, Provide(t.Context(), root, to)) // it exists
		return must.Get(os.Stat(to))(t)
	}
	if !os.SameFile(provide(), provide()) {
		t.Error("the program was linked twice")
	}
}

// functionsOf reads the names that the program has for its stack traces: it has no symbols.
func functionsOf(t *testing.T, file *elf.File) *gosym.Table {
	t.Helper()
	data, err := file.Section(".gopclntab").Data()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, file.Section(".text").Addr))
	if err != nil {
		t.Fatal(err)
	}
	return table
}
