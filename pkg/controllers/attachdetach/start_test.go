package attachdetach

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/test/controllertest"
)

// lateNodes is a lister of which a node is deleted once it was listed.
type lateNodes struct {
	corelisters.NodeLister
	deleted func()
}

func (l lateNodes) List(selector labels.Selector) ([]*corev1.Node, error) {
	all, err := l.NodeLister.List(selector)
	l.deleted()
	return all, err
}

// What happens while the state is rebuilt is seen afterwards. Pins ATT-72.
func TestANodeThatIsDeletedDuringTheRebuild(t *testing.T) {
	node := aNode("a", showing("v"))
	s := newStage(t, node, aVolume("v", once), anAttachment("v", "a", isAttached))
	s.Succeed(nil)
	s.build(s.c.config)
	var handler sync.WaitGroup
	var handled atomic.Bool
	s.c.nodes = lateNodes{s.c.nodes, func() {
		if handled.Swap(true) {
			return
		}
		s.Uncache(t, node)
		entered := make(chan struct{})
		handler.Go(func() {
			close(entered)
			s.c.nodeChanged(node)
		})
		<-entered
	}}
	if err := s.c.rebuild(s.Context(), nil); err != nil {
		t.Fatal(err)
	}
	handler.Wait()
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if n := s.c.world.nodes["a"]; n != nil && n.exists {
		t.Error("the node is taken for one that exists")
	}
}

// brokenNodes panics.
type brokenNodes struct{ corelisters.NodeLister }

func (brokenNodes) List(labels.Selector) ([]*corev1.Node, error) { panic("no") }

// What waits for the lock would never end otherwise: handlers, and what stops the instance.
func TestAPanicDuringTheRebuildReleasesTheLock(t *testing.T) {
	s := newStage(t)
	s.Succeed(nil)
	s.build(s.c.config)
	s.c.nodes = brokenNodes{}
	if panicked := concurrent.Catch(func() { _ = s.c.begin(s.Context()) }); panicked == nil {
		t.Fatal("no panic")
	}
	if !s.c.mu.TryLock() {
		t.Error("the lock is held")
	}
}

