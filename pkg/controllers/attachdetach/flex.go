package attachdetach

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
)

// flexDrivers are the FlexVolume drivers that are installed in a directory. They are looked up when a
// volume needs one, so nothing has to be watched.
type flexDrivers struct {
	directory string

	mu    sync.Mutex
	known map[string]*flexDriver
}

// flexDriver is an executable that has answered to init.
type flexDriver struct {
	path     string
	modified time.Time
	attaches bool

	mu sync.Mutex
	// unsupported are the commands that it does not support. They are skipped.
	unsupported map[string]bool
}

func newFlexDrivers(directory string) *flexDrivers {
	return &flexDrivers{directory: directory, known: map[string]*flexDriver{}}
}

// prepare creates the directory of the drivers. Without it there are none.
func (f *flexDrivers) prepare(logger klog.Logger) {
	if err := os.MkdirAll(f.directory, 0o755); err != nil {
		logger.Error(err, "No FlexVolume drivers can be used", "directory", f.directory)
	}
}

// installed returns the file of a driver, false if there is none. It calls nothing.
func (f *flexDrivers) installed(name string) (path string, info os.FileInfo, ok bool) {
	folder, driver := name, name
	if vendor, rest, found := strings.Cut(name, "/"); found {
		folder, driver = vendor+"~"+rest, rest
	}
	if len(validation.IsQualifiedName(name)) > 0 || strings.HasPrefix(folder, ".") {
		return "", nil, false
	}
	path = filepath.Join(f.directory, folder, driver)
	info, err := os.Stat(path)
	return path, info, err == nil && !info.IsDir()
}

// find returns a driver, nil if there is none that works. It is initialized when it is first needed, and
// again when its file has changed.
func (f *flexDrivers) find(ctx context.Context, name string) *flexDriver {
	path, info, ok := f.installed(name)
	if !ok {
		return nil
	}
	f.mu.Lock()
	known := f.known[name]
	f.mu.Unlock()
	if known != nil && known.modified.Equal(info.ModTime()) {
		return known
	}
	driver := &flexDriver{path: path, modified: info.ModTime(), unsupported: map[string]bool{}}
	answer, err := driver.call(ctx, "init")
	if err != nil {
		klog.FromContext(ctx).Error(err, "Leaving out a FlexVolume driver", "driver", name)
		return nil
	}
	driver.attaches = answer.Capabilities.Attach == nil || *answer.Capabilities.Attach
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[name] = driver
	return driver
}
