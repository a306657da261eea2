package daemonset

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// rollingUpdate decides which old pods are replaced next.
func (v *observation) rollingUpdate() (plan, error) {
	desired := v.desired()
	maxSurge, err := v.maxSurge(desired)
	if err != nil {
		return plan{}, err
	}
	maxUnavailable, err := v.maxUnavailable(desired)
	if err != nil {
		return plan{}, err
	}
	if maxSurge > 0 {
		return v.surge(maxSurge, desired)
	}
	if maxUnavailable == 0 && desired > 0 {
		maxUnavailable = 1
	}
	return v.replace(maxUnavailable), nil
}

// progress is the state of the update on a node.
type progress struct {
	// updated and old are the pods of either kind that are not being deleted, if any.
	updated, old *corev1.Pod
	// excess: there is more than one of a kind. Manage deletes the surplus first.
	excess bool
}

func (v *observation) progressOf(s *site) progress {
	var p progress
	for _, pod := range staying(s.pods) {
		kind := &p.old
		if v.isUpdated(pod) {
			kind = &p.updated
		}
		if *kind != nil {
			return progress{excess: true}
		}
		*kind = pod
	}
	return p
}

// updateSites calls do for the nodes that have pods of the set or should have one.
func (v *observation) updateSites(do func(s *site, exists bool) error) error {
	for i := range v.sites {
		if s := &v.sites[i]; s.run || len(s.pods) > 0 {
			if err := do(s, true); err != nil {
				return err
			}
		}
	}
	for i := range v.strays {
		if err := do(&v.strays[i], false); err != nil {
			return err
		}
	}
	return nil
}

// replace deletes old pods, so that manage creates new ones, while no more than maxUnavailable
// nodes lack an available pod. Old pods that are not available already count, so all of them
// are deleted.
func (v *observation) replace(maxUnavailable int) plan {
	var unavailable int
	var broken, candidates []*corev1.Pod
	_ = v.updateSites(func(s *site, _ bool) error {
		p := v.progressOf(s)
		switch {
		case p.excess, (p.updated == nil) == (p.old == nil):
			// Manage acts on this node.
			unavailable++
		case p.old == nil:
			if !v.isAvailable(p.updated) {
				unavailable++
			}
		case !v.isAvailable(p.old):
			unavailable++
			broken = append(broken, p.old)
		default:
			candidates = append(candidates, p.old)
		}
		return nil
	})
	slices.SortFunc(broken, byTarget)
	slices.SortFunc(candidates, byTarget)
	return plan{delete: append(broken, take(candidates, maxUnavailable-unavailable)...)}
}

// surge creates updated pods beside old ones on no more than maxSurge nodes at once, and
// deletes an old one when the updated one is available.
func (v *observation) surge(maxSurge, desired int) (plan, error) {
	var o overlap
	if err := v.updateSites(func(s *site, exists bool) error { return v.overlapOn(&o, s, exists) }); err != nil {
		return plan{}, err
	}
	o.plan.sort()
	slices.Sort(o.candidates)
	slices.SortFunc(o.sunset, byTarget)
	o.plan.create = append(o.plan.create, take(o.candidates, maxSurge-o.surging)...)
	o.plan.delete = append(o.plan.delete, take(o.sunset, o.available-desired)...)
	return o.plan, nil
}

// overlap is the state of a surging update.
type overlap struct {
	// plan is the changes that are not subject to limits.
	plan plan
	// surging is the number of nodes that have more than one pod, available that of nodes
	// with an available one.
	surging, available int
	// candidates are the nodes that have only an available old pod.
	candidates []string
	// sunset are available old pods on nodes that should no longer run one.
	sunset []*corev1.Pod
}

func (v *observation) overlapOn(o *overlap, s *site, exists bool) error {
	p := v.progressOf(s)
	oldAvailable, updatedAvailable := p.old != nil && v.isAvailable(p.old), p.updated != nil && v.isAvailable(p.updated)
	if oldAvailable || p.old == nil && updatedAvailable {
		o.available++
	}
	switch {
	case p.excess:
		// Manage deletes the surplus first.
		o.surging++
	case p.old == nil:
	case updatedAvailable:
		o.plan.delete = append(o.plan.delete, p.old)
	case p.updated != nil:
		o.surging++
	case !exists:
		return fmt.Errorf("updating the pod %s: its node %s does not exist", p.old.Name, s.node)
	default:
		o.succeed(s, p.old, oldAvailable)
	}
	return nil
}

// succeed decides on a node that has only an old pod. A pod that is not available is replaced
// at once, since nothing is lost.
func (o *overlap) succeed(s *site, old *corev1.Pod, available bool) {
	switch {
	case available && s.run:
		o.candidates = append(o.candidates, s.node)
	case available:
		o.sunset = append(o.sunset, old)
	case s.run:
		o.plan.create = append(o.plan.create, s.node)
	default:
		o.plan.delete = append(o.plan.delete, old)
	}
}

// take returns the first n, or as many as there are.
func take[T any](all []T, n int) []T { return all[:min(len(all), max(0, n))] }

// byTarget orders pods by their node, and those of a node by name, so that the same ones come first every time.
func byTarget(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(targetOf(a), targetOf(b)), cmp.Compare(a.Name, b.Name))
}
