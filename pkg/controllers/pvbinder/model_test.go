package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/simulation"
)

// model is a world with claims, volumes, a scheduler and an external provisioner.
type model struct {
	*simulation.World
	t *testing.T
	// named has the volumes that claims have named, by the UID of the claim.
	named map[types.UID]string
	// reserved has the volumes that have referred to a claim, by its UID.
	reserved map[types.UID][]string
	// destroyed has the volumes, by UID, whose storage is deleted.
	destroyed map[types.UID]bool
	// asked are the claims that the provisioner works on. It does not notice if they change.
	asked []*pvc
}

func (m *model) allClaims() []*pvc { return simulation.All[*pvc](m.World) }
func (m *model) allVolumes() []*pv { return simulation.All[*pv](m.World) }

func (m *model) claimWith(uid types.UID) *pvc {
	for _, c := range m.allClaims() {
		if c.UID == uid {
			return c
		}
	}
	return nil
}

// mustBeFree fails the test if a volume belongs to a claim.
func (m *model) mustBeFree(v *pv, what string) {
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		return
	}
	if c := m.claimWith(v.Spec.ClaimRef.UID); c != nil && (c.Spec.VolumeName == "" || c.Spec.VolumeName == v.Name) {
		m.t.Errorf("%s is %s, but belongs to %s %s", v.Name, what, c.Name, c.UID)
	}
}

// note remembers what a new state of an object refers to.
func (m *model) note(o runtime.Object) {
	switch o := o.(type) {
	case *pvc:
		m.named[o.UID] = o.Spec.VolumeName
	case *pv:
		if ref := o.Spec.ClaimRef; ref != nil && ref.UID != "" {
			m.reserved[ref.UID] = append(m.reserved[ref.UID], o.Name)
		}
	}
}

func (m *model) admit(o runtime.Object) {
	switch o := o.(type) {
	case *pvc:
		o.Status.Phase = corev1.ClaimPending
	case *pv:
		o.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending}
	}
	m.note(o)
}

// validate checks an update of the controller.
func (m *model) validate(old, new runtime.Object) error {
	m.note(new)
	switch is := new.(type) {
	case *pvc:
		was := old.(*pvc)
		if was.Spec.VolumeName != "" && is.Spec.VolumeName != was.Spec.VolumeName {
			return errors.New("spec is immutable after creation")
		}
		if is.Spec.VolumeName != was.Spec.VolumeName && !slices.Contains(m.reserved[is.UID], is.Spec.VolumeName) {
			return fmt.Errorf("%s names %s, which has not been reserved", is.Name, is.Spec.VolumeName)
		}
	case *pv:
		m.validateVolume(old.(*pv), is)
	}
	return nil
}

func (m *model) validateVolume(was, is *pv) {
	over := is.Status.Phase == corev1.VolumeReleased || is.Status.Phase == corev1.VolumeFailed
	if over && was.Status.Phase != is.Status.Phase {
		m.mustBeFree(is, string(is.Status.Phase))
	}
	from, to := uidIn(was), uidIn(is)
	if from == to {
		return
	}
	switch {
	case from != "" && to != "":
		m.t.Errorf("%s is taken from %s and given to %s", is.Name, from, to)
	case from != "" && (m.named[from] == "" || m.named[from] == is.Name):
		m.t.Errorf("%s is taken from %s, which did not name another volume", is.Name, from)
	case m.destroyed[is.UID]:
		m.t.Errorf("%s is given to %s, and has no storage", is.Name, to)
	}
}

func uidIn(v *pv) types.UID { return ptr.Deref(v.Spec.ClaimRef, corev1.ObjectReference{}).UID }

// disks is the plugin of volumes that the controller deletes itself.
type disks struct{ m *model }

func (disks) Name() string        { return hostPathName }
func (disks) Supports(v *pv) bool { return v.Spec.HostPath != nil }
func (d disks) Delete(_ context.Context, v *pv) error {
	if live, ok := simulation.Get[*pv](d.m.World, "", v.Name); ok && live.UID == v.UID {
		d.m.mustBeFree(live, "destroyed")
	}
	d.m.Note("the storage of %s %s is deleted", v.Name, v.UID)
	if d.m.Faulty && d.m.OneIn(4) {
		return errors.New("busy")
	}
	d.m.destroyed[v.UID] = true
	return nil
}

