package pvexpander

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	waits       = "Normal ExternalExpanding waiting for an external controller to expand this PVC"
	waitsForEBS = "Normal ExternalExpanding CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"
	isNotBound  = "persistent Volume is not bound to PVC being updated : ns/claim"
)

func withResizer(name string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { setResizer(c, name) }
}

func bound(change func(*corev1.ObjectReference)) volumeChange {
	return func(v *corev1.PersistentVolume) { change(v.Spec.ClaimRef) }
}

func TestWhatIsDoneForAClaim(t *testing.T) {
	grown := requesting("1Gi")
	type objects = []runtime.Object
	for name, tc := range map[string]struct {
		objects  objects
		requests []string
		events   []string
		err      string
	}{
		"PVX-16: no claim": {},
		"PVX-17: no volume": {objects: objects{claim()}, requests: []string{getVolume},
			err: `failed to get PV "volume": persistentvolumes "volume" not found`},
		"PVX-17, PVX-32, PVX-39: no volume, nothing has to grow": {objects: objects{claim(grown)}, requests: []string{getVolume},
			err: `failed to get PV "volume": persistentvolumes "volume" not found`},
		"PVX-17: no name of a volume": {objects: objects{claim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" })}, requests: []string{"get persistentvolumes"},
			err: `failed to get PV "": persistentvolumes "" not found`},
		"PVX-18: a volume without a claim": {objects: objects{claim(), volume(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })},
			requests: []string{getVolume}, err: isNotBound},
		"PVX-18: a volume of another namespace": {objects: objects{claim(), volume(bound(func(r *corev1.ObjectReference) { r.Namespace = "other" }))},
			requests: []string{getVolume}, err: isNotBound},
		"PVX-18: a volume of a namesake": {objects: objects{claim(), volume(bound(func(r *corev1.ObjectReference) { r.UID = "other" }))},
			requests: []string{getVolume}, err: isNotBound},
		"PVX-18, PVX-32, PVX-39: a volume of a namesake, nothing has to grow": {objects: objects{claim(grown), volume(bound(func(r *corev1.ObjectReference) { r.UID = "other" }))},
			requests: []string{getVolume}, err: isNotBound},
		"PVX-18: the name is not compared": {objects: objects{claim(), volume(bound(func(r *corev1.ObjectReference) { r.Name = "other" }))},
			requests: []string{getVolume}, events: []string{waits}},
		"PVX-19, PVX-32, PVX-39: nothing has to grow":                {objects: objects{claim(grown), volume()}},
		"PVX-19, PVX-32, PVX-39: less is requested":                  {objects: objects{claim(requesting("1Mi")), volume()}},
		"PVX-32, PVX-39: nothing has to grow, Flex":                  {objects: objects{claim(grown), volume(flex)}, requests: []string{getVolume}},
		"PVX-19: CSI with the mark":                                  {objects: objects{claim(grown), volume(marked)}, requests: []string{getVolume}, events: []string{waits}},
		"PVX-9, PVX-20c, PVX-24, PVX-33: CSI":                        {objects: objects{claim(), volume()}, requests: []string{getVolume}, events: []string{waits}},
		"PVX-20c: without a phase":                                   {objects: objects{claim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = "" }), volume()}, requests: []string{getVolume}, events: []string{waits}},
		"PVX-5, PVX-20c: NFS":                                        {objects: objects{claim(), volume(source(corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}))}, requests: []string{getVolume}, events: []string{waits}},
		"PVX-5, PVX-20c: host path":                                  {objects: objects{claim(), volume(source(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}))}, requests: []string{getVolume}, events: []string{waits}},
		"PVX-5, PVX-20c: local":                                      {objects: objects{claim(), volume(source(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}))}, requests: []string{getVolume}, events: []string{waits}},
		"PVX-20a, PVX-33: migrated":                                  {objects: objects{claim(), volume(ebs)}, requests: []string{getVolume, patchClaim}, events: []string{waitsForEBS}},
		"PVX-20a: migrated, another driver is named":                 {objects: objects{claim(withResizer("other")), volume(ebs)}, requests: []string{getVolume, patchClaim}, events: []string{waitsForEBS}},
		"PVX-34, PVX-40: migrated, the driver is named":              {objects: objects{claim(withResizer("ebs.csi.aws.com")), volume(ebs)}, requests: []string{getVolume}, events: []string{waitsForEBS}},
		"PVX-19, PVX-20a: migrated with the mark, nothing must grow": {objects: objects{claim(grown), volume(ebs, marked)}, requests: []string{getVolume, patchClaim}, events: []string{waitsForEBS}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, tc.objects...)
			err := f.Reconcile()
			if got := errorText(err); got != tc.err {
				t.Errorf("got %q, want %q", got, tc.err)
			}
			f.WantRequests(t, tc.requests...)
			f.WantEvents(t, tc.events...)
			f.wantObserved(t)
			if slices.Contains(tc.requests, patchClaim) {
				if got := f.claim(t).Annotations; len(got) != 1 || got[resizerAnnotation] != "ebs.csi.aws.com" {
					t.Errorf("annotations are %v", got)
				}
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// The list is that of the library.
//
// Pins PVX-20a.
func TestEveryMigratedTypeIsPassedToItsDriver(t *testing.T) {
	for name, tc := range map[string]struct {
		source         corev1.PersistentVolumeSource
		plugin, driver string
	}{
		"gce":      {corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}, "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"},
		"disk":     {corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}, "kubernetes.io/azure-disk", "disk.csi.azure.com"},
		"file":     {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{}}, "kubernetes.io/azure-file", "file.csi.azure.com"},
		"cinder":   {corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{}}, "kubernetes.io/cinder", "cinder.csi.openstack.org"},
		"vsphere":  {corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}, "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"},
		"portworx": {corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}, "kubernetes.io/portworx-volume", "pxd.portworx.com"},
		"ebs":      {corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}, "kubernetes.io/aws-ebs", "ebs.csi.aws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, claim(), volume(source(tc.source)))
			f.MustReconcile(t)
			f.WantEvents(t, "Normal ExternalExpanding CSI migration enabled for "+tc.plugin+"; waiting for external resizer to expand the pvc")
			if got := f.claim(t).Annotations[resizerAnnotation]; got != tc.driver {
				t.Errorf("the resizer is %s", got)
			}
		})
	}
}

