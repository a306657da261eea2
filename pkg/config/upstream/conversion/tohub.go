package conversion

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-controller-manager/config/v1alpha1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

// Result is a converted configuration.
type Result struct {
	// Config is complete: what the source does not set has its default.
	Config *v1beta1.KubeControllerManagerConfiguration
	// Notes are what the user should know, in the order of the table.
	Notes []Note
	// Origins are, by the path in Config, the paths in v1alpha1 that decided.
	Origins map[string]string
}

// ToHub converts a configuration of upstream that is in force: a field that is zero
// means zero (see NewDefault). The error, if any, is of type Errors and names every
// value that cannot be converted; the result then has the others. Whether the result is valid is up to the validation
// of v1beta1.
func ToHub(in *v1alpha1.KubeControllerManagerConfiguration) (*Result, error) {
	c := &converter{in: in, result: Result{Origins: map[string]string{}}}
	c.out = &v1beta1.KubeControllerManagerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.APIVersion, Kind: v1beta1.Kind},
	}
	c.copied()
	c.withoutMeaning()
	c.limitsToHub()
	c.leaderElectionToHub()
	c.migrationToHub()
	c.cloudToHub()
	c.volumesToHub()
	c.ignoredToHub()
	c.controllersToHub()
	c.networksToHub() // after the controllers, of which one reads them
	v1beta1.SetDefaults(c.out)
	c.result.Config = c.out
	if len(c.errs) > 0 {
		return &c.result, c.errs
	}
	return &c.result, nil
}

// converter makes v1beta1 from v1alpha1.
type converter struct {
	in     *v1alpha1.KubeControllerManagerConfiguration
	out    *v1beta1.KubeControllerManagerConfiguration
	errs   Errors
	result Result
}

func (c *converter) origin(field, upstream string) { c.result.Origins[field] = upstream }

func (c *converter) note(field, message string) {
	c.result.Notes = append(c.result.Notes, Note{Field: field, Message: message})
}

func (c *converter) noteImportant(field, message string) {
	c.result.Notes = append(c.result.Notes, Note{Field: field, Message: message, Important: true})
}

// copied copies every pair that needs no code of its own.
func (c *converter) copied() {
	standard := v1beta1.NewDefault()
	for _, row := range Table() {
		if !row.copied() {
			continue
		}
		from, to := Lookup(c.in, row.Upstream), Lookup(c.out, row.Field)
		if from.Kind() == reflect.String && from.Len() == 0 && Lookup(standard, row.Field).Len() > 0 {
			c.emptyToHub(row.Upstream)
			continue
		}
		if copyValue(to, from, row) {
			c.origin(row.Field, row.Upstream)
		}
	}
}

// AcceptsEmpty reports whether a text of upstream's version that has a default may be empty, whatever else is set.
func AcceptsEmpty(path string) bool {
	return path == clusterNamePath || path == contentTypePath || path == flexVolumePath
}

// emptyToHub does what upstream does with a text that is empty, and that must not be empty here.
func (c *converter) emptyToHub(path string) {
	elects := c.in.Generic.LeaderElection.LeaderElect
	switch {
	case path == clusterNamePath:
		c.note(path, "an empty name is left out: nothing in upstream 1.36 reads it")
	case path == contentTypePath:
		c.out.ClientConnection.ContentType = "application/json"
		c.origin("clientConnection.contentType", path)
		c.note(path, "an empty type becomes application/json, as in client-go")
	case path == flexVolumePath:
		c.noteImportant(path, "an empty path means upstream that there are no FlexVolume drivers: "+
			"it is left out, and those in the default directory are used")
	case strings.HasPrefix(path, electionPath) && elects != nil && !*elects:
		c.note(path, "an empty name is left out: leader election is disabled")
	default:
		c.errs.addf(path, "must not be empty")
	}
}

