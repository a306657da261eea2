package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/telemetry"
	"kcmd.dev/test/controlplane"
)

// Config is the type of the configuration file.
type Config = v1beta1.KubeControllerManagerConfiguration

// Default returns the configuration that a manager of the control plane has unless
// the test changes it: the product's defaults, with the control plane's credentials
// and files, service account credentials on, and the endpoint on the given port of
// the loopback address.
func Default(cp *controlplane.ControlPlane, port int) *Config {
	c := v1beta1.NewDefault()
	c.ClientConnection.Kubeconfig = cp.ManagerKubeconfig()
	c.ClientConnection.UseServiceAccountCredentials = ptr.To(true)
	c.ServiceAccounts.PrivateKeyFile = cp.ServiceAccountKeyFile()
	c.ServiceAccounts.RootCAFile = cp.RootCAFile()
	c.Controllers.CSRSigning.AllSigners = v1beta1.SigningCA{CertFile: cp.RootCAFile(), PrivateKeyFile: cp.RootCAKeyFile()}
	c.Serving.BindAddress = loopback
	c.Serving.Port = ptr.To(int32(port))
	c.Serving.Authentication.Kubeconfig = cp.ManagerKubeconfig()
	c.Serving.Authorization.Kubeconfig = cp.ManagerKubeconfig()
	return c
}

// file is the configuration file of one manager.
type file struct {
	path string

	mu     sync.Mutex
	config *Config // as last written by edit
}

func newFile(folder string, c *Config) (*file, error) {
	f := &file{path: filepath.Join(folder, "config.yaml"), config: c}
	data, err := config.Marshal(c)
	if err != nil {
		return nil, err
	}
	return f, f.write(data)
}

// write replaces the file in one step, as editors and kubelet do.
func (f *file) write(data []byte) error {
	temporary := f.path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return fmt.Errorf("replacing the configuration: %w", err)
	}
	return nil
}

// edit changes the configuration and writes it. It returns what was written, and
// false if the file holds just that already.
func (f *file) edit(change func(*Config)) (written *Config, changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.config.DeepCopy()
	change(next)
	data, err := config.Marshal(next)
	if err != nil {
		return nil, false, err
	}
	current, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, false, fmt.Errorf("reading the configuration: %w", err)
	}
	f.config = next
	if bytes.Equal(data, current) {
		return next, false, nil
	}
	return next, true, f.write(data)
}

// ConfigFile returns the path of the configuration file.
func (i *instance) ConfigFile() string { return i.file.path }

// Config returns a copy of the configuration as Edit last wrote it.
func (i *instance) Config() *Config {
	i.file.mu.Lock()
	defer i.file.mu.Unlock()
	return i.file.config.DeepCopy()
}

// Write replaces the content of the configuration file by any bytes. It does not
// wait for the manager to notice.
func (i *instance) Write(data []byte) error { return i.file.write(data) }

// Edit changes the configuration, starting from what the last Edit wrote, and
// returns when it is in force. If the manager rejects it, Edit returns the reason;
// the file stays as written. Controllers that the change restarts may not be back
// yet: see WaitRunning.
func (i *instance) Edit(ctx context.Context, change func(*Config)) error {
	before, err := i.Status(ctx)
	if err != nil {
		return err
	}
	written, changed, err := i.file.edit(change)
	if err != nil || !changed {
		return err
	}
	hash, err := config.Hash(written)
	if err != nil {
		return err
	}
	var rejected error
	err = i.wait(ctx, "the edited configuration is in force", func(s *runtime.Status) error {
		switch last := newestReload(s); {
		case !last.Time.After(newestReload(&before).Time):
			return errors.New("the edit has not been noticed")
		case last.Status == telemetry.Failure:
			rejected = errors.New(last.Error)
			return nil
		case last.Hash != hash:
			return fmt.Errorf("%s is in force, not %s", last.Hash, hash)
		}
		return nil
	})
	return errors.Join(err, rejected)
}

func newestReload(s *runtime.Status) runtime.Reload {
	if len(s.Reloads) == 0 {
		return runtime.Reload{Time: time.Time{}}
	}
	return s.Reloads[len(s.Reloads)-1]
}
