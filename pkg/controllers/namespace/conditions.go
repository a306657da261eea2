package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// findings are the facts about a sweep that the conditions report.
type findings struct {
	// discovery and parsing are errors of discovery, content those of single types.
	discovery, parsing error
	content            []error
	// remaining counts the items left of each type, finalizers those that carry each finalizer.
	// Pods that are deleted first are not included, since the sweep waits for them anyway.
	remaining  map[schema.GroupVersionResource]int
	finalizers map[string]int
}

func findingsOf(found discovered, swept sweep) findings {
	f := findings{
		discovery:  found.failed,
		parsing:    found.unparsable,
		remaining:  map[schema.GroupVersionResource]int{},
		finalizers: map[string]int{},
	}
	for _, o := range swept {
		if o.err != nil {
			f.content = append(f.content, o.err)
		}
		if o.podsFirst {
			continue
		}
		if o.remaining > 0 {
			f.remaining[o.resource] = o.remaining
		}
		for finalizer, count := range o.finalizers {
			f.finalizers[finalizer] += count
		}
	}
	return f
}

// conditions returns the five conditions that report the findings, in order.
func (f findings) conditions() []corev1.NamespaceCondition {
	return []corev1.NamespaceCondition{
		condition(corev1.NamespaceDeletionDiscoveryFailure, f.discovery != nil,
			"DiscoveryFailed", discoveryMessage(f.discovery),
			"ResourcesDiscovered", "All resources successfully discovered"),
		condition(corev1.NamespaceDeletionGVParsingFailure, f.parsing != nil,
			"GroupVersionParsingFailed", textOf(f.parsing),
			"ParsedGroupVersions", "All legacy kube types successfully parsed"),
		condition(corev1.NamespaceDeletionContentFailure, len(f.content) > 0,
			"ContentDeletionFailed", contentMessage(f.content),
			"ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
		condition(corev1.NamespaceContentRemaining, len(f.remaining) > 0,
			"SomeResourcesRemain", remainingMessage(f.remaining),
			"ContentRemoved", "All content successfully removed"),
		condition(corev1.NamespaceFinalizersRemaining, len(f.finalizers) > 0,
			"SomeFinalizersRemain", finalizersMessage(f.finalizers),
			"ContentHasNoFinalizers", "All content-preserving finalizers finished"),
	}
}

func condition(
	kind corev1.NamespaceConditionType, failed bool, badReason, badMessage, goodReason, goodMessage string,
) corev1.NamespaceCondition {
	if failed {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionTrue, Reason: badReason, Message: badMessage}
	}
	return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: goodReason, Message: goodMessage}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func discoveryMessage(err error) string {
	var partial *discovery.ErrGroupDiscoveryFailed
	if errors.As(err, &partial) {
		return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(partial.Groups), err)
	}
	return textOf(err)
}

func contentMessage(failures []error) string {
	var texts []string
	for _, err := range failures {
		texts = append(texts, err.Error())
	}
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(failures), sorted(texts))
}

func remainingMessage(remaining map[schema.GroupVersionResource]int) string {
	var texts []string
	for resource, count := range remaining {
		texts = append(texts, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, count))
	}
	return "Some resources are remaining: " + sorted(texts)
}

func finalizersMessage(finalizers map[string]int) string {
	var texts []string
	for finalizer, count := range finalizers {
		texts = append(texts, fmt.Sprintf("%s in %d resource instances", finalizer, count))
	}
	return "Some content in the namespace has finalizers remaining: " + sorted(texts)
}

func sorted(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// merge returns current with the wanted conditions set, and whether that changes anything. The
// transition time of a condition is kept while its status is the same.
func merge(current, wanted []corev1.NamespaceCondition, now time.Time) ([]corev1.NamespaceCondition, bool) {
	merged, changed := slices.Clone(current), false
	for _, want := range wanted {
		i := slices.IndexFunc(merged, func(c corev1.NamespaceCondition) bool { return c.Type == want.Type })
		if i < 0 {
			want.LastTransitionTime = metav1.NewTime(now)
			merged, changed = append(merged, want), true
			continue
		}
		is := merged[i]
		if is.Status == want.Status && is.Reason == want.Reason && is.Message == want.Message {
			continue
		}
		want.LastTransitionTime = is.LastTransitionTime
		if is.Status != want.Status {
			want.LastTransitionTime = metav1.NewTime(now)
		}
		merged[i], changed = want, true
	}
	return merged, changed
}

// report writes the conditions if they changed, and returns the current namespace. A failed
// write does not stop the deletion of content.
func (c *namespaceController) report(ctx context.Context, ns *corev1.Namespace, f findings) *corev1.Namespace {
	conditions, changed := merge(ns.Status.Conditions, f.conditions(), c.Clock.Now())
	if !changed {
		return ns
	}
	reported := ns.DeepCopy()
	reported.Status.Conditions = conditions
	reported, err := c.Client.CoreV1().Namespaces().UpdateStatus(ctx, reported, metav1.UpdateOptions{})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to write the conditions of a namespace", "namespace", ns.Name)
		return ns
	}
	return reported
}
