package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/supervisor"
)

// find fills in what keeps something from happening.
func (s Sources) find(a *Answer, of subject) {
	if rejected := s.Rejected(); rejected != "" {
		a.say("The configuration file has changed and is not in force: %s", rejected)
	}
	unreached := s.Unreached()
	if unreached != "" {
		a.say("%s", unreached)
	}
	s.findObject(a, of, unreached == "")
	s.findCaches(a, of)
	s.findStopped(a)
	s.findBreaker(a, of)
	a.findKeys()
	a.findRefusal()
	if len(a.Findings) == 0 {
		a.say("Nothing is known that keeps a controller from working on it.")
	}
}

func (a *Answer) say(format string, args ...any) {
	a.Findings = append(a.Findings, fmt.Sprintf(format, args...))
}

// findObject says what the object itself shows. That it is absent is shown only while the API server is reached.
func (s Sources) findObject(a *Answer, of subject, reached bool) {
	caches := s.Caches()
	if caches == nil {
		a.say("This process has no connection to the API server.")
		return
	}
	object, certain := caches.Lookup(of.Resource, of.Namespace, of.Name)
	switch {
	case object == nil && certain && reached:
		a.say("The object does not exist.")
	case object == nil:
		// No cache shows whether it exists.
	case object.GetDeletionTimestamp() != nil:
		a.say("It was deleted %s ago.", rounded(a.Asked.Sub(deletedAt(object))))
		for _, f := range object.GetFinalizers() {
			a.say("It has the finalizer %s, %s.", f, remover(f))
		}
	}
	if n, ok := object.(*corev1.Namespace); ok && n.DeletionTimestamp != nil {
		a.findRemains(caches, n)
	}
}

// findCaches says which of the caches lag that show the object or are read by controllers that are concerned.
func (s Sources) findCaches(a *Answer, of subject) {
	caches := s.Caches()
	if caches == nil {
		return
	}
	resources := []schema.GroupResource{of.Resource}
	for _, c := range a.Controllers {
		reads, _ := s.Reads(c.Name)
		resources = append(resources, reads...)
	}
	slices.SortFunc(resources, func(x, y schema.GroupResource) int { return strings.Compare(x.String(), y.String()) })
	for _, r := range slices.Compact(resources) {
		if problem := caches.Problem(r); problem != "" {
			a.say("The cache of %s is not up to date: %s", r, problem)
		}
	}
}

// findRemains says why a namespace that has been deleted is still there.
func (a *Answer) findRemains(caches Caches, n *corev1.Namespace) {
	for _, f := range n.Spec.Finalizers {
		if f != corev1.FinalizerKubernetes {
			a.say("It has the finalizer %s in its spec, %s.", f, remover(string(f)))
		}
	}
	for _, c := range n.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			a.say("%s, since %s: %s", c.Type, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
		}
	}
	seen := map[clients.Target]bool{} // some kinds are in two caches
	caches.Visit(n.Name, func(resource schema.GroupResource, object metav1.Object) {
		t := clients.Target{Resource: resource, Namespace: n.Name, Name: object.GetName()}
		if object.GetDeletionTimestamp() == nil || len(object.GetFinalizers()) == 0 || seen[t] {
			return
		}
		seen[t] = true
		if len(seen) <= maxRemains {
			f := object.GetFinalizers()[0]
			a.say("%s %s is left: it has the finalizer %s, %s.", resource, object.GetName(), strings.Join(object.GetFinalizers(), ", "), remover(f))
		}
	})
	if more := len(seen) - maxRemains; more > 0 {
		a.say("%d more objects are left that have finalizers.", more)
	}
}

// maxRemains is how many objects are named that keep a namespace.
const maxRemains = 10

// removers are those that remove the finalizers of Kubernetes and of its CSI sidecars.
var removers = map[string]string{
	metav1.FinalizerDeleteDependents:                      "garbage-collector-controller",
	metav1.FinalizerOrphanDependents:                      "garbage-collector-controller",
	"batch.kubernetes.io/job-tracking":                    "job-controller",
	"customresourcecleanup.apiextensions.k8s.io":          "the API server",
	"kubernetes.io/pvc-protection":                        "persistentvolumeclaim-protection-controller",
	"kubernetes.io/pv-controller":                         "persistentvolume-binder-controller",
	"kubernetes.io/pv-protection":                         "persistentvolume-protection-controller",
	"networking.k8s.io/service-cidr-finalizer":            "service-cidr-controller",
	"resource.kubernetes.io/delete-protection":            "resourceclaim-controller",
	"service.kubernetes.io/load-balancer-cleanup":         "the service controller of the cloud provider",
	"external-provisioner.volume.kubernetes.io/finalizer": "the CSI provisioner",
	"kubernetes.io/vac-protection":                        "volumeattributesclass-protection-controller",
	"scheduling.k8s.io/podgroup-protection":               "podgroup-protection-controller",
}

// The CSI attacher has a finalizer for each driver, the CSI snapshot controller several.
const attacherPrefix, snapshotPrefix = "external-attacher/", "snapshot.storage.kubernetes.io/"

func remover(finalizer string) string {
	switch {
	case strings.HasPrefix(finalizer, attacherPrefix):
		return "which the CSI attacher removes"
	case strings.HasPrefix(finalizer, snapshotPrefix):
		return "which the CSI snapshot controller removes"
	}
	if who, ok := removers[finalizer]; ok {
		return "which " + who + " removes"
	}
	return "which no controller of Kubernetes removes: whoever set it has to"
}