// The role of the controller allows it to patch the status and nothing else of a claim, and the
// patch has nothing but the annotation and what it was decided on.
//
// Pins PVX-11, PVX-13 and PVX-14.
func TestThePatchOfAClaim(t *testing.T) {
	f := begun(t, claim(), volume(ebs))
	f.MustReconcile(t)
	want := []string{`{"metadata":{"annotations":{"volume.kubernetes.io/storage-resizer":"ebs.csi.aws.com"},"resourceVersion":"7","uid":"claim-uid"}}`}
	if !slices.Equal(f.patches, want) {
		t.Errorf("patches are %q", f.patches)
	}
}

type brokenMigration struct{ migration }

func (brokenMigration) GetCSINameFromInTreeName(string) (string, error) {
	return "", errors.New("no driver")
}

// Pins PVX-20a and PVX-22.
func TestAMigratedVolumeThatCannotBePassedOn(t *testing.T) {
	t.Run("PVX-20a: no driver", func(t *testing.T) {
		f := begun(t, claim(), volume(ebs))
		f.c.migration = brokenMigration{f.c.migration}
		const text = "error getting CSI driver name for pvc ns/claim, with error no driver"
		if err := f.Reconcile(); errorText(err) != text {
			t.Errorf("got %v", err)
		}
		f.WantRequests(t, getVolume)
		f.WantEvents(t, waitsForEBS, "Warning ExternalExpanding "+text)
	})
	t.Run("PVX-20a: the patch is refused", func(t *testing.T) {
		f := begun(t, claim(), volume(ebs))
		f.Refuse(patchClaim, errors.New("boom"))
		const text = `error setting resizer annotation to pvc ns/claim, with error patchPVCStatus failed to patch PVC "claim": boom`
		if err := f.Reconcile(); errorText(err) != text {
			t.Errorf("got %v", err)
		}
		f.WantEvents(t, waitsForEBS, "Warning ExternalExpanding "+text)
	})
}

