package pvprotection

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

func isProtected(v *corev1.PersistentVolume) bool {
	return slices.Contains(v.Finalizers, string(finalizer))
}

// TestWhateverHappensNoBoundVolumeGoes has volumes bound, released, deleted and created again, requests fail and the
// controller restarted, while the cache is behind and lacks volumes.
func TestWhateverHappensNoBoundVolumeGoes(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			c := must.Get(newController(env))(t)
			queue := simulation.NewQueue(w, c.reconcile)
			queue.AnyOrder = true
			c.queue = queue
			return simulation.Instance{Runners: []simulation.Runner{queue}}
		}
		w.Validate = func(old, new runtime.Object) error {
			was, is := old.(*corev1.PersistentVolume), new.(*corev1.PersistentVolume)
			mayGo := was.DeletionTimestamp != nil && was.Status.Phase != corev1.VolumeBound
			if isProtected(was) && !isProtected(is) && !mayGo {
				return errors.New("the volume is in use")
			}
			return nil
		}
		w.Hasty = []int{0, 3, 10}[w.Rand.IntN(3)]
		if w.OneIn(2) {
			w.Lossy = func(runtime.Object) bool { return w.OneIn(3) }
		}
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Play(func() { actOnVolume(w) }, func() { actOnVolume(w) })
		w.Settle(10*time.Minute, nil)
		for _, v := range simulation.All[*corev1.PersistentVolume](w) {
			if !isProtected(v) || v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound {
				t.Errorf("volume %s, deleted at %v, is %s and has the finalizers %q",
					v.Name, v.DeletionTimestamp, v.Status.Phase, v.Finalizers)
			}
		}
	})
}

// actOnVolume is a user, who creates and deletes volumes, or the binder.
func actOnVolume(w *simulation.World) {
	n := w.Rand.IntN
	name := fmt.Sprint("v", n(3))
	switch v, ok := simulation.Get[*corev1.PersistentVolume](w, "", name); {
	case !ok:
		created := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if n(3) > 0 {
			created.Finalizers = []string{string(finalizer)}
		}
		w.Create(created)
	case n(2) == 0:
		phases := []corev1.PersistentVolumePhase{corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeAvailable}
		simulation.Change(w, v, in(phases[n(len(phases))]))
	case v.DeletionTimestamp == nil:
		w.Delete(v, nil)
	}
}
