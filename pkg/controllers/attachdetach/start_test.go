package attachdetach

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Pins ATT-69 and ATT-76.
func TestForeignVolumeAttachmentsAreLeftAlone(t *testing.T) {
	foreign := anAttachment("v", "a", isAttached, func(va *storagev1.VolumeAttachment) { va.Name = "foreign" })
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), foreign)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(time.Minute)
	s.is()
	s.sent(inquired, look+"a", read)
	s.change("foreign", func(va *storagev1.VolumeAttachment) { va.Status.Attached = false })
	s.change("foreign", beingDeleted)
	s.idle = true
	s.pass(time.Minute)
	s.sent()
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

// Pins ATT-37, ATT-43, ATT-62, ATT-68 and ATT-78.
func TestNodesComeAndGo(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
	s.Remove(t, aNode("a"))
	s.pass(soon)
	s.is("v@a wanted attached listed")
	s.sent()
	s.Store(t, aNode("a", another, uses("v")))
	s.pass(soon)
	s.sent(reported + "a")
	s.shows("a", "v")

	s.Remove(t, aNode("a"), aPod("pod", "a", "v"))
	s.pass(maxWait)
	s.is("v@a attached listed")
	s.pass(time.Second)
	s.is()
	s.wantForced("reason=timeout 1")
	if len(s.c.world.nodes)+len(s.c.world.volumes)+len(s.c.world.pods)+len(s.c.world.byVA)+len(s.c.world.doubtful)+len(s.c.world.incomplete) > 0 {
		t.Errorf("left are %v", s.c.world)
	}
}

// A write was to another Node of that name.
//
// Pins ATT-43 and ATT-78.
func TestANodeOfAnotherUIDIsNotWritten(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.hide(&corev1.Node{})
	s.Store(t, aNode("a", another), aPod("pod", "a", "v"))
	s.pass(promptly)
	s.sent(create, reported+"a")
	s.shows("a")
	s.hide()
	s.pass(2 * time.Second)
	s.sent(reported + "a")
	s.shows("a", "v")
}

// Somebody else changes what a node shows, as a write does that was given up and takes place later.
//
// Pins ATT-63 and ATT-78.
func TestANodeShowsWhatIsAttached(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
	controllertest.Change(t, s.Env, "", "a", showing("v", "w"))
	s.pass(soon)
	s.sent(reported + "a")
	s.shows("a", "v")
	stale := aNode("a", showing("w"))
	stale.ResourceVersion = "1"
	s.Cache(t, stale)
	s.c.nodeChanged(stale)
	s.hide(&corev1.Node{})
	s.pass(time.Minute)
	s.sent()
}

