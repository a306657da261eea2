package resourcequota

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selected is which objects a quota counts: those that meet all requirements.
type selected struct {
	requirements []requirement
	// invalid is set if a requirement cannot be evaluated; nothing is counted then.
	invalid bool
}

// requirement is a scope of a quota.
type requirement struct {
	scope corev1.ResourceQuotaScope
	// values selects by the value that an object has for the scope; nil if it is enough to
	// have one. Only priority classes and volume attributes classes have values.
	values labels.Selector
}

// operators are those of a scope selector, other than Exists.
var operators = map[corev1.ScopeSelectorOperator]selection.Operator{
	corev1.ScopeSelectorOpIn:           selection.In,
	corev1.ScopeSelectorOpNotIn:        selection.NotIn,
	corev1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
}

// selectedBy returns which objects the scopes and the scope selector of a quota select.
func selectedBy(spec corev1.ResourceQuotaSpec) selected {
	var s selected
	for _, scope := range spec.Scopes {
		s.requirements = append(s.requirements, requirement{scope: scope})
	}
	if spec.ScopeSelector == nil {
		return s
	}
	for _, expression := range spec.ScopeSelector.MatchExpressions {
		r := requirement{scope: expression.ScopeName}
		if hasValues(r.scope) && expression.Operator != corev1.ScopeSelectorOpExists {
			values, err := labels.NewRequirement(string(r.scope), operators[expression.Operator], expression.Values)
			if err != nil {
				s.invalid = true
				continue
			}
			r.values = labels.NewSelector().Add(*values)
		}
		s.requirements = append(s.requirements, r)
	}
	return s
}

func hasValues(scope corev1.ResourceQuotaScope) bool {
	return scope == corev1.ResourceQuotaScopePriorityClass || scope == corev1.ResourceQuotaScopeVolumeAttributesClass
}

// any reports whether objects that are in no scope are counted.
func (s selected) any() bool { return len(s.requirements) == 0 && !s.invalid }

// includes reports whether an object is counted, given how it meets a requirement.
func (s selected) includes(meets func(requirement) bool) bool {
	return !s.invalid && !slices.ContainsFunc(s.requirements, func(r requirement) bool { return !meets(r) })
}

// metBy reports whether an object meets a requirement whose scope has values, given those of the
// object: one of them is enough.
func (r requirement) metBy(values ...string) bool {
	if r.values == nil {
		return len(values) > 0
	}
	if len(values) == 0 {
		return r.values.Matches(labels.Set{})
	}
	return slices.ContainsFunc(values, func(value string) bool {
		return r.values.Matches(labels.Set{string(r.scope): value})
	})
}
