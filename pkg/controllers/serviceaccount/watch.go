package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues namespaces on events after which the account may be missing. There is no
// resync, since no other event causes that.
func (c *serviceAccountController) watch(namespaces, accounts cache.SharedIndexInformer) {
	watch.ObjectsEvery(namespaces, 0, watch.Funcs[*corev1.Namespace]{
		Add: func(lane reconcile.Lane, ns *corev1.Namespace) { c.queue.Enqueue(lane, ns.Name) },
		Update: func(lane reconcile.Lane, old, ns *corev1.Namespace) {
			if becameActive(old, ns) {
				c.queue.Enqueue(lane, ns.Name)
			}
		},
	})
	watch.ObjectsEvery(accounts, 0, watch.Funcs[*corev1.ServiceAccount]{
		Delete: func(account *corev1.ServiceAccount) {
			if account.Name == accountName {
				c.queue.Enqueue(reconcile.Gone(account), account.Namespace)
			}
		},
	})
}

// becameActive reports whether an update of a namespace may require an account. Other updates
// change nothing that an earlier event has not handled.
func becameActive(old, ns *corev1.Namespace) bool {
	if ns.Status.Phase != corev1.NamespaceActive {
		return false
	}
	// Another UID means that the namespace was recreated while the watch was interrupted.
	return old.Status.Phase != corev1.NamespaceActive || old.UID != ns.UID
}
