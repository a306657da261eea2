package runtime

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/must"
)

// Who reads that a changed file cannot be used wants to know what is in use. Pins MGR-241.
func TestTheLogSaysWhichLabelValuesStayInUse(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "labels.yaml")
	must.Succeed(t, os.WriteFile(manifest, []byte("a metric without a label: x\n"), 0o600))
	c := v1beta1.NewDefault()
	c.Metrics.AllowListMappingManifest = manifest
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	r := &Runtime{hub: telemetry.NewHub()}
	r.document = &config.Document{Config: c}
	r.endpointFileChanged(ctx, source.Change{Path: manifest})
	if len(lines) != 1 || !strings.Contains(lines[0], "the previous ones stay in use") || !strings.Contains(lines[0], manifest) {
		t.Errorf("the log is %q", lines)
	}
}
