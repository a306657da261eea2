package rootca

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// TestWhateverHappensEachNamespaceHasTheBundleInTheEnd has namespaces and ConfigMaps deleted, created again and edited,
// requests fail, and the controller restarted with the same bundle or another one, while the caches are behind or
// incomplete.
func TestWhateverHappensEachNamespaceHasTheBundleInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		n := w.Rand.IntN
		namespaces := simulation.Namespaces{World: w, Names: []string{"a", "b", "c"}}
		w.Refuse = namespaces.Refusal
		var bundle string // of the running instance
		w.Validate = func(old, new runtime.Object) error {
			was, ok := old.(*corev1.ConfigMap)
			switch {
			case ok && correct(was, bundle) && !w.IsLateWrite():
				t.Errorf("%s is written, and was correct", was.Namespace)
			case ok && was.Data[bundleKey] != "" && new.(*corev1.ConfigMap).Data[bundleKey] == "":
				t.Errorf("%s loses its bundle", was.Namespace)
			}
			return nil
		}
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			bundle = []string{"one", "one", "other", ""}[n(4)]
			env.ClusterCA = []byte(bundle)
			p := must.Get(newPublisher(env, config{}))(t)
			queue := simulation.NewQueue(w, p.reconcile)
			p.queue = queue
			return simulation.Instance{Runners: []simulation.Runner{queue}}
		}
		w.MayBeLossy(2)
		w.Hasty = []int{0, 3}[n(2)]
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Play(func() { namespaces.Act(false) }, func() {
			published := simulation.All[*corev1.ConfigMap](w)
			if len(published) == 0 || w.OneIn(2) {
				namespaces.User()
				return
			}
			cm := published[n(len(published))]
			if w.OneIn(2) {
				w.Delete(cm, nil)
				return
			}
			w.Note("user edits %s", cm.Namespace)
			simulation.Change(w, cm, func(cm *corev1.ConfigMap) {
				switch n(3) {
				case 0:
					cm.Data = nil
				case 1:
					cm.Data = map[string]string{bundleKey: bundle, "more": ""}
				case 2:
					cm.Annotations = nil
				}
			})
		})
		w.Settle(time.Minute, func() bool { return namespaces.Act(true) })
		all := simulation.All[*corev1.Namespace](w)
		for _, ns := range all {
			cm, ok := simulation.Get[*corev1.ConfigMap](w, ns.Name, configMapName)
			if !ok || !correct(cm, bundle) {
				t.Errorf("namespace %s has %v", ns.Name, cm)
			}
		}
		if published := simulation.All[*corev1.ConfigMap](w); len(published) != len(all) {
			t.Errorf("%d ConfigMaps in %d namespaces", len(published), len(all))
		}
	})
}
