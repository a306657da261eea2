package cloud

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	cloudprovider "k8s.io/cloud-provider"

	"kcmd.dev/pkg/controller"
)

// Config is the provider that a controller works with. The zero value is none.
type Config struct {
	provider, file string
	allowUntagged  bool
}

// ConfigOf returns the provider that a configuration names, none if that is not one of this
// process.
func ConfigOf(c *controller.Config) Config {
	if !c.Cloud.Linked() {
		return Config{}
	}
	return Config{provider: c.Cloud.Provider, file: c.Cloud.ConfigFile, allowUntagged: *c.Cloud.AllowUntagged}
}

// Linked reports whether there is a provider.
func (c Config) Linked() bool { return c.provider != "" }

// Files implements controller.FileReader.
func (c Config) Files() []string {
	if c.file == "" {
		return nil
	}
	return []string{c.file}
}

// read returns the content of the file of the provider, nil if there is no file.
func (c Config) read() ([]byte, error) {
	if c.file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(c.file)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the cloud provider %s: %w", c.provider, err)
	}
	return content, nil
}

// make makes the provider. The factory gets nil if there is no file.
func (c Config) make(content []byte, logger logr.Logger) (cloudprovider.Interface, error) {
	var reader io.Reader
	if c.file != "" {
		reader = bytes.NewReader(content)
	}
	made, err := cloudprovider.GetCloudProvider(c.provider, reader)
	switch {
	case err != nil:
		return nil, fmt.Errorf("could not init cloud provider %q: %w", c.provider, err)
	case made == nil:
		return nil, fmt.Errorf("unknown cloud provider %q", c.provider)
	case made.HasClusterID():
	case c.allowUntagged:
		logger.Info("Detected a cluster without a ClusterID. A ClusterID will be required in the future. "+
			"Please tag your cluster to avoid any future issues", "provider", c.provider)
	default:
		return nil, errUntagged
	}
	return made, nil
}

var errUntagged = errors.New("no ClusterID found: a ClusterID is required for the cloud provider " +
	"to function properly, unless cloud.allowUntagged is set")
