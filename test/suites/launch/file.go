package launch

import (
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/fromflags"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

// pollInterval is how often the gates of the process are read: tests change them, and nobody announces it.
const pollInterval = 20 * time.Millisecond

// file is the configuration file of a manager of which the version that it emulates and the feature gates are those of this
// process.
type file struct {
	path   string
	config *v1beta1.KubeControllerManagerConfiguration
	// given are the gates that flags set, which win.
	given map[string]bool
}

func newFile(folder string, flags []string) (*file, error) {
	result, err := fromflags.Convert(flags)
	if err != nil {
		return nil, fmt.Errorf("converting the manager's flags: %w", err)
	}
	f := &file{path: filepath.Join(folder, "config.yaml"), config: result.Config, given: result.Config.FeatureGates}
	return f, f.write(f.wanted())
}

// follow edits the file when the process has changed, until the end of ctx or of the manager.
func (f *file) follow(ctx context.Context, exited <-chan struct{}) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-exited:
			return nil
		case <-ticker.C:
		}
		now := f.wanted()
		if now.EmulatedVersion == f.config.EmulatedVersion && maps.Equal(now.FeatureGates, f.config.FeatureGates) {
			continue
		}
		log.Printf("the manager is now given version %s with %v", now.EmulatedVersion, now.FeatureGates)
		if err := f.write(now); err != nil {
			return err
		}
	}
}

// wanted is the configuration as the process is now.
func (f *file) wanted() *v1beta1.KubeControllerManagerConfiguration {
	process := utilfeature.DefaultMutableFeatureGate
	c := f.config.DeepCopy()
	c.EmulatedVersion = emulated(process.EmulationVersion())
	c.FeatureGates = differing(gates.Of(c), process)
	maps.Copy(c.FeatureGates, f.given)
	return c
}

// emulated returns the version that the manager can emulate which is nearest to one that tests set.
func emulated(v *version.Version) string {
	return gates.Version(min(max(int(v.Minor()), gates.OldestMinor), gates.NewestMinor))
}

// differing returns the gates that the manager reads and that are not at their default in process. Those that are locked
// cannot be given to the manager: a test turns one where upstream's controllers still know an older behavior.
func differing(known map[string]gates.Gate, process featuregate.MutableFeatureGate) map[string]bool {
	set := map[string]bool{}
	for name := range process.GetAll() {
		gate := known[string(name)]
		if enabled := process.Enabled(name); gate.Read && !gate.Locked && enabled != gate.Default {
			set[gate.Name] = enabled
		}
	}
	return set
}

// write replaces the file in one step, as editors and kubelet do.
func (f *file) write(c *v1beta1.KubeControllerManagerConfiguration) error {
	f.config = c
	data, err := config.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing the manager's configuration: %w", err)
	}
	temporary := f.path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("writing the manager's configuration: %w", err)
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return fmt.Errorf("replacing the manager's configuration: %w", err)
	}
	return nil
}
