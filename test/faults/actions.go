package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// In does something in another namespace than that of the run.
func In(namespace string, do Action) Action {
	return func(ctx context.Context, w *world) error {
		return do(ctx, &world{client: w.client, mapper: w.mapper, namespace: namespace})
	}
}

// Forget deletes an object that a run that was broken off may have left.
func Forget(resource, name string) Action {
	return func(ctx context.Context, w *world) error {
		err := Delete(resource, name, metav1.DeletePropagationBackground)(ctx, w)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// Evict has the API server delete a pod if no budget is against it.
func Evict(pod string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of("pods")
		if err != nil {
			return err
		}
		eviction := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": pod, "namespace": w.namespace},
		}}
		_, err = client.Create(ctx, eviction, metav1.CreateOptions{}, "eviction")
		return err
	}
}

// CreateOwned creates an object of a YAML text whose owners are ConfigMaps.
func CreateOwned(text string, owners ...string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of("configmaps")
		if err != nil {
			return err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			return fmt.Errorf("decoding %s: %w", text, err)
		}
		var references []metav1.OwnerReference
		for _, name := range owners {
			owner, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			references = append(references, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.GetUID()})
		}
		o.SetOwnerReferences(references)
		whole, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", text, err)
		}
		return Create(string(whole))(ctx, w)
	}
}

// DeleteNamespace deletes the namespace of the run.
func DeleteNamespace(ctx context.Context, w *world) error {
	return w.client.Resource(namespaces).Delete(ctx, w.namespace, metav1.DeleteOptions{})
}

// NamespaceGone is that the namespace of the run is gone.
func NamespaceGone(ctx context.Context, w *world) error {
	_, err := w.client.Resource(namespaces).Get(ctx, w.namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("the namespace is still there")
}

// Values is that the objects that a selector of labels selects have these values at a JSON path, in any order and
// separated by spaces.
func Values(resource, labels, path, want string) Condition {
	return func(ctx context.Context, w *world) error {
		_, list, err := w.selected(ctx, resource, labels)
		if err != nil {
			return err
		}
		var values []string
		for i := range list.Items {
			is, err := valueAt(path, &list.Items[i])
			if err != nil {
				return err
			}
			values = append(values, strings.Fields(is)...)
		}
		slices.Sort(values)
		if got := strings.Join(values, " "); got != want {
			return fmt.Errorf("%s of %s is %q, want %q", path, resource, got, want)
		}
		return nil
	}
}

// Contains is that the value of an object at a JSON path contains a text.
func Contains(resource, name, path, part string) Condition {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		is, err := valueAt(path, o)
		if err == nil && !strings.Contains(is, part) {
			err = fmt.Errorf("%s of %s is %q, which does not contain %q", path, name, is, part)
		}
		return err
	}
}

// OwnedBy is that an object, which is not being deleted, belongs to the pod that now has a name.
func OwnedBy(pod, resource, name string) Condition {
	return func(ctx context.Context, w *world) error {
		owner, err := w.client.Resource(pods).Namespace(w.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !metav1.IsControlledBy(o, owner) || o.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s/%s belongs to %v, and is deleted at %v", resource, name, o.GetOwnerReferences(), o.GetDeletionTimestamp())
		}
		return nil
	}
}

// ClaimRecorded is that the status of a pod names a claim that exists and is not being deleted.
func ClaimRecorded(pod string) Condition {
	return func(ctx context.Context, w *world) error {
		o, err := w.client.Resource(pods).Namespace(w.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		statuses, _, err := unstructured.NestedSlice(o.Object, "status", "resourceClaimStatuses")
		if err != nil || len(statuses) != 1 {
			return errors.Join(err, fmt.Errorf("the claims of %s are %v", pod, statuses))
		}
		status, _ := statuses[0].(map[string]any)
		name, _, err := unstructured.NestedString(status, "resourceClaimName")
		if err != nil {
			return err
		}
		return OwnedBy(pod, "resourceclaims", name)(ctx, w)
	}
}

// Seen is that the caches of the manager that leads show an object as it is, or something newer.
func Seen(resource, name string) Condition {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		o, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		leader, err := w.leader(ctx)
		if err != nil {
			return err
		}
		status, err := leader.Status(ctx)
		if errors.Is(err, errSilent) {
			return sleep(ctx, stillness)
		}
		if err != nil {
			return err
		}
		for _, cache := range status.Informers {
			if cache.Resource != schema.ParseGroupResource(resource).Resource {
				continue
			}
			if order, err := resourceversion.CompareResourceVersion(cache.ResourceVersion, o.GetResourceVersion()); err != nil || order < 0 {
				return errors.Join(err, fmt.Errorf("a cache of %s is at %q, %s at %s", resource, cache.ResourceVersion, name, o.GetResourceVersion()))
			}
		}
		return nil
	}
}

