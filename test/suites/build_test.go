package suites

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
)

// tree writes files and returns the folder that holds them.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Succeed(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return root
}

// Stand-ins replace packages, and nothing else, however often that is done.
func TestStandInsReplacePackages(t *testing.T) {
	downloaded := tree(t, map[string]string{"go.mod": "module x", "a/a.go": "old", "a/b.go": "old", "a/below/c.go": "old", "d/d.go": "old"})
	root := tree(t, map[string]string{"test/suites/testdata/a/standin.go": "new", "test/suites/testdata/e/README.md": "no package"})
	b := builder{root}
	must.Succeed(t, os.MkdirAll(b.folder(), 0o700))
	lay := func(version string, want map[string]string) {
		t.Helper()
		must.Succeed(t, b.lay(downloaded, version))
		got := must.Get(packages(b.module()))(t)
		if !slices.Equal(got, []string{"a", "a/below", "d"}) {
			t.Errorf("there are the packages %q", got)
		}
		for name, content := range want {
			data, err := os.ReadFile(filepath.Join(b.module(), name))
			if string(data) != content || (err == nil) != (content != "") {
				t.Errorf("%s is %q, error %v", name, data, err)
			}
		}
	}
	want := map[string]string{"go.mod": "module x", "a/standin.go": "new", "a/a.go": "", "a/b.go": "", "a/below/c.go": "old", "d/d.go": "old"}
	lay("v1", want)

	must.Succeed(t, os.WriteFile(filepath.Join(b.standins(), "a", "standin.go"), []byte("newer"), 0o600))
	want["a/standin.go"] = "newer"
	lay("v1", want)

	must.Succeed(t, os.WriteFile(filepath.Join(downloaded, "d", "d.go"), []byte("of v2"), 0o600))
	want["d/d.go"] = "of v2"
	lay("v2", want)

	// A package that nothing stands in for any more is upstream's again.
	must.Succeed(t, os.RemoveAll(filepath.Join(b.standins(), "a")))
	lay("v2", map[string]string{"a/standin.go": "", "a/a.go": "old"})
}

func TestSuitesAreInOrder(t *testing.T) {
	var names []string
	for _, s := range Suites() {
		names = append(names, s.Name)
		for name, reason := range s.Left {
			if reason == "" {
				t.Errorf("%s of %s is left out for no reason", name, s.Name)
			}
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("the suites are %q", names)
	}
}

// What is compiled is the version that is copied, which is that of the control plane.
func TestSuitesAreOfTheVersionOfTheControlPlane(t *testing.T) {
	tools := filepath.Join(must.Get(binaries.Root())(t), "test", "tools")
	pinned := regexp.MustCompile(`k8s\.io/(?:kubernetes|api) v\S+`)
	of := func(module string) []string {
		found := pinned.FindAllString(string(must.Get(os.ReadFile(filepath.Join(tools, module, "go.mod")))(t)), -1)
		slices.Sort(found)
		return slices.Compact(found)
	}
	for _, module := range []string{"suites", endToEnd} {
		if want, got := of("kubernetes"), of(module); len(want) < 2 || !slices.Equal(got, want) {
			t.Errorf("%s pins %q, want %q", module, got, want)
		}
	}
}
