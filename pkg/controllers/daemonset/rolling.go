package daemonset

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// rollingUpdate decides which old pods are replaced next.
func (o *observation) rollingUpdate() (plan, error) {
	desired := o.desired()
	maxSurge, err := o.maxSurge(desired)
	if err != nil {
		return plan{}, err
	}
	maxUnavailable, err := o.maxUnavailable(desired)
	if err != nil {
		return plan{}, err
	}
	if maxSurge > 0 {
		return o.surge(maxSurge, desired)
	}
	if maxUnavailable == 0 && desired > 0 {
		maxUnavailable = 1
	}
	return o.replace(maxUnavailable), nil
}

// progress is the state of the update on a node.
type progress struct {
	// updated and old are the pods of either kind that are not being deleted, if any.
	updated, old *corev1.Pod
	// excess: there is more than one of a kind. Manage deletes the surplus first.
	excess bool
}

func (o *observation) progressOf(s *site) progress {
	var p progress
	for _, pod := range staying(s.pods) {
		kind := &p.old
		if o.isUpdated(pod) {
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
func (o *observation) updateSites(do func(s *site, exists bool) error) error {
	for i := range o.sites {
		if s := &o.sites[i]; s.run || len(s.pods) > 0 {
			if err := do(s, true); err != nil {
				return err
			}
		}
	}
	for i := range o.strays {
		if err := do(&o.strays[i], false); err != nil {
			return err
		}
	}
	return nil
}

// replace deletes old pods, so that manage creates new ones, while no more than maxUnavailable
// nodes lack an available pod. Old pods that are not available already count, so all of them
// are deleted.
func (o *observation) replace(maxUnavailable int) plan {
	var unavailable int
	var broken, candidates []*corev1.Pod
	_ = o.updateSites(func(s *site, _ bool) error {
		p := o.progressOf(s)
		switch {
		case p.excess, (p.updated == nil) == (p.old == nil):
			// Manage acts on this node.
			unavailable++
		case p.old == nil:
			if !o.isAvailable(p.updated) {
				unavailable++
			}
		case !o.isAvailable(p.old):
			unavailable++
			broken = append(broken, p.old)
		default:
			candidates = append(candidates, p.old)
		}
		return nil
	})
	slices.SortFunc(broken, byTarget)
	slices.SortFunc(candidates, byTarget)
	return plan{delete: append(broken, take(turned(candidates, o.retries), maxUnavailable-unavailable)...)}
}

// surge creates updated pods beside old ones on no more than maxSurge nodes at once, and
// deletes an old one when the updated one is available.
func (o *observation) surge(maxSurge, desired int) (plan, error) {
	var sum overlap
	if err := o.updateSites(func(s *site, exists bool) error { return o.overlapOn(&sum, s, exists) }); err != nil {
		return plan{}, err
	}
	sum.plan.sort()
	slices.Sort(sum.candidates)
	slices.SortFunc(sum.sunset, byTarget)
	sum.plan.create = append(sum.plan.create, take(turned(sum.candidates, o.retries), maxSurge-sum.surging)...)
	sum.plan.delete = append(sum.plan.delete, take(turned(sum.sunset, o.retries), sum.available-desired)...)
	return sum.plan, nil
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

func (o *observation) overlapOn(sum *overlap, s *site, exists bool) error {
	p := o.progressOf(s)
	oldAvailable, updatedAvailable := p.old != nil && o.isAvailable(p.old), p.updated != nil && o.isAvailable(p.updated)
	if oldAvailable || p.old == nil && updatedAvailable {
		sum.available++
	}
	switch {
	case p.excess:
		// Manage deletes the surplus first.
		sum.surging++
	case p.old == nil:
	case updatedAvailable:
		sum.plan.delete = append(sum.plan.delete, p.old)
	case p.updated != nil:
		sum.surging++
	case !exists:
		return fmt.Errorf("updating the pod %s: its node %s does not exist", p.old.Name, s.node)
	default:
		sum.planReplacement(s, p.old, oldAvailable)
	}
	return nil
}

// planReplacement decides on a node that has only an old pod. A pod that is not available is replaced
// at once, since nothing is lost.
func (sum *overlap) planReplacement(s *site, old *corev1.Pod, available bool) {
	switch {
	case available && s.run:
		sum.candidates = append(sum.candidates, s.node)
	case available:
		sum.sunset = append(sum.sunset, old)
	case s.run:
		sum.plan.create = append(sum.plan.create, s.node)
	default:
		sum.plan.delete = append(sum.plan.delete, old)
	}
}

// take returns the first n, or as many as there are.
func take[T any](all []T, n int) []T { return all[:min(len(all), max(0, n))] }

// turned returns all, beginning with the nth, and with the first after the last.
func turned[T any](all []T, n int) []T {
	if len(all) == 0 {
		return nil
	}
	n %= len(all)
	return slices.Concat(all[n:], all[:n])
}

// byTarget orders pods by their node, and those of a node by name, so that the same ones come first every time.
func byTarget(a, b *corev1.Pod) int {
	return cmp.Or(cmp.Compare(targetOf(a), targetOf(b)), cmp.Compare(a.Name, b.Name))
}