// withoutMeaning adds a note for each setting with a value of its own and no field here.
func (c *converter) withoutMeaning() {
	standard := NewDefault()
	for _, row := range Table() {
		if row.Upstream == "" || row.Field != "" || row.Upstream == resourceLockPath {
			continue
		}
		value := Lookup(c.in, row.Upstream)
		if !value.IsZero() && !reflect.DeepEqual(value.Interface(), Lookup(standard, row.Upstream).Interface()) {
			c.note(row.Upstream, fmt.Sprintf("%v is left out: %s", reflect.Indirect(value).Interface(), row.Why))
		}
	}
	if kind := c.in.KubeCloudShared.CIDRAllocatorType; kind != "" && kind != "RangeAllocator" {
		c.errs.addf(allocatorPath, "must be RangeAllocator, not %q: upstream rejects it too", kind)
	}
}

// cloudToHub takes the name of the cloud provider, of which upstream has none.
func (c *converter) cloudToHub() {
	name := c.in.KubeCloudShared.CloudProvider.Name
	if name != "" && name != v1beta1.NoCloudProvider {
		c.errs.addf(cloudProviderPath, "must be empty or external, not %q: upstream rejects it too", name)
		return
	}
	c.out.Cloud.Provider = name
	c.origin("cloud.provider", cloudProviderPath)
}

// cloudFromHub writes external for a provider that is linked into this build: the
// controllers of the cloud do not run in upstream's process.
func (c *exporter) cloudFromHub() {
	if c.in.Cloud.Provider != "" {
		c.out.KubeCloudShared.CloudProvider.Name = v1beta1.NoCloudProvider
	}
}

const (
	resourceLockPath = "Generic.LeaderElection.resourceLock"
	allocatorPath    = "KubeCloudShared.CIDRAllocatorType"

	electionPath      = "Generic.LeaderElection."
	contentTypePath   = "Generic.ClientConnection.contentType"
	flexVolumePath    = "PersistentVolumeBinderController.VolumeConfiguration.FlexVolumePluginDir"
	clusterNamePath   = "KubeCloudShared.ClusterName"
	cloudProviderPath = "KubeCloudShared.CloudProvider.Name"
)

func (c *converter) leaderElectionToHub() {
	election := c.in.Generic.LeaderElection
	if election.ResourceLock == leasesLock {
		return
	}
	if elects := election.LeaderElect == nil || *election.LeaderElect; elects {
		c.errs.addf(resourceLockPath, "must be leases, not %q: upstream rejects it too", election.ResourceLock)
		return
	}
	if election.ResourceLock != "" {
		c.note(resourceLockPath, fmt.Sprintf("%s is left out: the lock is always a Lease", election.ResourceLock))
	}
}

// volumesToHub lets 0s stand for a check that is disabled.
func (c *converter) volumesToHub() {
	const period = "AttachDetachController.ReconcilerSyncLoopPeriod"
	const field = "controllers.persistentvolume-attach-detach-controller.reconcilerSyncPeriod"
	in, out := c.in.AttachDetachController, &c.out.Controllers.PersistentVolumeAttachDetach
	switch {
	case in.DisableAttachDetachReconcilerSync:
		out.ReconcilerSyncPeriod = &metav1.Duration{}
		c.origin(field, "AttachDetachController.DisableAttachDetachReconcilerSync")
	case in.ReconcilerSyncLoopPeriod.Duration <= 0:
		c.errs.addf(period, "must be 1s or more, not %s: upstream rejects it too", in.ReconcilerSyncLoopPeriod.Duration)
	default:
		out.ReconcilerSyncPeriod = ptr.To(in.ReconcilerSyncLoopPeriod)
		c.origin(field, period)
	}
}

// ignoredToHub puts the usual list into its usual order: /configz shows it in any.
func (c *converter) ignoredToHub() {
	list := []v1beta1.GroupResource{}
	for _, resource := range c.in.GarbageCollectorController.GCIgnoredResources {
		list = append(list, v1beta1.GroupResource{Group: resource.Group, Resource: resource.Resource})
	}
	standard := v1beta1.NewDefault().Controllers.GarbageCollector.IgnoredResources
	same := len(list) == len(standard)
	for _, resource := range standard {
		same = same && slices.Contains(list, resource)
	}
	if same {
		list = standard
	}
	c.out.Controllers.GarbageCollector.IgnoredResources = list
	c.origin("controllers.garbage-collector-controller.ignoredResources", "GarbageCollectorController.GCIgnoredResources")
}