// TestStart covers what an instance makes of what it finds.
func TestStart(t *testing.T) {
	finished := aPod("pod", "a", "v")
	finished.Status.Phase = corev1.PodSucceeded
	inline := func(va *storagev1.VolumeAttachment) {
		va.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}
	}
	foreign := func(va *storagev1.VolumeAttachment) { va.Name = "foreign" }
	ebs := aVolume("v", once)
	ebs.Spec.CSI, ebs.Spec.AWSElasticBlockStore = nil, &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "v"}
	ebsShown := func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/ebs.csi.aws.com^v"}}
	}
	for name, tc := range map[string]struct {
		objects []runtime.Object
		node    func(*corev1.Node)
		want    []string
		later   []string // once the node has reported again
	}{
		"ATT-29, ATT-31: attached and wanted": {
			objects: []runtime.Object{aPod("pod", "a", "v"), anAttachment("v", "a", isAttached)}, node: showing("v"),
			want: []string{"v@a wanted attached listed"}, later: []string{"v@a wanted attached listed"},
		},
		"ATT-29: attached for nobody": {objects: []runtime.Object{anAttachment("v", "a", isAttached)}, node: showing("v")},
		"ATT-29: in use by nobody": {
			objects: []runtime.Object{anAttachment("v", "a", isAttached)},
			node:    controllertest.All(showing("v"), uses("v")),
			want:    []string{"v@a attached listed"}, later: []string{"v@a attached listed"},
		},
		"ATT-29: attached to a node that is not managed": {
			objects: []runtime.Object{anAttachment("v", "a", isAttached), aPod("pod", "a", "v")},
			node:    controllertest.All(showing("v"), unmanaged),
		},
		"ATT-30, ATT-56: a VolumeAttachment without a report": {
			objects: []runtime.Object{anAttachment("v", "a", isAttached)}, node: controllertest.All(showing(), notReady),
			want: []string{"v@a uncertain"},
		},
		"ATT-30, ATT-56: an unfinished one without a report": {
			objects: []runtime.Object{anAttachment("v", "a")}, node: controllertest.All(showing(), notReady),
			want: []string{"v@a uncertain"},
		},
		"ATT-96: one without a report, of a node that does not use the volume": {
			objects: []runtime.Object{anAttachment("v", "a", isAttached)}, node: showing(),
		},
		"ATT-96: one without a report, of a node that uses the volume": {
			objects: []runtime.Object{anAttachment("v", "a", isAttached)}, node: controllertest.All(showing(), uses("v")),
			want: []string{"v@a uncertain"}, later: []string{"v@a uncertain"},
		},
		"ATT-96: one without a report, of a node whose kubelet attaches volumes": {
			objects: []runtime.Object{anAttachment("v", "a", isAttached)}, node: controllertest.All(showing(), unmanaged),
			want: []string{"v@a uncertain"},
		},
		"ATT-30: one of a volume that is not known": {objects: []runtime.Object{anAttachment("other", "a", isAttached)}, node: showing()},
		"ATT-30, ATT-66: one of a volume that is defined in a pod": {
			objects: []runtime.Object{anAttachment("v", "a", inline)}, node: showing(),
		},
		"ATT-30: one of a driver that attaches nothing": {
			objects: []runtime.Object{anAttachment("v", "a"), aDriver(false)}, node: showing(),
		},
		"ATT-30: one of another name, wanted": {
			objects: []runtime.Object{anAttachment("v", "a", foreign), aPod("pod", "a", "v")}, node: showing(),
			want: []string{"v@a wanted attached listed"}, later: []string{"v@a wanted attached listed"},
		},
		"ATT-31: finished, but still mounted": {
			objects: []runtime.Object{finished, anAttachment("v", "a", isAttached)}, node: controllertest.All(showing("v"), uses("v")),
			want: []string{"v@a attached listed"}, later: []string{"v@a attached listed"},
		},
		"ATT-30, ATT-66: a volume whose type has moved to CSI, reported": {
			objects: []runtime.Object{ebs}, node: controllertest.All(ebsShown, func(n *corev1.Node) {
				n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/ebs.csi.aws.com^v"}
			}),
			want: []string{"v@a attached listed"}, later: []string{"v@a attached listed"},
		},
		"ATT-30: a volume whose type has moved to CSI, attached": {
			objects: []runtime.Object{ebs, anAttachment("v", "a", isAttached)}, node: showing(),
			want: []string{"v@a uncertain"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]runtime.Object{aNode("a", tc.node), aVolume("v", once), aClaim("v")}, tc.objects...)
			s := newStage(t, objects...)
			s.pass(time.Minute)
			s.is(tc.want...)
			controllertest.Change[*corev1.Node](t, s.Env, "", "a") // a heartbeat
			s.pass(time.Minute)
			s.is(tc.later...)
		})
	}
}

// Entries of volumes that nobody can detach stay, and cause no requests.
//
// Pins ATT-39i and ATT-64.
func TestVolumesOfUnknownPluginsStay(t *testing.T) {
	s := newStage(t, aNode("a", func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/aws-ebs/aws://zone/vol"}, {Name: "strange"}}
	}))
	s.pass(time.Hour)
	s.sent()
	if got := controllertest.MustStored[*corev1.Node](t, s.Env, "", "a").Status.VolumesAttached; len(got) != 2 {
		t.Errorf("the node shows %v", got)
	}
}

// Pins ATT-2 and ATT-22.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.ServiceAccount != "attachdetach-controller" || d.EventSource != "attachdetach-controller" || d.Aliases[0] != "attachdetach" {
		t.Errorf("descriptor is %+v", d)
	}
}
