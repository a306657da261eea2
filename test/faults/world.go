package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
)

// world is where a scenario takes place: a namespace, and what was created in the cluster beside it since the
// run began. Runs follow one another, so nobody else creates that.
type world struct {
	admin  kubernetes.Interface
	client dynamic.Interface
	// as returns the client of a user that belongs to groups.
	as        func(user string, groups ...string) (kubernetes.Interface, error)
	mapper    meta.RESTMapper
	namespace string
	// before are the names of the cluster-scoped objects of the kinds of the scenario that existed before the
	// run, which are no part of it.
	before map[schema.GroupResource][]string
	// clock is that of the controllers if the script puts it forward.
	clock *leapingClock
	// faults counts what is being done about faults beside the script.
	faults atomic.Int32
	// leader returns the manager that leads.
	leader func(context.Context) (leader, error)
	// silent are the nodes whose kubelets report nothing.
	silent sync.Map
}

// leader is a manager that leads. One of upstream has no status.
type leader interface {
	Status(context.Context) (kcmruntime.Status, error)
	// Get reads a path of its endpoint.
	Get(ctx context.Context, path string) ([]byte, error)
}

// fill puts the namespace of the run into a text.
func (w *world) fill(text string) string { return strings.ReplaceAll(text, "NAMESPACE", w.namespace) }

// of returns the client of a resource, which may name its group: deployments.apps.
func (w *world) of(resource string) (dynamic.ResourceInterface, error) {
	gvr, err := w.mapper.ResourceFor(schema.ParseGroupResource(resource).WithVersion(""))
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", resource, err)
	}
	return w.kind(gvr)
}

// selected returns the client of a resource, and its objects that a selector of labels selects.
func (w *world) selected(ctx context.Context, resource, labels string) (dynamic.ResourceInterface, *unstructured.UnstructuredList, error) {
	client, err := w.of(resource)
	if err != nil {
		return nil, nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: labels})
	return client, list, err
}

// kind returns the client of a kind: in the namespace, unless its objects have none.
func (w *world) kind(gvr schema.GroupVersionResource) (dynamic.ResourceInterface, error) {
	gvk, err := w.mapper.KindFor(gvr)
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", gvr.Resource, err)
	}
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", gvr.Resource, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return w.client.Resource(gvr), nil
	}
	return w.client.Resource(gvr).Namespace(w.namespace), nil
}

// begin takes down what exists before the run.
func (w *world) begin(ctx context.Context, kinds []schema.GroupVersionResource) error {
	w.before = nil
	exists, err := w.list(ctx, kinds)
	if err != nil {
		return err
	}
	w.before = map[schema.GroupResource][]string{}
	for kind, list := range exists {
		for i := range list {
			if list[i].GetNamespace() == "" {
				w.before[kind.GroupResource()] = append(w.before[kind.GroupResource()], list[i].GetName())
			}
		}
	}
	return nil
}

// has reports whether an object is part of the run.
func (w *world) has(kind schema.GroupResource, o *unstructured.Unstructured) bool {
	return o.GetNamespace() != "" || !slices.Contains(w.before[kind], o.GetName())
}

// list returns what exists of some kinds.
func (w *world) list(ctx context.Context, kinds []schema.GroupVersionResource) (map[schema.GroupVersionResource][]unstructured.Unstructured, error) {
	all := map[schema.GroupVersionResource][]unstructured.Unstructured{}
	for _, kind := range kinds {
		client, err := w.kind(kind)
		if err != nil {
			return nil, err
		}
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			if w.has(kind.GroupResource(), &list.Items[i]) {
				all[kind] = append(all[kind], list.Items[i])
			}
		}
	}
	return all, nil
}

// state returns what exists of the kinds of a scenario and outside, without what differs from run to run.
func (w *world) state(ctx context.Context, s *Scenario) (state, error) {
	exists, err := w.list(ctx, s.Kinds)
	if err != nil {
		return nil, err
	}
	objects := map[string][]unstructured.Unstructured{}
	for kind, list := range exists {
		objects[kind.Resource] = list
	}
	all, err := stateOf(w.namespace, objects)
	if err == nil && s.Outside != nil {
		for _, line := range s.Outside() {
			all = append(all, object{key: strings.ReplaceAll(line, w.namespace, "NAMESPACE")})
		}
	}
	return all, err
}

// clear deletes what a run has left. The namespace itself stays: there is nobody to end it.
func (w *world) clear(ctx context.Context, kinds []schema.GroupVersionResource) error {
	return await.Nil(ctx, patience, func(ctx context.Context) error {
		exists, err := w.list(ctx, kinds)
		if err != nil {
			return err
		}
		left := 0
		for kind, list := range exists {
			client, err := w.kind(kind)
			if err != nil {
				return err
			}
			left += len(list)
			for i := range list {
				o := &list[i]
				if len(o.GetFinalizers()) > 0 {
					o.SetFinalizers(nil)
					_, _ = client.Update(ctx, o, metav1.UpdateOptions{}) // the next round looks again
				}
				if kind == namespaces && o.GetDeletionTimestamp() != nil {
					unstructured.RemoveNestedField(o.Object, "spec", "finalizers") // there is nobody to empty it
					_, _ = client.Update(ctx, o, metav1.UpdateOptions{}, "finalize")
				}
				_ = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
			}
		}
		if left > 0 {
			return fmt.Errorf("%d objects are left", left)
		}
		return nil
	})
}