// TestRestart ends an instance in the middle of something. Another one in the process goes on as if nothing had
// happened, and one in another process ends in the same state.
func TestRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*stage)
		after  func(*stage)
		want   []string
		// sent are the requests of an instance in the same process.
		sent   []string
		events []string
	}{
		"ATT-71, ATT-84: nothing goes on": {
			before: func(*stage) {}, after: func(*stage) {},
			want: []string{"v@a wanted attached listed"},
		},
		"ATT-73, ATT-84: an attach waits": {
			before: func(s *stage) {
				s.idle = true
				s.Store(s.t, aVolume("w", once), aClaim("w"), aPod("second", "a", "w"))
			},
			after: func(s *stage) { s.idle = false },
			want:  []string{"v@a wanted attached listed", "w@a wanted attached listed"}, sent: []string{reported + "a"},
			events: []string{`Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "w" `},
		},
		"ATT-73, ATT-84: a detach waits": {
			before: func(s *stage) { s.idle = true; s.Remove(s.t, aPod("pod", "a", "v")) },
			after:  func(s *stage) { s.idle = false },
		},
		"ATT-57, ATT-71, ATT-84: a detach has failed": {
			before: func(s *stage) {
				s.idle = true
				s.Remove(s.t, aPod("pod", "a", "v"))
				s.pass(soon)
				s.change(vaOf("v", "a"), detachError("stuck"))
				s.pass(time.Second)
				s.Store(s.t, aPod("pod", "a", "v"))
				s.pass(5 * time.Second)
				s.RecordedEvents()
			},
			after: func(s *stage) {
				s.pass(soon)
				s.is("v@a wanted uncertain")
				s.shows("a")
				s.Remove(s.t, s.va("v", "a"))
				s.idle = false
			},
			want: []string{"v@a wanted attached listed"}, sent: []string{create, reported + "a"},
			events: []string{succeeded},
		},
		"ATT-40i, ATT-71, ATT-84: a conflict was reported": {
			before: func(s *stage) {
				controllertest.Change(s.t, s.Env, "", "a", uses("v"))
				s.Store(s.t, aPod("other", "b", "v"))
				s.pass(soon)
				s.RecordedEvents()
			},
			after: func(*stage) {},
			want:  []string{"v@a wanted attached listed", "v@b wanted"},
		},
		"ATT-71, ATT-84: a node has not been told": {
			before: func(s *stage) {
				s.Store(s.t, aVolume("w", once), aClaim("w"))
				s.hide(&corev1.Node{})
				s.Refuse(reported+"a", errRefused)
				s.Store(s.t, aPod("second", "a", "w"))
				s.pass(soon)
				s.hide()
				s.RecordedEvents()
			},
			after: func(s *stage) { s.Fake.ReactionChain = s.Fake.ReactionChain[1:] },
			want:  []string{"v@a wanted attached listed", "w@a wanted attached listed"}, sent: []string{reported + "a"},
		},
	} {
		for _, how := range []string{"same process", "other process"} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
				controllertest.Change(t, s.Env, "", "a", uses())
				s.pass(soon)
				s.WantEvents(t, succeeded)
				tc.before(s)
				s.pass(soon)
				s.requests = nil
				s.Requests()
				if how == "same process" {
					s.restart()
				} else {
					s.coldStart()
				}
				tc.after(s)
				s.pass(10 * time.Second)
				if how == "same process" {
					s.sent(tc.sent...)
					s.WantEvents(t, tc.events...)
				}
				controllertest.Change[*corev1.Node](t, s.Env, "", "a") // a heartbeat
				s.pass(time.Minute)
				s.is(tc.want...)
			})
		}
	}
}

// Pins ATT-84.
func TestARestartDoesNotRestartTheTimer(t *testing.T) {
	for name, tc := range map[string]struct {
		between time.Duration
		want    []string
	}{
		"at once": {0, nil},
		"long after, in which somebody may have wanted it": {time.Minute, []string{"v@a attached listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses("v"), notReady), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(maxWait - 2*time.Minute)
			left := s.c.HandOver()
			s.Clock.Step(tc.between)
			s.Succeed(left)
			s.start(s.c.config)
			s.pass(2*time.Minute + soon - tc.between)
			s.is(tc.want...)
		})
	}
}

// A volume is withdrawn and being detached, which the cache of the node does not show when another instance begins.
// The node is not told again that it is attached.
//
// Pins ATT-84.
func TestARestartDoesNotReportWhatWasWithdrawn(t *testing.T) {
	s := twoAttached(t)
	s.idle = true
	s.hide(&corev1.Node{})
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported+"a", remove)
	s.restart()
	s.pass(soon)
	s.hide()
	s.pass(soon)
	s.sent()
	s.shows("a", "w")
	s.is("v@a uncertain", "w@a wanted attached listed")
	s.idle = false
	s.pass(soon)
	s.is("w@a wanted attached listed")
}

// A volume is detached, which the cache of the node does not show when another instance begins. A pod that wants it
// there again gets it attached.
//
// Pins ATT-84.
func TestARestartDoesNotTakeAVolumeForAttachedThatWasDetached(t *testing.T) {
	s := twoAttached(t)
	s.hide(&corev1.Node{})
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported+"a", remove)
	s.restart()
	s.is("w@a wanted attached listed")
	s.Store(t, aPod("next", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
}

// The pod that a volume is being attached for is deleted, and another instance begins before the cache shows the
// VolumeAttachment. It is deleted all the same.
//
// Pins ATT-84.
func TestARestartGoesOnWithAnAttachThatNobodyWants(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.idle = true
	s.hide(&storagev1.VolumeAttachment{})
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create)
	s.Remove(t, aPod("pod", "a", "v"))
	s.run()
	s.restart()
	s.hide()
	s.idle = false
	s.pass(time.Minute)
	s.is()
	if all := controllertest.AllStored[*storagev1.VolumeAttachment](t, s.Env, ""); len(all) > 0 {
		t.Errorf("%d VolumeAttachments are left", len(all))
	}
}

