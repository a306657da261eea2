package serviceaccount

import corev1 "k8s.io/api/core/v1"

// becameActive says whether an update of a namespace can call for an account. Any other
// update finds what an earlier event of the namespace has already taken care of.
func becameActive(old, ns *corev1.Namespace) bool {
	if ns.Status.Phase != corev1.NamespaceActive {
		return false
	}
	// Another UID is a namespace that was recreated while nobody watched.
	return old.Status.Phase != corev1.NamespaceActive || old.UID != ns.UID
}

// needsAccount says whether the account is to be created; account is nil if there is none.
// The phase decides alone: a deletion timestamp without it is not looked at.
func needsAccount(ns *corev1.Namespace, account *corev1.ServiceAccount) bool {
	return ns.Status.Phase == corev1.NamespaceActive && account == nil
}
