package rules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
)

// TestWhatIsNotImported is about packages that behave as a program of their own, or see the machine.
func TestWhatIsNotImported(t *testing.T) {
	for name, test := range map[string]struct {
		folders []string
		refused func(path string) bool
	}{
		"CLOUD-19: another manager in this one": {
			[]string{"cmd", "pkg", "test"}, func(path string) bool { return path == "k8s.io/cloud-provider/app" },
		},
		"SEL-5: what tells whether this host has SELinux on": {
			[]string{"pkg/controllers/selinuxwarning"},
			func(path string) bool { return path == "os" || path == "syscall" || strings.Contains(path, "/selinux") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := 0
			for _, folder := range test.folders {
				err := filepath.WalkDir(filepath.Join(must.Get(binaries.Root())(t), folder), func(path string, d fs.DirEntry, err error) error {
					if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
						return err
					}
					files++
					for _, imported := range must.Get(importsOf(path))(t) {
						if test.refused(imported) {
							t.Errorf("%s imports %s", path, imported)
						}
					}
					return nil
				})
				must.Succeed(t, err)
			}
			if files == 0 {
				t.Error("no file was checked")
			}
		})
	}
}

// importsOf returns the paths that a file imports.
func importsOf(path string) (paths []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		paths = append(paths, imported)
	}
	return paths, nil
}