// findStopped says which of the controllers do not work, and who has what they need.
func (s Sources) findStopped(a *Answer) {
	var standby []Controller
	for _, c := range a.Controllers {
		switch {
		case c.State == supervisor.Standby:
			standby = append(standby, c)
		case c.State == supervisor.Running && c.Reason == "":
		case c.State == supervisor.Disabled && strings.HasPrefix(c.Reason, "disabled"):
			a.say("%s is disabled by controllers.%s.enabled.", c.Name, c.Name)
		case c.Reason == "":
			a.say("%s is in state %s.", c.Name, c.State)
		default:
			a.say("%s is in state %s: %s", c.Name, c.State, c.Reason)
		}
	}
	if len(standby) > 0 {
		for _, l := range s.Leadership().Leases {
			a.findHolder(l, standby)
		}
	}
}

// findBreaker says which of the kinds that are concerned are not deleted.
func (s Sources) findBreaker(a *Answer, of subject) {
	for _, stop := range s.Stops() {
		waits := slices.ContainsFunc(a.Keys, func(k Key) bool { return slices.Contains(k.Kinds, stop.Resource) })
		if waits || stop.Resource == of.Resource.String() {
			a.say("Deletions of %s are stopped: %s. %s", stop.Resource, stop.Reason(), breaker.Remedy(a.Asked))
		}
	}
}

// findHolder says who has a lease that controllers of this process stand by for, or why they do not run if nobody else
// has it.
func (a *Answer) findHolder(l leadership.LeaseStatus, standby []Controller) {
	var reasons []string
	here := map[string][]string{} // by reason
	for _, c := range standby {
		if who := l.Blocked[c.Name]; who != "" {
			a.say("%s does not run yet: %s", c.Name, who)
		} else if reason := whyStandby(l, c); reason != "" && slices.Contains(l.Controllers, c.Name) {
			if here[reason] == nil {
				reasons = append(reasons, reason)
			}
			here[reason] = append(here[reason], c.Name)
		}
	}
	for _, reason := range reasons {
		a.say("This process stands by for %s. Of the lock %s, %s.", strings.Join(here[reason], ", "), l.Lock, reason)
	}
}

// whyStandby is why a controller stands by that nobody blocks, empty if it is about to start.
func whyStandby(l leadership.LeaseStatus, c Controller) string {
	switch e := l.Election; {
	case !l.Leading && e != nil && e.Holder != "" && e.Holder != e.Identity:
		return e.Holder + " holds the lease: ask that process"
	case c.Reason == "" && !l.Leading:
		return "nobody holds the lease"
	}
	return c.Reason
}

// findKeys says what queues wait for.
func (a *Answer) findKeys() {
	for _, k := range a.Keys {
		what := fmt.Sprintf("%s, queue %s, key %s", k.Controller, k.Queue, k.Key)
		switch k.State {
		case controller.KeyInFlight:
			a.say("%s: has been worked on for %s.", what, rounded(a.Asked.Sub(k.Since)))
		case controller.KeyQueued:
			a.say("%s: has waited for a worker for %s.", what, rounded(a.Asked.Sub(k.Since)))
		case controller.KeyDelayed:
			until := fmt.Sprintf("%s, %s from now", k.Until.UTC().Format(time.RFC3339), rounded(k.Until.Sub(a.Asked)))
			if k.Trigger == "timer" && k.LastError == "" { // the controller waits for nothing
				a.say("%s: is reconciled again at %s, or when something changes.", what, until)
				continue
			}
			a.say("%s: waits until %s%s.", what, until, failures(k.LoopKey))
		case controller.KeyPaused:
			a.say("%s: waits until the configuration no longer pauses its namespace (pausedNamespaces)%s.", what, failures(k.LoopKey))
		case controller.KeyStopped:
			a.say("%s: waits until deletions of %s go on (deletionBreaker)%s.", what, strings.Join(k.Kinds, ", "), failures(k.LoopKey))
		}
	}
}

func failures(k controller.LoopKey) string {
	if k.LastError == "" {
		return ""
	}
	return fmt.Sprintf(", after %d failures in a row, the last of which is: %s", k.Retries, k.LastError)
}

// findRefusal says which of the last writes failed, unless the same write succeeded later.
func (a *Answer) findRefusal() {
	seen := map[string]bool{}
	for _, w := range slices.Backward(a.Writes) {
		kind := w.Controller + " " + w.Verb + " " + w.Object.Resource + " " + w.Subresource
		if seen[kind] {
			continue
		}
		seen[kind] = true
		if w.Error != "" {
			a.say("The last %s of %s by %s failed: %s", w.Verb, w.Object.Resource, w.Controller, w.Error)
		}
	}
}

// deletedAt is when the deletion of an object was asked for: its timestamp is the end of its grace period.
func deletedAt(object metav1.Object) time.Time {
	grace := time.Duration(ptr.Deref(object.GetDeletionGracePeriodSeconds(), 0)) * time.Second
	return object.GetDeletionTimestamp().Add(-grace)
}

func rounded(d time.Duration) string { return max(0, d).Round(time.Second).String() }