// Pins PVX-43.
func TestACutOffPatchReportsNoFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		source volumeChange
		events []string
	}{
		"a migrated volume": {ebs, []string{waitsForEBS}},
		"a FlexVolume":      {flex, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, claim(), volume(tc.source))
			ctx, cancel := context.WithCancel(f.Context())
			f.Intercept(patchClaim, func(clienttesting.Action) error {
				cancel()
				return context.Canceled
			})
			if err := f.c.reconcile(ctx, key); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			f.WantEvents(t, tc.events...)
		})
	}
}

// The cache lacks a change of the claim, or shows an earlier claim of the name.
//
// Pins PVX-14.
func TestAStaleClaimIsNotPatched(t *testing.T) {
	for name, stored := range map[string]*corev1.PersistentVolumeClaim{
		"changed":    claim(requesting("3Gi")),
		"a namesake": claim(func(c *corev1.PersistentVolumeClaim) { c.UID = "second" }),
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, claim(), volume(ebs))
			f.Store(t, stored)
			if err := f.Reconcile(); !apierrors.IsConflict(err) {
				t.Errorf("got %v", err)
			}
			if got := f.claim(t); len(got.Annotations) != 0 {
				t.Errorf("it was changed: %v", got.Annotations)
			}
		})
	}
}

// A claim that is bound to a volume which another claim was bound to before. Pins PVX-18.
func TestAStaleVolumeIsReadAgain(t *testing.T) {
	f := begun(t, claim(), volume())
	f.Store(t, volume(bound(func(r *corev1.ObjectReference) { r.UID = "other" })))
	if err := f.Reconcile(); errorText(err) != isNotBound {
		t.Errorf("got %v", err)
	}
	f.WantEvents(t)
}

func TestWhatIsQueued(t *testing.T) {
	is := func(changes ...claimChange) *corev1.PersistentVolumeClaim { return claim(changes...) }
	added := func(c *corev1.PersistentVolumeClaim) func(*expander) {
		return func(e *expander) { e.claimSeen(reconcile.Fresh, c) }
	}
	updated := func(old, c *corev1.PersistentVolumeClaim) func(*expander) {
		return func(e *expander) { e.claimUpdated(reconcile.Fresh, old, c) }
	}
	pending := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase, c.Status.Capacity = corev1.ClaimPending, nil }
	lost := func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }
	for name, tc := range map[string]struct {
		event func(*expander)
		want  int
	}{
		"PVX-7a: a bound claim":                 {added(is()), 1},
		"PVX-7: a pending claim":                {added(is(pending)), 0},
		"PVX-7: a lost claim":                   {added(is(lost)), 0},
		"PVX-7b: more is requested":             {updated(is(), is(requesting("3Gi"))), 1},
		"PVX-7b: less is requested":             {updated(is(), is(requesting("1Gi"))), 0},
		"PVX-7b: it has more":                   {updated(is(), is(having("2Gi"))), 1},
		"PVX-7b: it has less":                   {updated(is(), is(having("1Mi"))), 0},
		"PVX-7b, PVX-23: resync":                {updated(is(), is()), 0},
		"PVX-7b: another unit":                  {updated(is(having("1Gi")), is(having("1024Mi"))), 0},
		"PVX-7b: an unrelated change":           {updated(is(), is(withResizer("r"))), 0},
		"PVX-7, PVX-7b: it grows, but is lost":  {updated(is(), is(requesting("3Gi"), lost)), 0},
		"PVX-7b, PVX-28: it becomes bound":      {updated(is(pending), is()), 1},
		"PVX-26: it becomes bound, as large":    {updated(is(pending, requesting("1Gi")), is(requesting("1Gi"))), 1},
		"PVX-37: replaced":                      {updated(is(), is(func(c *corev1.PersistentVolumeClaim) { c.UID = "second" })), 1},
		"PVX-7: a missing request counts as 0":  {updated(is(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = nil }), is()), 1},
		"PVX-7: nothing is requested any more":  {updated(is(), is(func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = nil })), 0},
		"PVX-7b: requests and has less at once": {updated(is(requesting("3Gi"), having("3Gi")), is()), 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t)
			tc.event(f.c)
			if depth := f.c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// Each instance says again what each claim waits for, and reads no volume but that of the claim
