// Package rules tests the sources for what the compiler and the linter cannot see.
package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

// TestOnlyTheKitStartsGoroutines: a panic in a goroutine that nobody guards ends the process,
// so controllers start theirs through pkg/controller/concurrent.
func TestOnlyTheKitStartsGoroutines(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	controllers := filepath.Join(root, "pkg", "controllers")
	exempt := []string{
		// Its collector reads counters of the loop and calls nothing of a controller.
		filepath.Join(controllers, "kit", "reconcile", "metrics.go"),
		// Its collector catches panics.
		filepath.Join(controllers, "selinuxwarning", "metrics.go"),
	}
	checked := 0
	err = filepath.WalkDir(controllers, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(exempt, path):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		checked++
		for _, start := range goroutines(files, file) {
			t.Errorf("%s: use pkg/controller/concurrent, which brings a panic back to the goroutine that waits", start)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 100 {
		t.Errorf("only %d files were checked", checked)
	}
}

// starters are methods and functions that call what they are given in a goroutine of its
// own: sync.WaitGroup.Go, errgroup.Group.Go and TryGo, AfterFunc of context, time and
// clocks, workqueue.ParallelizeUntil, and CustomMustRegister of a metrics registry, whose
// collectors are called so. Nothing else may have one of these names.
var starters = []string{"Go", "TryGo", "AfterFunc", "ParallelizeUntil", "CustomMustRegister"}

// goroutines returns where a file starts goroutines, or names something that does.
func goroutines(files *token.FileSet, file *ast.File) []string {
	var found []string
	at := func(n ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s starts a goroutine", files.Position(n.Pos()), what))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			at(n, "go")
		case *ast.SelectorExpr:
			name := n.Sel.Name
			if slices.Contains(starters, name) || isWaitGroupOfWait(n) {
				at(n, name)
			}
		}
		return true
	})
	return found
}

// isWaitGroupOfWait reports a mention of wait.Group of apimachinery.
func isWaitGroupOfWait(n *ast.SelectorExpr) bool {
	x, ok := n.X.(*ast.Ident)
	return ok && x.Name == "wait" && n.Sel.Name == "Group"
}

func TestEveryWayToStartAGoroutineIsFound(t *testing.T) {
	for source, want := range map[string]int{
		"go f()":                        1,
		"go func() { go f() }()":        2,
		"var g sync.WaitGroup; g.Go(f)": 1,
		"start := group.Go; start(f)":   1,
		"group, ctx := errgroup.WithContext(ctx); group.TryGo(f)": 1,
		"stop := context.AfterFunc(ctx, f)":                       1,
		"time.AfterFunc(d, f)":                                    1,
		"c.clock.AfterFunc(d, f)":                                 1,
		"workqueue.ParallelizeUntil(ctx, 2, n, f)":                1,
		"var g wait.Group; g.StartWithContext(ctx, f)":            1,
		"env.Metrics.CustomMustRegister(c)":                       1,
		"wait.UntilWithContext(ctx, f, d)":                        0,
		"concurrent.Each(n, 0, f)":                                0,
		"var g sync.WaitGroup; g.Wait()":                          0,
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "p.go", "package p\nfunc _() {\n"+source+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := goroutines(files, file); len(got) != want {
			t.Errorf("%s: found %q, want %d", source, got, want)
		}
	}
}
