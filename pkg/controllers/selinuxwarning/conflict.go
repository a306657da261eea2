package selinuxwarning

import "k8s.io/apimachinery/pkg/types"

// Properties that pods can be in conflict about.
const (
	labelProperty  = "SELinuxLabel"
	policyProperty = "SELinuxChangePolicy"
)

// conflict is a conflict as one of the two pods sees it.
type conflict struct {
	property string
	pod      types.NamespacedName
	value    string
	with     types.NamespacedName
	other    string
}

// differences is what of two values is in conflict.
type differences struct{ policy, label bool }

func (d differences) any() bool { return d.policy || d.label }

func compare(a, b value) differences {
	return differences{policy: a.policy != b.policy, label: a.label.conflictsWith(b.label)}
}

// between returns the conflicts of two pods, each of them as the first one sees it, and then as the other one does.
func between(pod, with types.NamespacedName, is, other value, found differences) []conflict {
	var all []conflict
	add := func(property, own, others string) {
		all = append(all, conflict{property, pod, own, with, others}, conflict{property, with, others, pod, own})
	}
	if found.policy {
		add(policyProperty, string(is.policy), string(other.policy))
	}
	if found.label {
		add(labelProperty, is.label.text, other.label.text)
	}
	return all
}