// Pins ATT-81.
func TestADeletedVolumeAttachmentIsNotTrusted(t *testing.T) {
	for name, tc := range map[string]struct {
		live func(*stage)
		want []string
	}{
		"it is being deleted": {func(*stage) {}, []string{"v@a wanted uncertain"}},
		"it is gone":          {func(s *stage) { s.Remove(s.t, s.va("v", "a")) }, []string{"v@a wanted uncertain"}},
		"it is gone, as another deletion shows": {
			func(s *stage) { s.Remove(s.t, s.va("v", "a")); s.pass(firstBackoff + soon) }, []string{"v@a wanted uncertain"},
		},
		"it was never deleted": {func(s *stage) { s.Store(s.t, anAttachment("v", "a", isAttached)) }, []string{"v@a wanted attached listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", showing("v"), uses("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
			s.is("v@a wanted attached listed")
			s.idle = true
			s.hide(&storagev1.VolumeAttachment{})
			s.Fake.PrependReactor("delete", "volumeattachments", func(a action) (bool, runtime.Object, error) {
				if _, _, err := s.deleteAttachment(a); apierrors.IsNotFound(err) {
					return true, nil, err
				}
				return true, nil, errRefused // the answer is lost
			})
			controllertest.Change(t, s.Env, "", "a", uses())
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(soon)
			s.is("v@a uncertain")
			tc.live(s)
			s.Store(t, aPod("next", "a", "v"))
			s.pass(soon)
			s.is(tc.want...)
		})
	}
}

// Another VolumeAttachment has the name of the one that was to be deleted.
//
// Pins ATT-81.
func TestAVolumeAttachmentOfAnotherUIDIsNotDeleted(t *testing.T) {
	s := newStage(t, aNode("a", showing("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
	s.idle = true
	s.hide(&storagev1.VolumeAttachment{})
	s.Store(t, anAttachment("v", "a", isAttached, func(va *storagev1.VolumeAttachment) { va.UID = "another" }))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a uncertain")
	if va := s.va("v", "a"); va.DeletionTimestamp != nil {
		t.Error("the other VolumeAttachment was deleted")
	}
	s.hide()
	s.idle = false
	s.pass(time.Minute)
	s.is()
}

// The cache does not show the VolumeAttachment that is to be deleted. That it is gone is not concluded from
// the cache.
//
// Pins ATT-81.
func TestAVolumeAttachmentThatTheCacheDoesNotShowIsDeleted(t *testing.T) {
	s := newStage(t, aNode("a", showing("v")), aVolume("v", once), aClaim("v"))
	s.hide(&storagev1.VolumeAttachment{})
	s.idle = true
	s.Store(t, aNode("b"), aPod("pod", "b", "v"))
	s.pass(driverWait + promptly)
	s.is("v@b wanted uncertain")
	s.Remove(t, aPod("pod", "b", "v"))
	controllertest.Change(t, s.Env, "", "b", uses())
	s.pass(soon)
	s.is("v@b uncertain")
	if va := s.va("v", "b"); va.DeletionTimestamp == nil {
		t.Error("it was not deleted")
	}
	s.hide()
	s.pass(time.Minute)
	s.is("v@b uncertain")
	s.idle = false
	s.pass(time.Minute)
	s.is()
}

// Pins ATT-2 and ATT-22.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.ServiceAccount != "attachdetach-controller" || d.EventSource != "attachdetach-controller" || d.Aliases[0] != "attachdetach" {
		t.Errorf("descriptor is %+v", d)
	}
}

// Pins ATT-40f and ATT-40g.
func TestTheVolumeAttachment(t *testing.T) {
	pv := aVolume("handle", once)
	pv.Name = "pv"
	at := place{volumeName("handle"), "node"}
	va := vaFor(at, migrated(specOf(pv)))
	// sha256 of "handlecsi.example.comnode"
	if want := "csi-" + sumOf("handlecsi.example.comnode"); va.Name != want {
		t.Errorf("name is %s, want %s", va.Name, want)
	}
	if va.Spec.Attacher != driver || va.Spec.NodeName != "node" || *va.Spec.Source.PersistentVolumeName != "pv" || va.Spec.Source.InlineVolumeSpec != nil {
		t.Errorf("spec is %+v", va.Spec)
	}
	inline := specOf(pv)
	inline.Inline = true
	if va := vaFor(at, migrated(inline)); va.Spec.Source.PersistentVolumeName != nil || va.Spec.Source.InlineVolumeSpec == nil {
		t.Errorf("spec is %+v", va.Spec)
	}
}
