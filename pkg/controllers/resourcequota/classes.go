package resourcequota

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
)

// classesByResource is the name of the index of device classes by the extended resources that they back: the one that
// is named after the class, and the one that its spec names.
const classesByResource = "deviceClassExtendedResource"

func classesByResourceKeys(obj any) ([]string, error) {
	class, ok := obj.(*resourcev1.DeviceClass)
	if !ok {
		return nil, nil
	}
	keys := []string{resourcev1.ResourceDeviceClassPrefix + class.Name}
	if backed := class.Spec.ExtendedResourceName; backed != nil {
		keys = append(keys, *backed)
	}
	return keys, nil
}

// currentClasses are the device classes that the cache shows. Without a cache there are none. Several of them may back
// one resource, while one replaces another.
type currentClasses struct {
	mu    sync.RWMutex
	shown cache.Indexer
}

// readFrom sets the informer whose cache shows the classes.
func (c *currentClasses) readFrom(informer cache.SharedIndexInformer) {
	index.Ensure(informer, classesByResource, classesByResourceKeys)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = informer.GetIndexer()
}

// forget says that classes are not watched any more.
func (c *currentClasses) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = nil
}

func (c *currentClasses) indexer() cache.Indexer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.shown
}

// areBehind implements deviceClasses.
func (c *currentClasses) areBehind(resource corev1.ResourceName) bool {
	shown := c.indexer()
	if shown == nil {
		return false
	}
	names, err := shown.IndexKeys(classesByResource, string(resource))
	return err == nil && len(names) > 0
}

// resourceOf implements deviceClasses.
func (c *currentClasses) resourceOf(class string) string {
	shown := c.indexer()
	if shown == nil {
		return ""
	}
	stored, _, err := shown.GetByKey(class)
	found, ok := stored.(*resourcev1.DeviceClass)
	if err != nil || !ok || found.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *found.Spec.ExtendedResourceName
}
