package selinuxwarning

import corev1 "k8s.io/api/core/v1"

// request is what a pod asks for where it uses a volume.
type request struct {
	label  label
	policy corev1.PodSELinuxChangePolicy
}

// value is with what a volume is used.
type value = request

// on returns the value of a request for a volume that can be mounted with a label, or cannot. The
// labels of its files are changed one by one if it cannot or if the pod says so; the label then does
// not count.
func (r request) on(mountable bool) value {
	if !mountable || r.policy == corev1.SELinuxChangePolicyRecursive || r.label.text == "" {
		return value{policy: corev1.SELinuxChangePolicyRecursive}
	}
	return r
}

// policyOf is the policy of a pod, which is MountOption by default.
func policyOf(pod *corev1.Pod) corev1.PodSELinuxChangePolicy {
	if c := pod.Spec.SecurityContext; c != nil && c.SELinuxChangePolicy != nil {
		return *c.SELinuxChangePolicy
	}
	return corev1.SELinuxChangePolicyMountOption
}
