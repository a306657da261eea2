package daemonset

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
)

// plan is the changes to make to the pods of a set.
type plan struct {
	// create lists the nodes to create a pod on.
	create []string
	// delete lists the pods to delete.
	delete []*corev1.Pod
	// events are recorded about pods that have finished.
	events []controller.Event
	// retry is the delay until the next failed pod may be replaced; 0 if there is none.
	retry time.Duration
}

// empty reports whether the plan neither creates nor deletes pods.
func (p *plan) empty() bool { return len(p.create) == 0 && len(p.delete) == 0 }

// sort orders the plan by node and pod, so that the observed state alone determines which changes the burst puts off,
// and the order of events.
func (p *plan) sort() {
	slices.Sort(p.create)
	slices.SortFunc(p.delete, byTarget)
	slices.SortFunc(p.events, func(a, b controller.Event) int { return cmp.Compare(a.Message, b.Message) })
}

func (p *plan) retryAfter(wait time.Duration) {
	if p.retry == 0 || wait < p.retry {
		p.retry = wait
	}
}

// manage decides which pods are missing, and which are surplus, have finished, or are on nodes
// where they must not run.
func (o *observation) manage(f failures) plan {
	var p plan
	for i := range o.sites {
		o.manageSite(&p, &o.sites[i], f)
	}
	for _, s := range o.strays {
		p.delete = append(p.delete, unscheduled(s.pods)...)
	}
	p.sort()
	return p
}

func (o *observation) manageSite(p *plan, s *site, f failures) {
	switch {
	case s.run && len(s.pods) == 0:
		p.create = append(p.create, s.node)
	case s.remain && len(s.pods) == 1 && pods.IsActive(s.pods[0]):
		// Nothing to do, as for nearly every node.
	case s.remain:
		running, waits := o.dropEnded(p, s, f)
		if o.surges() {
			o.pruneSurge(p, s, running, waits)
			return
		}
		// A pod that is being deleted occupies the node until it is gone.
		if len(running) > 1 {
			slices.SortFunc(running, oldestFirst)
			p.delete = append(p.delete, running[1:]...)
		}
	default:
		p.delete = append(p.delete, staying(s.pods)...)
	}
}

// dropEnded plans the deletion of pods that failed or succeeded, and returns the others
// that are not being deleted, and whether a failed one waits for the end of its backoff.
func (o *observation) dropEnded(p *plan, s *site, f failures) (running []*corev1.Pod, waits bool) {
	for _, pod := range staying(s.pods) {
		switch pod.Status.Phase {
		case corev1.PodFailed:
			if wait := f.wait(o.ds, s.node); wait > 0 {
				p.retryAfter(wait)
				waits = true
				continue
			}
			p.events = append(p.events, failedPod(o.ds, pod, s.node))
			p.delete = append(p.delete, pod)
		case corev1.PodSucceeded:
			p.events = append(p.events, succeededPod(o.ds, pod, s.node))
			p.delete = append(p.delete, pod)
		default:
			running = append(running, pod)
		}
	}
	return running, waits
}

// pruneSurge keeps, on a node of a surging set, the oldest updated pod and, until that is
// available, the oldest other one. Here only the hash decides whether a pod is updated. While a
// failed pod waits, no other takes its place: it would fail as well, and failed pods would accumulate.
func (o *observation) pruneSurge(p *plan, s *site, running []*corev1.Pod, waits bool) {
	if len(running) == 0 && s.run && !waits {
		p.create = append(p.create, s.node)
	}
	if len(running) < 2 {
		return
	}
	slices.SortFunc(running, oldestFirst)
	var updated, old *corev1.Pod
	for _, pod := range running {
		switch current := o.hasCurrentHash(pod); {
		case current && updated == nil:
			updated = pod
		case !current && old == nil:
			old = pod
		default:
			p.delete = append(p.delete, pod)
		}
	}
	if updated == nil || old == nil {
		return
	}
	if !pods.IsReady(old) || o.isAvailable(updated) {
		p.delete = append(p.delete, old)
	}
}

// staying returns the pods that are not being deleted. As a rule that is all of them, which needs no copy.
func staying(all []*corev1.Pod) []*corev1.Pod {
	isGoing := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }
	if !slices.ContainsFunc(all, isGoing) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), isGoing)
}

// unscheduled returns the pods pinned to a node that was deleted before they were scheduled.
// The pod garbage collector handles scheduled pods only.
func unscheduled(all []*corev1.Pod) []*corev1.Pod {
	var lost []*corev1.Pod
	for _, pod := range staying(all) {
		if pod.Spec.NodeName == "" {
			lost = append(lost, pod)
		}
	}
	return lost
}
