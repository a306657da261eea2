package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// action is a request to the fake API server.
type action = clienttesting.Action

// Requests and events, as tests print them.
const (
	create   = "create volumeattachments"
	remove   = "delete volumeattachments"
	read     = "get volumeattachments"
	reported = "patch nodes/status "
	look     = "get nodes "
	inquired = "list pods"

	succeeded  = `Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "v" `
	failed     = `Warning FailedAttachVolume AttachVolume.Attach failed for volume "v" : `
	multiplied = `Warning FailedAttachVolume Multi-Attach error for volume "v" Volume is already `
)

// stage is a controller whose loops do not run, between an API server and an attacher that are fakes. Time passes
// only when the test says so, and everything happens in a fixed order.
type stage struct {
	*controllertest.Env
	t *testing.T
	c *attachDetachController

	placeQueue *timed[place]
	nodeQueue  *timed[string]
	podQueue   *timed[types.NamespacedName]
	claimQueue *timed[types.NamespacedName]

	// idle stops the attacher, which otherwise does at once what VolumeAttachments ask for.
	idle bool
	// shown are the versions of objects that the caches hold; hidden are kinds whose caches are behind.
	shown    map[string]runtime.Object
	hidden   map[string]bool
	requests []string
}

// timed is a queue whose keys are taken by the test.
type timed[K comparable] struct {
	s    *stage
	keys []K
	due  map[K]time.Time
}

func (q *timed[K]) Add(key K)                           { q.AddAfter(key, 0) }
func (q *timed[K]) Enqueue(_ reconcile.Lane, key K)     { q.AddAfter(key, 0) }
func (q *timed[K]) AddAfter(key K, delay time.Duration) { q.EnqueueAfter(reconcile.Fresh, key, delay) }

func (q *timed[K]) EnqueueAfter(_ reconcile.Lane, key K, delay time.Duration) {
	at := q.s.Clock.Now().Add(max(delay, 0))
	if was, ok := q.due[key]; !ok {
		q.keys = append(q.keys, key)
	} else if was.Before(at) {
		return
	}
	q.due[key] = at
}

// forget drops a key, as if a worker had taken it.
func (q *timed[K]) forget(key K) {
	q.keys = slices.DeleteFunc(q.keys, func(other K) bool { return other == key })
	delete(q.due, key)
}

// work reconciles the keys that are due, and reports whether there were any.
func (q *timed[K]) work(reconcile func(context.Context, K) error) (worked bool) {
	for i := 0; i < len(q.keys); i++ {
		key := q.keys[i]
		if q.due[key].After(q.s.Clock.Now()) {
			continue
		}
		q.keys = slices.Delete(q.keys, i, i+1)
		delete(q.due, key)
		if err := reconcile(q.s.Context(), key); err != nil {
			q.s.t.Logf("%v: %v", key, err)
			q.AddAfter(key, time.Second)
		}
		return true
	}
	return false
}

