package attachdetach

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// A controller that runs, with its watches.
//
// Pins ATT-11, ATT-12, ATT-15, ATT-16, ATT-17, ATT-32 and ATT-72.
func TestRun(t *testing.T) {
	s := &stage{Env: controllertest.New(t), t: t}
	s.CompleteWrites("volumeattachments")
	s.Fake.PrependReactor("patch", "nodes", s.patchNode)
	s.Fake.PrependReactor("delete", "volumeattachments", s.deleteAttachment)
	pending := aClaim("v")
	pending.Status.Phase = corev1.ClaimPending
	s.Store(t, aVolume("v", once), pending, aPod("pod", "a", "v"))
	c := must.Get(newController(s.Env.Env, config{verifyPeriod: time.Minute, flexDirectory: t.TempDir()}))(t)
	s.c = c
	s.Start(t)
	stop := s.Run(t, c)
	shown := func(want int) {
		t.Helper()
		s.EventuallyAsTimePasses(t, "the node shows what is attached", 10*time.Millisecond, func() bool {
			s.actAsAttacher()
			n, ok := controllertest.Stored[*corev1.Node](t, s.Env, "", "a")
			return ok && len(n.Status.VolumesAttached) == want
		})
	}
	s.Store(t, aNode("a"))
	s.Store(t, aClaim("v"))
	shown(1)
	s.Remove(t, s.va("v", "a"))
	s.EventuallyAsTimePasses(t, "the VolumeAttachment is there again", time.Second, func() bool {
		s.actAsAttacher()
		_, ok := controllertest.Stored[*storagev1.VolumeAttachment](t, s.Env, "", vaOf("v", "a"))
		return ok
	})
	if passed := s.Clock.Since(controllertest.Epoch); passed < time.Minute {
		t.Errorf("it was verified after %v", passed)
	}
	// From then on the volume counts as mounted, until the status of the node says otherwise.
	s.EventuallyAsTimePasses(t, "the volume is attached again", 10*time.Millisecond, func() bool {
		s.actAsAttacher()
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.world.links[place{volumeName("v"), "a"}].state == attached
	})
	shown(1)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, aPod("pod", "a", "v"))
	shown(0)
	s.Remove(t, aNode("a"))
	s.EventuallyAsTimePasses(t, "the node is forgotten", 10*time.Millisecond, func() bool {
		s.actAsAttacher()
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.world.nodes) == 0
	})
	stop()
}

// Pins ATT-11, ATT-12, ATT-13 and ATT-14.
func TestConfiguration(t *testing.T) {
	var c controller.Config
	v1beta1.SetDefaults(&c)
	if got, want := configOf(&c), (config{time.Minute, false, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	*c.Controllers.PersistentVolumeAttachDetach.ForceDetachOnTimeout = false
	c.Controllers.PersistentVolumeAttachDetach.ReconcilerSyncPeriod = &metav1.Duration{}
	c.Volumes.FlexVolumePluginDirectory = "/flex"
	if got, want := configOf(&c), (config{0, true, "/flex"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Nothing is done, sent or even looked at while nothing changes that matters.
//
// Pins ATT-76, ATT-77, ATT-79, ATT-83.
func TestNothingHappensWhileNothingChanges(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.pass(time.Hour)
	s.requests = nil
	s.c.retry(s.Context(), s.Context())
	s.c.verify(s.Context(), s.Context())
	pod := controllertest.MustStored[*corev1.Pod](t, s.Env, "ns", "pod")
	s.c.podUpdated(reconcile.Fresh, pod, controllertest.Changed(pod.DeepCopy(), controllertest.ReadySince(controllertest.Epoch)))
	s.c.nodeChanged(controllertest.MustStored[*corev1.Node](t, s.Env, "", "a"))
	if n := len(s.placeQueue.keys) + len(s.nodeQueue.keys) + len(s.podQueue.keys) + len(s.claimQueue.keys); n > 0 {
		t.Errorf("%d keys are queued", n)
	}
	s.sent()
}

// Pins ATT-41.
func TestANodeThatCannotBeWrittenDoesNotHoldUpOthers(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", corev1.ReadWriteMany), aClaim("v"))
	allow := s.Refuse("patch nodes/status a", errors.New("no"))
	s.Store(t, aPod("pod", "a", "v"), aPod("other", "b", "v"))
	s.pass(soon)
	s.shows("a")
	s.shows("b", "v")
	s.requests = nil
	allow()
	s.pass(time.Second)
	s.shows("a", "v")
	s.sent(reported + "a")
}

// A pod that is being deleted on a node that was never ready. Pins ATT-70.
func TestThePodOfANodeThatWasNeverReady(t *testing.T) {
	never := aNode("a", uses("v"))
	never.Status.Conditions = nil
	pod := aPod("pod", "a", "v")
	s := newStage(t, never, aVolume("v", once), aClaim("v"), pod)
	s.changePod(controllertest.Terminating, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
	s.pass(soon)
	s.is("v@a attached listed")
	controllertest.Change(t, s.Env, "", "a", outOfService)
	s.pass(soon)
	s.is()
	s.wantForced("reason=out-of-service 1")
}

// What is defined in a pod and has moved to CSI is attached by what is in the pod.
//
// Pins ATT-36 and ATT-40g.
func TestAVolumeThatIsDefinedInThePod(t *testing.T) {
	pod := aPod("pod", "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"},
	}}, {Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s := newStage(t, aNode("a"), pod)
	s.is("vol-1@a wanted attached listed")
	s.WantEvents(t, `Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "ebs.csi.aws.com-vol-1" `)
	for _, va := range controllertest.AllStored[*storagev1.VolumeAttachment](t, s.Env, "") {
		if inline := va.Spec.Source.InlineVolumeSpec; inline == nil || inline.CSI.VolumeHandle != "vol-1" {
			t.Errorf("the source is %+v", va.Spec.Source)
		}
	}
	if got, want := s.Series(t, "storage_operation_duration_seconds"), []string{
		"migrated=true operation_name=volume_attach status=success volume_plugin=kubernetes.io/csi:ebs.csi.aws.com 1",
	}; !slices.Equal(got, want) {
		t.Errorf("operations are %q", got)
	}
	notAttached := aDriver(false)
	notAttached.Name = "ebs.csi.aws.com"
	s.Store(t, notAttached)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.is()
}

// Such a pod would keep the controller from beginning. Pins ATT-107.
func TestAVSphereVolumeWithAStoragePolicyIsDefinedInThePod(t *testing.T) {
	pod := aPod("pod", "a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "disk", StoragePolicyName: "gold"},
	}}}
	s := newStage(t, aNode("a"), pod)
	s.is("disk@a wanted attached listed")
	for _, va := range controllertest.AllStored[*storagev1.VolumeAttachment](t, s.Env, "") {
		if inline := va.Spec.Source.InlineVolumeSpec; inline == nil || inline.CSI.VolumeAttributes["storagepolicyname"] != "gold" {
			t.Errorf("the source is %+v", va.Spec.Source)
		}
	}
}
