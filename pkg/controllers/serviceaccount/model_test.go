package serviceaccount

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// TestWhateverHappensEachNamespaceHasItsAccountInTheEnd has namespaces and accounts deleted and created again, requests
// fail and the controller restarted, while the caches are behind or incomplete.
func TestWhateverHappensEachNamespaceHasItsAccountInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		namespaces := simulation.Namespaces{World: w, Names: []string{"a", "b", "c"}}
		w.Refuse = namespaces.Refusal
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			c := must.Get(newController(env))(t)
			queue := simulation.NewQueue(w, c.reconcile)
			c.queue = queue
			return simulation.Instance{Runners: []simulation.Runner{queue}}
		}
		w.MayBeLossy(2)
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Play(func() { namespaces.Act(false) }, func() {
			if w.OneIn(2) {
				namespaces.User()
				return
			}
			for _, ns := range simulation.All[*corev1.Namespace](w) {
				account, ok := simulation.Get[*corev1.ServiceAccount](w, ns.Name, accountName)
				switch {
				case ok && w.OneIn(2):
					w.Delete(account, nil)
				case !ok && w.OneIn(4) && ns.DeletionTimestamp == nil:
					w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: accountName}})
				}
			}
		})
		w.Settle(time.Minute, func() bool { return namespaces.Act(true) })
		all := simulation.All[*corev1.Namespace](w)
		for _, ns := range all {
			if _, ok := simulation.Get[*corev1.ServiceAccount](w, ns.Name, accountName); !ok {
				t.Errorf("namespace %s has no account", ns.Name)
			}
		}
		if accounts := simulation.All[*corev1.ServiceAccount](w); len(accounts) != len(all) {
			t.Errorf("%d accounts in %d namespaces", len(accounts), len(all))
		}
	})
}