// next is when the next key is due.
func (q *timed[K]) next() (next time.Time) {
	for _, at := range q.due {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// newStage makes a controller that begins with these objects in its caches.
func newStage(t *testing.T, objects ...runtime.Object) *stage {
	t.Helper()
	s := &stage{Env: controllertest.New(t), t: t, shown: map[string]runtime.Object{}, hidden: map[string]bool{}}
	s.CompleteWrites("volumeattachments")
	s.Fake.PrependReactor("patch", "nodes", s.patchNode)
	s.Fake.PrependReactor("delete", "volumeattachments", s.deleteAttachment)
	s.Store(t, objects...)
	s.start(config{verifyPeriod: time.Minute})
	s.pass(soon)
	return s
}

// start builds a controller and has it begin.
func (s *stage) start(config config) {
	s.t.Helper()
	if config.flexDirectory == "" {
		config.flexDirectory = s.t.TempDir()
	}
	s.build(config)
	s.begin()
}

func (s *stage) build(config config) {
	s.t.Helper()
	c, err := newController(s.Env.Env, config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.c = c
	s.placeQueue = &timed[place]{s: s, due: map[place]time.Time{}}
	s.nodeQueue = &timed[string]{s: s, due: map[string]time.Time{}}
	s.podQueue = &timed[types.NamespacedName]{s: s, due: map[types.NamespacedName]time.Time{}}
	s.claimQueue = &timed[types.NamespacedName]{s: s, due: map[types.NamespacedName]time.Time{}}
	c.placeQueue, c.nodeQueue, c.podQueue, c.claimQueue = s.placeQueue, s.nodeQueue, s.podQueue, s.claimQueue
	s.show()
}

func (s *stage) begin() {
	s.t.Helper()
	if err := s.c.begin(s.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.run()
}

// restart replaces the controller by another instance, which gets what it hands over.
func (s *stage) restart() {
	s.t.Helper()
	s.Succeed(s.c.HandOver())
	s.start(s.c.config)
}

// restartWith replaces the controller by one with another configuration.
func (s *stage) restartWith(config config) {
	s.t.Helper()
	s.Succeed(s.c.HandOver())
	s.start(config)
}

// coldStart replaces the controller by one in another process.
func (s *stage) coldStart() {
	s.t.Helper()
	s.Succeed(nil)
	s.start(s.c.config)
}

// kinds are those that the controller caches.
var kinds = []runtime.Object{
	&corev1.Node{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
	&storagev1.CSIDriver{}, &storagev1.VolumeAttachment{}, &corev1.Pod{},
}

// show has the caches catch up with the API server, and calls the handlers.
func (s *stage) show() {
	s.t.Helper()
	s.requests = append(s.requests, s.Requests()...) // catching up forgets them
	type change struct{ old, object runtime.Object }
	var changed []change
	for _, kind := range kinds {
		name := fmt.Sprintf("%T", kind)
		if s.hidden[name] {
			continue
		}
		s.CatchUp(s.t, kind)
		now := map[string]bool{}
		for _, object := range s.CacheOf(s.t, kind).List() {
			object := object.(runtime.Object)
			key := name + " " + keyOf(object)
			now[key] = true
			if was := s.shown[key]; was == nil || versionOf(was) != versionOf(object) {
				s.shown[key] = object
				changed = append(changed, change{was, object})
			}
		}
		for key, object := range s.shown {
			if strings.HasPrefix(key, name+" ") && !now[key] {
				delete(s.shown, key)
				changed = append(changed, change{nil, object})
			}
		}
	}
	for _, change := range changed {
		s.tell(change.old, change.object)
	}
}

// tell calls the handler of an object that has changed. old is nil if it is new or gone.
func (s *stage) tell(old, object runtime.Object) {
	switch object := object.(type) {
	case *corev1.Node:
		s.c.nodeChanged(object)
	case *corev1.PersistentVolume:
		s.c.enqueueClaimOf(reconcile.Fresh, object)
	case *corev1.PersistentVolumeClaim:
		if s.c.begun.Load() {
			s.claimQueue.Add(reconcile.KeyOf(object))
		}
	case *storagev1.CSIDriver:
		s.c.enqueueUsersOf(object)
	case *storagev1.VolumeAttachment:
		s.c.attachmentChanged(object.Name)
	case *corev1.Pod:
		if old != nil {
			s.c.podUpdated(reconcile.Fresh, old.(*corev1.Pod), object)
			return
		}
		s.c.enqueuePod(reconcile.Fresh, object)
	}
}

func keyOf(object runtime.Object) string {
	accessor, _ := meta.Accessor(object)
	return accessor.GetNamespace() + "/" + accessor.GetName()
}

func versionOf(object runtime.Object) string {
	accessor, _ := meta.Accessor(object)
	return accessor.GetResourceVersion()
}

// run does what is due until nothing is.
func (s *stage) run() {
	s.t.Helper()
	for range 1000 {
		s.actAsAttacher()
		s.show()
		if !s.claimQueue.work(s.c.reconcileClaim) && !s.podQueue.work(s.c.reconcilePod) && !s.nodeQueue.work(s.c.reconcileNode) && !s.placeQueue.work(s.c.reconcile) {
			return
		}
	}
	s.t.Fatal("there is always something to do")
}

// pass lets time pass.
func (s *stage) pass(d time.Duration) {
	s.t.Helper()
	end := s.Clock.Now().Add(d)
	s.run()
	for {
		next := end
		for _, at := range []time.Time{s.placeQueue.next(), s.nodeQueue.next(), s.podQueue.next(), s.claimQueue.next()} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		s.Clock.SetTime(next)
		s.run()
		if !next.Before(end) {
			return
		}
	}
}

// actAsAttacher does what VolumeAttachments ask for.
func (s *stage) actAsAttacher() {
	if s.idle {
		return
	}
	for _, va := range controllertest.AllStored[*storagev1.VolumeAttachment](s.t, s.Env, "") {
		switch {
		case va.DeletionTimestamp != nil:
			s.Remove(s.t, va)
		case !va.Status.Attached:
			va = va.DeepCopy()
			va.Status.Attached = true
			s.Store(s.t, va)
		}
	}
}

// patchNode applies a patch of the status of a node on condition of its UID.
func (s *stage) patchNode(action clienttesting.Action) (bool, runtime.Object, error) {
	patch := action.(clienttesting.PatchAction)
	var sent struct {
		Metadata struct{ UID types.UID }
		Status   struct{ VolumesAttached []corev1.AttachedVolume }
	}
	if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil || patch.GetSubresource() != "status" || patch.GetPatchType() != types.StrategicMergePatchType {
		s.t.Errorf("patch %s of %q: %v", patch.GetPatch(), patch.GetSubresource(), err)
	}
	n, ok := controllertest.Stored[*corev1.Node](s.t, s.Env, "", patch.GetName())
	if !ok {
		return true, nil, apierrors.NewNotFound(corev1.Resource("nodes"), patch.GetName())
	}
	if n.UID != sent.Metadata.UID {
		return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), patch.GetName(), fmt.Errorf("UID is %s", n.UID))
	}
	if slices.Equal(n.Status.VolumesAttached, sent.Status.VolumesAttached) {
		return true, n, nil // what changes nothing is not written, and causes no event
	}
	n.Status.VolumesAttached = sent.Status.VolumesAttached
	s.Store(s.t, n)
	return true, n, nil
}

// deleteAttachment marks a VolumeAttachment as being deleted, as for those with the finalizer of an attacher.
func (s *stage) deleteAttachment(action clienttesting.Action) (bool, runtime.Object, error) {
	request := action.(clienttesting.DeleteActionImpl)
	va, ok := controllertest.Stored[*storagev1.VolumeAttachment](s.t, s.Env, "", request.GetName())
	if !ok {
		return true, nil, apierrors.NewNotFound(storagev1.Resource("volumeattachments"), request.GetName())
	}
	if p := request.DeleteOptions.Preconditions; p == nil || p.UID == nil || *p.UID != va.UID {
		return true, nil, apierrors.NewConflict(storagev1.Resource("volumeattachments"), request.GetName(), fmt.Errorf("UID is %s", va.UID))
	}
	va.DeletionTimestamp = &metav1.Time{Time: s.Clock.Now()}
	s.Store(s.t, va)
	return true, nil, nil
}

// hide has the caches of these kinds stay as they are, and only those.
func (s *stage) hide(hidden ...runtime.Object) {
	clear(s.hidden)
	for _, kind := range hidden {
		s.hidden[fmt.Sprintf("%T", kind)] = true
	}
}

// lose has the cache lack an object that exists, as a list after a break of the watch can, until nothing is hidden.
func (s *stage) lose(object runtime.Object) {
	s.t.Helper()
	s.hide(object)
	s.Uncache(s.t, object)
	delete(s.shown, fmt.Sprintf("%T %s", object, keyOf(object)))
	s.tell(nil, object)
	s.run()
}

// miss has the cache lack a pod, whose deletion was not seen, until nothing is hidden.
func (s *stage) miss(pod *corev1.Pod) {
	s.t.Helper()
	s.hide(pod)
	s.Uncache(s.t, pod)
	delete(s.shown, fmt.Sprintf("%T %s", pod, keyOf(pod)))
	s.c.podMissed(pod)
	s.run()
}

// va returns the VolumeAttachment of a volume on a node.
func (s *stage) va(handle, node string) *storagev1.VolumeAttachment {
	s.t.Helper()
	return controllertest.MustStored[*storagev1.VolumeAttachment](s.t, s.Env, "", vaOf(handle, node))
}

// change changes a VolumeAttachment as an attacher would.
func (s *stage) change(name string, changes ...func(*storagev1.VolumeAttachment)) {
	s.t.Helper()
	controllertest.Change(s.t, s.Env, "", name, changes...)
}

// changePod changes the pod of most tests.
func (s *stage) changePod(changes ...func(*corev1.Pod)) {
	s.t.Helper()
	controllertest.Change(s.t, s.Env, "ns", "pod", changes...)
}

// wantForced fails unless this many detaches were forced.
func (s *stage) wantForced(want ...string) {
	s.t.Helper()
	if got := s.Series(s.t, "attach_detach_controller_attachdetach_controller_forced_detaches"); !slices.Equal(got, want) {
		s.t.Errorf("forced detaches are %q, want %q", got, want)
	}
}

// sent takes the requests since the last time, which have to be these, in order. Names of VolumeAttachments are
// left out.
func (s *stage) sent(want ...string) {
	s.t.Helper()
	got := append(s.requests, s.Requests()...)
	s.requests = nil
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], " csi-")
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("requests are %q, want %q", got, want)
	}
}

// is fails unless this is known of the links, as "volume@node wanted attached" and so on, in order.
func (s *stage) is(want ...string) {
	s.t.Helper()
	var got []string
	for at, l := range s.c.world.links {
		_, id, _ := split(at.volume)
		_, handle, found := strings.Cut(id, "^")
		if !found {
			handle = id
		}
		text := handle + "@" + at.node
		if l.isWanted() {
			text += " wanted"
		}
		text += []string{"", " uncertain", " attached"}[l.state]
		if l.listed {
			text += " listed"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Errorf("links are %q, want %q", got, want)
	}
}

// shows fails unless a node is told that these volumes are attached.
func (s *stage) shows(name string, want ...string) {
	s.t.Helper()
	var got []string
	for _, v := range controllertest.MustStored[*corev1.Node](s.t, s.Env, "", name).Status.VolumesAttached {
		got = append(got, strings.TrimPrefix(string(v.Name), csiPlugin+"/"+driver+"^"))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("node %s shows %q, want %q", name, got, want)
	}
}
