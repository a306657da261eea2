package serviceaccount

import corev1 "k8s.io/api/core/v1"

// needsAccount reports whether the account must be created; account is nil if there is none.
// Only the phase decides; a deletion timestamp alone is ignored.
func needsAccount(ns *corev1.Namespace, account *corev1.ServiceAccount) bool {
	return ns.Status.Phase == corev1.NamespaceActive && account == nil
}