// that has to grow.
//
// Pins PVX-25, PVX-31 and PVX-32.
func TestAnInstanceFindsTheClaimsThatHaveToGrow(t *testing.T) {
	settled := claim(requesting("1Gi"), func(c *corev1.PersistentVolumeClaim) {
		c.Name, c.UID, c.Spec.VolumeName = "settled", "settled", "other"
	})
	other := volume(func(v *corev1.PersistentVolume) { v.Name, v.Spec.ClaimRef.UID = "other", "settled" })
	env := controllertest.New(t, claim(), volume(), settled, other)
	for range 2 {
		env.Succeed(nil)
		c := must.Get(newController(env.Env))(t)
		env.Start(t)
		env.Fake.ClearActions()
		stop := env.Run(t, c)
		controllertest.Eventually(t, "both were seen", func() bool { return c.loop.Inspect().Reconciled >= 2 })
		env.AwaitIdle(t)
		env.WantRequests(t, getVolume)
		env.WantEvents(t, waits)
		stop()
	}
}

// A volume that is not there is asked for again. Pins PVX-15 and PVX-17.
func TestAFailureIsRetried(t *testing.T) {
	env := controllertest.New(t, claim())
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "it failed", func() bool { return c.loop.Inspect().Failed >= 1 })
	env.Store(t, volume())
	env.EventuallyAsTimePasses(t, "it succeeds", time.Second, func() bool { return c.loop.Inspect().Reconciled > c.loop.Inspect().Failed })
	env.WantEvents(t, waits)
}

// Only claims cause work: neither the change of a volume nor the deletion of a claim does.
//
// Pins PVX-8 and PVX-41.
func TestWhatQueuesNothing(t *testing.T) {
	later := claim(func(c *corev1.PersistentVolumeClaim) { c.Name, c.UID = "later", "later" })
	env := controllertest.New(t, claim(), volume())
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Eventually(t, "the claim was seen", func() bool { return c.loop.Inspect().Reconciled == 1 })
	controllertest.Change(t, env, "", "volume", ofSize("3Gi"))
	env.Remove(t, claim())
	env.Store(t, later) // seen after the deletion
	controllertest.Eventually(t, "the later claim was seen", func() bool { return c.loop.Inspect().Reconciled+c.loop.Inspect().Failed >= 2 })
	controllertest.Eventually(t, "the change of the volume was seen", func() bool {
		v, err := c.volumes.Get("volume")
		return err == nil && sizeString(v) == "3Gi"
	})
	env.AwaitIdle(t)
	if got := env.Series(t, "workqueue_adds_total"); !slices.Equal(got, []string{"name=volume_expand 2"}) {
		t.Errorf("keys were queued: %q", got)
	}
}

// Pins PVX-1, PVX-2, PVX-4, PVX-6, PVX-12 and PVX-15.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); !on || d.EventSource != "volume_expand" || d.Gate != "" {
		t.Errorf("enabled %v %s, source %s, gate %s", on, reason, d.EventSource, d.Gate)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*expander).loop.Inspect(); s.Workers != 10 || s.Queue != "volume_expand" {
		t.Errorf("loop: %+v", s)
	}
}

func BenchmarkReconcile(b *testing.B) {
	f := begun(b, claim(requesting("1Gi")), volume())
	f.MeasureIdle(b)
}
