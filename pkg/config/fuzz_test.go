package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/config/diff"
)

// Whatever is in a file, Load neither panics nor takes long nor much memory; what it accepts
// it can write and read again. The seeds are the samples and the corpus in testdata.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(header))
	f.Add([]byte(header + "leaderElection: {leaseDuration: 5}\n<<: {a: *x}\n"))
	f.Add([]byte("{\"apiVersion\": \"config.kcmd.dev/v1beta1\"}"))
	f.Add([]byte("a: &a [*a]\n---\n? {}\n"))
	f.Add([]byte("apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\nGeneric: {LeaderElection: {leaderElect: false}}\n"))
	seeds := 0
	for _, folder := range []string{"../../configs", "testdata"} {
		for _, data := range yamlFiles(f, folder) {
			f.Add(data)
			seeds++
		}
	}
	if seeds < 100 {
		f.Fatalf("found %d seeds, want at least 100", seeds)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := loadBounded(t, data)
		if (doc == nil) == (err == nil) {
			t.Fatalf("Load returned document %v and error %v", doc, err)
		}
		if doc == nil {
			return
		}
		out, err := Marshal(doc.Config)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load("again.yaml", out)
		if err != nil {
			t.Fatalf("loading what was marshalled: %v\n%s", err, out)
		}
		if difference := cmp.Diff(diff.ObjectOf(doc.Config), diff.ObjectOf(again.Config)); difference != "" {
			t.Fatalf("round trip (-want +got):\n%s", difference)
		}
	})
}

func yamlFiles(f *testing.F, folder string) [][]byte {
	f.Helper()
	var out [][]byte
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		out = append(out, data)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return out
}
