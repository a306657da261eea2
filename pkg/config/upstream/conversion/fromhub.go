package conversion

import (
	"k8s.io/kube-controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/v1beta1"
)

// FromHub converts a defaulted configuration to v1alpha1, as a /configz of upstream
// would show it. What v1alpha1 cannot say is left out, and what has no meaning here has
// upstream's default.
func FromHub(in *v1beta1.KubeControllerManagerConfiguration) *v1alpha1.KubeControllerManagerConfiguration {
	c := &exporter{in: in, out: NewDefault()}
	for _, row := range Table() {
		if row.copied() {
			copyValue(Lookup(c.out, row.Upstream), Lookup(c.in, row.Field), row)
		}
	}
	c.limitsFromHub()
	c.migrationFromHub()
	c.networksFromHub()
	c.cloudFromHub()
	c.volumesFromHub()
	c.ignoredFromHub()
	c.controllersFromHub()
	return c.out
}

// exporter makes v1alpha1 from v1beta1.
type exporter struct {
	in  *v1beta1.KubeControllerManagerConfiguration
	out *v1alpha1.KubeControllerManagerConfiguration
}

func (c *exporter) volumesFromHub() {
	period := c.in.Controllers.PersistentVolumeAttachDetach.ReconcilerSyncPeriod
	if period.Duration == 0 {
		c.out.AttachDetachController.DisableAttachDetachReconcilerSync = true
		return
	}
	c.out.AttachDetachController.ReconcilerSyncLoopPeriod = *period
}

func (c *exporter) ignoredFromHub() {
	list := []v1alpha1.GroupResource{}
	for _, resource := range c.in.Controllers.GarbageCollector.IgnoredResources {
		list = append(list, v1alpha1.GroupResource{Group: resource.Group, Resource: resource.Resource})
	}
	c.out.GarbageCollectorController.GCIgnoredResources = list
}
