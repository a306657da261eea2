package vacprotection

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which classes, and what refers to them, come and go.
type model struct {
	*simulation.World
	t *testing.T
}

type attributesClass = storagev1.VolumeAttributesClass

func isProtected(c *attributesClass) bool { return slices.Contains(c.Finalizers, string(finalizer)) }

// validate checks an update of the controller. It goes by caches, so that a class may go that is referred to.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*attributesClass), new.(*attributesClass)
	if isProtected(was) == isProtected(is) || isProtected(was) == (was.DeletionTimestamp == nil) {
		return errors.New("the finalizer is added to a class that lacks it, and removed from one that is being deleted")
	}
	return nil
}

// isReferredTo reports whether a volume or a claim refers to a class.
func (m *model) isReferredTo(c *attributesClass) bool {
	byVolume := func(v *corev1.PersistentVolume) bool { return ofVolume(v).has(c.Name) }
	byClaim := func(claim *corev1.PersistentVolumeClaim) bool { return ofClaim(claim).has(c.Name) }
	return slices.ContainsFunc(simulation.All[*corev1.PersistentVolume](m.World), byVolume) ||
		slices.ContainsFunc(simulation.All[*corev1.PersistentVolumeClaim](m.World), byClaim)
}

// some returns the name of a class, nil as often as one of them.
func (m *model) some() *string {
	if n := m.Rand.IntN(4); n < 3 {
		return ptr.To(fmt.Sprint("c", n))
	}
	return nil
}

// user has classes, volumes and claims come and go, and refer to other classes.
func (m *model) user() {
	n := m.Rand.IntN
	switch n(3) {
	case 0:
		m.class(fmt.Sprint("c", n(3)))
	case 1:
		m.volume(fmt.Sprint("v", n(2)))
	case 2:
		m.claim(fmt.Sprint("p", n(2)))
	}
}

func (m *model) class(name string) {
	switch c, ok := simulation.Get[*attributesClass](m.World, "", name); {
	case !ok:
		created := &attributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if m.Rand.IntN(3) > 0 {
			created.Finalizers = []string{string(finalizer)}
		}
		m.Create(created)
	case m.OneIn(3):
		simulation.Change(m.World, c, func(c *attributesClass) { c.Labels = map[string]string{"changed": fmt.Sprint(m.Rand.IntN(100))} })
	case c.DeletionTimestamp == nil:
		m.Delete(c, nil)
	}
}

func (m *model) volume(name string) {
	change := func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = m.some() }
	switch v, ok := simulation.Get[*corev1.PersistentVolume](m.World, "", name); {
	case !ok:
		created := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(created)
		m.Create(created)
	case m.OneIn(2):
		simulation.Change(m.World, v, change)
	default:
		m.Delete(v, nil)
	}
}

func (m *model) claim(name string) {
	change := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = m.some(), m.some()
		c.Status.ModifyVolumeStatus = nil
		if target := m.some(); target != nil {
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: *target}
		}
	}
	switch c, ok := simulation.Get[*corev1.PersistentVolumeClaim](m.World, "ns", name); {
	case !ok:
		created := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		change(created)
		m.Create(created)
	case m.OneIn(2):
		simulation.Change(m.World, c, change)
	default:
		m.Delete(c, nil)
	}
}

// TestWhateverHappensNoClassStaysUnused has classes, and what refers to them, deleted and created again, requests fail
// and the controller restarted, while the caches are behind and lack objects. In the end every class is protected, and
// none is being deleted that nothing refers to.
func TestWhateverHappensNoClassStaysUnused(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t}).run()
	})
}

func (m *model) run() {
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		c := must.Get(newController(env))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		queue.AnyOrder = true
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	m.Validate = m.validate
	m.Hasty = []int{0, 3, 10}[m.Rand.IntN(3)]
	m.MayBeLossy(2)
	m.Begin()
	m.Play(m.user, m.user)
	m.Settle(10*time.Minute, nil)
	for _, c := range simulation.All[*attributesClass](m.World) {
		if !isProtected(c) || c.DeletionTimestamp != nil && !m.isReferredTo(c) {
			m.t.Errorf("class %s, deleted at %v, has the finalizers %q and is referred to: %v",
				c.Name, c.DeletionTimestamp, c.Finalizers, m.isReferredTo(c))
		}
	}
}
