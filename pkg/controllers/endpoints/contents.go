package endpoints

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"

	"kcmd.dev/pkg/controllers/kit/services/subsets"
)

const (
	// managedByLabel says with managedBy that Endpoints are written by this controller.
	managedByLabel = "endpoints.kubernetes.io/managed-by"
	managedBy      = "endpoint-controller"

	// truncatedValue is the value of corev1.EndpointsOverCapacity.
	truncatedValue = "truncated"
)

// ignoringVersions compares subsets: nil and empty are equal, and so are references to
// different versions of a pod, which old releases wrote.
var ignoringVersions = conversion.EqualitiesOrDie(func(a, b corev1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
})

// contents is what the Endpoints of a Service should hold.
type contents struct {
	service   *corev1.Service
	subsets   []corev1.EndpointSubset
	truncated bool // to maxAddresses
}

func newContents(service *corev1.Service, pods []*corev1.Pod) contents {
	all := subsets.Repack(subsetsOf(service, pods))
	kept, truncated := truncate(all)
	return contents{service: service, subsets: kept, truncated: truncated}
}

// stored reports whether Endpoints hold these contents. They may have been written in another
// order. The time of the last change does not count.
func (c contents) stored(current *corev1.Endpoints) bool {
	return c.marked(current) && c.labelled(current) && !overCapacity(current.Subsets) && c.described(current.Subsets)
}

// marked reports whether Endpoints are marked as truncated if and only if these contents are.
func (c contents) marked(current *corev1.Endpoints) bool {
	value, marked := current.Annotations[corev1.EndpointsOverCapacity]
	if !c.truncated {
		return !marked
	}
	return value == truncatedValue
}

func (c contents) described(current []corev1.EndpointSubset) bool {
	return ignoringVersions.DeepEqual(c.subsets, current) ||
		ignoringVersions.DeepEqual(c.subsets, subsets.Repack(current))
}

// labelled reports whether Endpoints have our mark and the labels of the Service. The label for
// headless Services does not count: it is kept up to date, but not written for its own sake.
func (c contents) labelled(current *corev1.Endpoints) bool {
	return current.Labels[managedByLabel] == managedBy &&
		maps.Equal(withoutOurs(current.Labels), withoutOurs(c.service.Labels))
}

// withoutOurs returns a copy without the labels that are not taken from the Service.
func withoutOurs(all map[string]string) map[string]string {
	rest := make(map[string]string, len(all)+2)
	maps.Copy(rest, all)
	delete(rest, managedByLabel)
	delete(rest, corev1.IsHeadlessService)
	return rest
}

// applied returns Endpoints with these contents, for an update of the current ones or, if
// they are nil, to be created.
func (c contents) applied(current *corev1.Endpoints, triggerTime time.Time) *corev1.Endpoints {
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: c.service.Namespace, Name: c.service.Name}}
	if current != nil {
		endpoints.ObjectMeta = *current.ObjectMeta.DeepCopy()
	}
	endpoints.Subsets = c.subsets
	endpoints.Labels = c.labels()
	if endpoints.Annotations == nil {
		endpoints.Annotations = map[string]string{}
	}
	setOrDelete(endpoints.Annotations, corev1.EndpointsLastChangeTriggerTime, !triggerTime.IsZero(),
		triggerTime.UTC().Format(time.RFC3339Nano))
	setOrDelete(endpoints.Annotations, corev1.EndpointsOverCapacity, c.truncated, truncatedValue)
	return endpoints
}

func (c contents) labels() map[string]string {
	labels := withoutOurs(c.service.Labels)
	labels[managedByLabel] = managedBy
	if ip := c.service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone {
		labels[corev1.IsHeadlessService] = ""
	}
	return labels
}

func setOrDelete(annotations map[string]string, key string, set bool, value string) {
	if set {
		annotations[key] = value
		return
	}
	delete(annotations, key)
}
