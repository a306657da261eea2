package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"kcmd.dev/test/must"
)

// volume is a mounted ConfigMap, written as kubelet's atomic writer does: the payload in a
// folder of its own, ..data a link to it, and each file a link through ..data.
type volume struct {
	dir     string
	payload string // the folder that ..data leads to
	n       int
}

// newVolume makes a volume with the file config.yaml, which is not there before the first
// write.
func newVolume(t testing.TB) *volume {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	must.Succeed(t, os.Symlink(filepath.Join("..data", "config.yaml"), v.file()))
	return v
}

func (v *volume) file() string { return filepath.Join(v.dir, "config.yaml") }

// write replaces the payload in one step, by a rename of the link to it.
func (v *volume) write(t testing.TB, data []byte) {
	t.Helper()
	v.n++
	payload := fmt.Sprintf("..2026_01_02_03_%02d_%02d.%09d", v.n/60, v.n%60, v.n)
	must.Succeed(t, os.Mkdir(filepath.Join(v.dir, payload), 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(v.dir, payload, "config.yaml"), data, 0o644))
	link := filepath.Join(v.dir, "..data_tmp")
	must.Succeed(t, os.Symlink(payload, link))
	must.Succeed(t, os.Rename(link, filepath.Join(v.dir, "..data")))
	if v.payload != "" {
		must.Succeed(t, os.RemoveAll(filepath.Join(v.dir, v.payload)))
	}
	v.payload = payload
}
