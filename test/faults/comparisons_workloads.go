package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// workloadComparisons are those of the controllers that keep pods running, and of those that say how many there may be.
func workloadComparisons() []Scenario {
	return slices.Concat(deploymentComparisons(), replicaComparisons(), setComparisons(), daemonComparisons(), budgetComparisons(), autoscalerComparisons(), editedComparisons())
}

// workload is an object of apps/v1 in a scenario with many. Its pods have the label app=<name>.
type workload struct {
	name string
	// app is the label instead of the name. Optional.
	app string
	// spec are fields of its spec, in YAML between braces.
	spec string
	// pod are fields of the spec of its pods, and labels are further labels of theirs. Optional.
	pod, labels string
}

// yaml is the object of a kind, or of ReplicationController.
func (o workload) yaml(kind string) string {
	app := cmp.Or(o.app, o.name)
	version, selector := "apps/v1", "{matchLabels: {app: "+app+"}}"
	if kind == "ReplicationController" {
		version, selector = "v1", "{app: "+app+"}"
	}
	fields := []string{"selector: " + selector}
	if kind == "StatefulSet" {
		fields = append(fields, "serviceName: web")
	}
	if o.spec != "" {
		fields = append(fields, o.spec)
	}
	pod := `terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]`
	if o.pod != "" {
		pod += ", " + o.pod
	}
	labels := "app: " + app
	if o.labels != "" {
		labels += ", " + o.labels
	}
	return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, labels: {side: by-side, app: %[7]s}}, spec: {%[4]s, template: {metadata: {labels: {%[5]s}}, spec: {%[6]s}}}}",
		version, kind, o.name, strings.Join(fields, ", "), labels, pod, app)
}

// createAll creates workloads of a kind. All have the label side=by-side.
func createAll(kind string, all ...workload) Action {
	var texts []string
	for _, one := range all {
		texts = append(texts, one.yaml(kind))
	}
	return CreateAll(texts...)
}

// bySide selects the objects of createAll.
const bySide = "side=by-side"

// Own makes an object the controller of another one.
func Own(resource, name, ownerResource, owner string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(ownerResource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, owner, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return Patch(resource, name, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]}}`,
			o.GetAPIVersion(), o.GetKind(), owner, o.GetUID()))(ctx, w)
	}
}

// aReady is the status of a pod that is running and ready.
const aReady = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`

// Readies plays the kubelets of a cluster without nodes: every pod without the label stuck becomes ready.
// One that is to run on a certain node is bound to it first.
func Readies(ctx context.Context, w *world) error {
	ticker := time.NewTicker(renewal)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		list, err := w.admin.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "!stuck", FieldSelector: "status.phase=" + string(corev1.PodPending)})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := makeReady(ctx, w, &list.Items[i]); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
}

// makeReady binds a pod to the only node that its affinity allows, if there is one, and has it be ready.
func makeReady(ctx context.Context, w *world, pod *corev1.Pod) error {
	if node := onlyNode(pod); node != "" && pod.Spec.NodeName == "" {
		if err := BindPod(pod.Name, node)(ctx, w); err != nil {
			return err
		}
	}
	patch := fmt.Sprintf(aReady, time.Now().UTC().Format(time.RFC3339))
	_, err := w.admin.CoreV1().Pods(w.namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// onlyNode is the node that the affinity of a pod of a DaemonSet names.
func onlyNode(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			return field.Values[0]
		}
	}
	return ""
}

// denial has the API server refuse to create or delete objects of the namespace that have a label denied=<verb>.
const denial = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules: [{apiGroups: ["", apps], apiVersions: [v1], resources: [pods, replicasets, controllerrevisions, persistentvolumeclaims], operations: [CREATE, DELETE]}]
  validations:
  - expression: "!has((object == null ? oldObject : object).metadata.labels) || !('denied' in (object == null ? oldObject : object).metadata.labels) || (object == null ? oldObject : object).metadata.labels['denied'] != request.operation.lowerAscii() + '-' + request.resource.resource"
    message: no such object
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny}
spec: {policyName: deny, validationActions: [Deny]}
`

// Denies makes that of the namespace of the run, and waits until it is in force.
func Denies(ctx context.Context, w *world) error {
	if err := Create(denial)(ctx, w); err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "denied", Labels: map[string]string{"denied": "create-pods"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	return Repeat(func(ctx context.Context, w *world) error {
		_, err := w.admin.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			return errors.New("the API server does not know the policy yet")
		case strings.Contains(err.Error(), "no such object"):
			return nil
		default:
			return err
		}
	})(ctx, w)
}
