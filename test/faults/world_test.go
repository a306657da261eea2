package faults

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What existed in the cluster before a run is no part of it; everything in its namespace is.
func TestWhatBelongsToARun(t *testing.T) {
	nodes, pods := schema.GroupResource{Resource: "nodes"}, schema.GroupResource{Resource: "pods"}
	w := &world{namespace: "faults-1", before: map[schema.GroupResource][]string{nodes: {"old"}}}
	object := func(namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	for _, c := range []struct {
		kind   schema.GroupResource
		object *unstructured.Unstructured
		want   bool
	}{
		{nodes, object("", "old"), false},
		{nodes, object("", "new"), true},
		{pods, object("faults-1", "old"), true},
	} {
		if got := w.has(c.kind, c.object); got != c.want {
			t.Errorf("%s %s is part of the run: %v, want %v", c.kind.Resource, c.object.GetName(), got, c.want)
		}
	}
	if got := w.fill(`{"namespace":"NAMESPACE"}`); got != `{"namespace":"faults-1"}` {
		t.Errorf("got %s", got)
	}
}