// podOn is a pod of a name with the label app=web on a node.
func podOn(node int, name string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: web}}, spec: {nodeName: node-%d, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}`, name, node)
}

// isReady is that a pod is.
func isReady(pod string) Condition {
	return Has("pods", pod, "{.status.conditions[?(@.type=='Ready')].status}", "True")
}

// configMap is a ConfigMap of a name.
func configMap(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}", name)
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// sleep returns after some time, or with the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// BindPod has the API server bind a pod to a node, as a scheduler does.
func BindPod(pod, node string) Action {
	return func(ctx context.Context, w *world) error {
		return w.admin.CoreV1().Pods(w.namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
	}
}

// SetPhase has a pod be shown in a phase.
func SetPhase(pod, phase string) Action {
	return PatchStatus("pods", pod, fmt.Sprintf(`{"status":{"phase":%q}}`, phase))
}

// InTurn does several things, one after the other.
func InTurn(actions ...Action) Action {
	return func(ctx context.Context, w *world) error {
		for _, do := range actions {
			if err := do(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
}

// PatchEach changes the objects that a selector of labels selects by a JSON merge patch, or a subresource of them.
// There has to be one at least.
func PatchEach(resource, labels, patch string, subresources ...string) Action {
	return patchEach(resource, labels, patch, func(*unstructured.Unstructured) bool { return true }, subresources...)
}

// PatchLiving changes the status of the pods that a selector of labels selects and that have not ended. There has to be
// one at least.
func PatchLiving(labels, patch string) Action {
	return patchEach("pods", labels, patch, func(o *unstructured.Unstructured) bool { return !hasEnded(o) }, "status")
}

// PatchOne does so with one of them.
func PatchOne(labels, patch string) Action {
	return func(ctx context.Context, w *world) error {
		done := false
		first := func(o *unstructured.Unstructured) bool {
			chosen := !done && !hasEnded(o)
			done = done || chosen
			return chosen
		}
		return patchEach("pods", labels, patch, first, "status")(ctx, w)
	}
}

func patchEach(resource, labels, patch string, which func(*unstructured.Unstructured) bool, subresources ...string) Action {
	return func(ctx context.Context, w *world) error {
		return forEach(ctx, w, resource, labels, which, func(client dynamic.ResourceInterface, name string) error {
			_, err := client.Patch(ctx, name, types.MergePatchType, []byte(w.fill(patch)), metav1.PatchOptions{}, subresources...)
			return err
		})
	}
}

// DeleteEach deletes the objects that a selector of labels selects. There has to be one at least.
func DeleteEach(resource, labels string) Action {
	all := func(*unstructured.Unstructured) bool { return true }
	return deleteEach(resource, labels, all, metav1.DeleteOptions{})
}

// DeleteLeaving deletes those of the pods that a selector of labels selects that are being deleted, as kubelets do when
// the containers have ended. There has to be one at least.
func DeleteLeaving(labels string) Action {
	return deleteEach("pods", labels, isLeaving, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

func deleteEach(resource, labels string, which func(*unstructured.Unstructured) bool, options metav1.DeleteOptions) Action {
	return func(ctx context.Context, w *world) error {
		return forEach(ctx, w, resource, labels, which, func(client dynamic.ResourceInterface, name string) error {
			return client.Delete(ctx, name, options)
		})
	}
}

// forEach calls a function for some of the objects that a selector of labels selects.
func forEach(ctx context.Context, w *world, resource, labels string, which func(*unstructured.Unstructured) bool,
	do func(client dynamic.ResourceInterface, name string) error) error {
	client, list, err := w.selected(ctx, resource, labels)
	if err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !which(&o) })
	if len(list.Items) == 0 {
		return fmt.Errorf("no object of %s has the labels %s", resource, labels)
	}
	for i := range list.Items {
		if err := do(client, list.Items[i].GetName()); err != nil {
			return fmt.Errorf("%s/%s: %w", resource, list.Items[i].GetName(), err)
		}
	}
	return nil
}

// Rest lets some time pass: managers put some work off, and nothing shows when they have done it.
func Rest(d time.Duration) Action {
	return func(ctx context.Context, _ *world) error { return sleep(ctx, d) }
}

// All is that several conditions hold.
func All(conditions ...Condition) Condition {
	return func(ctx context.Context, w *world) error {
		for _, one := range conditions {
			if err := one(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
}

// CreateControlled creates an object of a YAML text that another object controls.
func CreateControlled(resource, name, text string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of(resource)
		if err != nil {
			return err
		}
		owner, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			return fmt.Errorf("decoding %s: %w", text, err)
		}
		o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
		whole, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", text, err)
		}
		return Create(string(whole))(ctx, w)
	}
}

// End removes a pod as a kubelet does when its containers have ended.
func End(pod string) Action {
	return func(ctx context.Context, w *world) error {
		client, err := w.of("pods")
		if err != nil {
			return err
		}
		return client.Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
}