// TestWhateverHappensNoVolumeIsTakenFromAClaim has claims and volumes created, deleted and recreated, requests fail and
// the controller restarted, while the caches are behind or incomplete. No volume of a claim is released, destroyed or
// given to another, and in the end all claims and volumes are bound that can be.
func TestWhateverHappensNoVolumeIsTakenFromAClaim(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{
			World: w, t: t,
			named: map[types.UID]string{}, reserved: map[types.UID][]string{}, destroyed: map[types.UID]bool{},
		}).run()
	})
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	c := newWithPlugins(env, defaults(), plugins{disks{m}})
	claims := simulation.NewQueue(m.World, func(ctx context.Context, key types.NamespacedName) error {
		return m.finished(c, func() error { return c.reconcileClaim(ctx, key) })
	})
	volumes := simulation.NewQueue(m.World, func(ctx context.Context, name string) error {
		return m.finished(c, func() error { return c.reconcileVolume(ctx, name) })
	})
	passes := simulation.NewPasses(m.World, c.syncPeriod, c.syncPeriod, func(ctx context.Context) { c.resync(ctx, ctx) })
	c.claimQueue, c.volumeQueue = claims, volumes
	m.SyncHandlers()
	c.operations.begin(m.Context(), m.Context())
	c.takeOver()
	return simulation.Instance{
		Runners:  []simulation.Runner{claims, volumes, passes},
		HandOver: func() any { return c.HandOver() },
	}
}

// finished reconciles, and waits for the operations that were started.
func (m *model) finished(c *binderController, reconcile func() error) error {
	running := func() map[string]func() {
		c.operations.mu.Lock()
		defer c.operations.mu.Unlock()
		return maps.Clone(c.operations.running)
	}
	before := running()
	err := reconcile()
	for name, wait := range running() {
		if before[name] == nil {
			wait()
		}
	}
	return err
}

func (m *model) run() {
	m.Admit, m.Validate = m.admit, m.validate
	m.Fake.PrependReactor("delete", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if v, ok := simulation.Get[*pv](m.World, "", a.(clienttesting.DeleteAction).GetName()); ok {
			m.mustBeFree(v, "deleted")
		}
		return false, nil, nil
	})
	m.Start = m.start
	m.Hasty = []int{0, 3, 10}[m.Rand.IntN(3)]
	m.class("fast", csiDriver)
	m.class("late", csiDriver)
	for i := range 3 {
		m.newVolume(fmt.Sprint("v", i))
		m.newClaim(fmt.Sprint("c", i))
	}
	m.MayBeLossy(2)
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Play(func() { m.others(false) }, m.users)
	m.Settle(10*time.Minute, func() bool { return m.others(true) })
	for _, c := range m.allClaims() {
		m.checkClaim(c)
	}
	for _, v := range m.allVolumes() {
		m.checkVolume(v)
	}
}

func (m *model) checkClaim(c *pvc) {
	v, ok := simulation.Get[*pv](m.World, "", c.Spec.VolumeName)
	of := types.UID("")
	if ok {
		of = uidIn(v)
	}
	phase := corev1.ClaimPending
	switch {
	case of == c.UID && isBindCompleted(c):
		phase = corev1.ClaimBound
	case isBindCompleted(c):
		phase = corev1.ClaimLost
	case of == c.UID:
		m.t.Errorf("claim %s is not bound to %s, which refers to it", c.Name, v.Name)
	}
	if c.Status.Phase != phase {
		m.t.Errorf("claim %s of %q is %s, want %s", c.Name, c.Spec.VolumeName, c.Status.Phase, phase)
	}
	if c.Spec.VolumeName != "" {
		if ok && v.Spec.ClaimRef == nil && mismatch(c, v, true) == "" {
			m.t.Errorf("claim %s waits for %s, which is free", c.Name, v.Name)
		}
		return
	}
	class := volume.GetPersistentVolumeClaimClass(c)
	if class == "fast" || class == "late" || lacksClass(c) && m.hasDefault() {
		m.t.Errorf("claim %s of class %q is not bound", c.Name, class)
	}
	for _, v := range m.allVolumes() {
		if v.Status.Phase == corev1.VolumeAvailable && mismatch(c, v, true) == "" &&
			(v.Spec.ClaimRef == nil || volume.IsVolumeBoundToClaim(v, c)) {
			m.t.Errorf("claim %s waits, though %s fits", c.Name, v.Name)
		}
	}
}

func (m *model) hasDefault() bool {
	return slices.ContainsFunc(simulation.All[*storagev1.StorageClass](m.World), isDefault)
}

func (m *model) checkVolume(v *pv) {
	want := []corev1.PersistentVolumePhase{corev1.VolumeAvailable}
	if uid := uidIn(v); uid != "" {
		want = []corev1.PersistentVolumePhase{corev1.VolumeBound}
		if m.claimWith(uid) == nil {
			want = []corev1.PersistentVolumePhase{corev1.VolumeReleased, corev1.VolumeFailed}
		}
	}
	if !slices.Contains(want, v.Status.Phase) {
		m.t.Errorf("volume %s of %v is %s", v.Name, v.Spec.ClaimRef, v.Status.Phase)
	}
	isDeleted := v.Spec.HostPath != nil || isProvisioned(v)
	if isOver(v) && isDeleted && isReclaimable(v, corev1.PersistentVolumeReclaimDelete) {
		m.t.Errorf("volume %s stays", v.Name)
	}
	if m.destroyed[v.UID] && !isOver(v) {
		m.t.Errorf("volume %s has no storage, and is %s", v.Name, v.Status.Phase)
	}
}
