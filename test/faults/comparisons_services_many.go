package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// manyPods creates pods on a node with a label of each of some names, with addresses from a number on, whose names the
// API server makes up: so one of them is like the other. They are ready or not.
func manyPods(n, from int, node, ready string, labels ...string) Action {
	const atOnce = 8
	return func(ctx context.Context, w *world) error {
		client := w.client.Resource(pods).Namespace(w.namespace)
		set := map[string]any{}
		for _, label := range labels {
			set[label] = "yes"
		}
		one := func(i int) error {
			made, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod",
				"metadata": map[string]any{"generateName": "many-", "labels": set},
				"spec": map[string]any{
					"nodeName": node, "terminationGracePeriodSeconds": int64(0),
					"containers": []any{map[string]any{"name": "web", "image": "web:1"}},
				},
			}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			address := fmt.Sprintf("10.100.%d.%d", i/250, i%250+1)
			_, err = client.Patch(ctx, made.GetName(), types.MergePatchType, []byte(podStatus("Running", ready, address)), metav1.PatchOptions{}, "status")
			return err
		}
		failures := make([]error, atOnce)
		var creating sync.WaitGroup
		for k := range atOnce {
			creating.Go(func() {
				for i := from + k; i < from+n && failures[k] == nil; i += atOnce {
					failures[k] = one(i)
				}
			})
		}
		creating.Wait()
		return errors.Join(failures...)
	}
}

// crowdedServices have more pods than Endpoints may have addresses.
func crowdedServices() Scenario {
	selecting := func(name string) string {
		return serviceOf(name, "", "selector: {"+name+": 'yes'}, ports: [{port: 80}]")
	}
	capacity := func(name, want string) Condition {
		return Has("endpoints", name, "{.metadata.annotations.endpoints\\.kubernetes\\.io/over-capacity}", want)
	}
	return Scenario{
		Name:        "services-crowded",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.Endpoints.Enabled} },
		Kinds:       []schema.GroupVersionResource{services, pods, nodes, endpointsKind},
		Steps: []Step{
			{
				"create pods and Services",
				[]Action{
					nodeIn("crowded", "", ""),
					manyPods(985, 0, "crowded", "True", "all", "ready", "some"), manyPods(20, 985, "crowded", "True", "all", "ready"), manyPods(25, 1005, "crowded", "False", "all", "some"),
					CreateAll(selecting("all"), selecting("ready"), selecting("some")),
				},
				[]Condition{capacity("all", "truncated"), capacity("ready", "truncated"), capacity("some", "truncated"), idle(time.Second)},
			},
			{"select fewer", []Action{Patch("services", "all", `{"spec":{"selector":{"some":"yes","ready":"yes"}}}`)}, []Condition{capacity("all", ""), idle(time.Second)}},
		},
	}
}

// fullSlices have Services that select more and more pods, of which only some fit into a slice.
func fullSlices() Scenario {
	selects := func(label, instead, slices string) Step {
		return Step{
			"select " + label,
			[]Action{Patch("services", "web", fmt.Sprintf(`{"spec":{"selector":{%q:"yes",%q:null}}}`, label, instead))},
			[]Condition{sizes("web", slices), idle(2 * time.Second)},
		}
	}
	return Scenario{
		Name:        "services-full",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.EndpointSlice.Enabled} },
		Configure: func(c *manager.Config) {
			c.Controllers.EndpointSlice.MaxEndpointsPerSlice = ptr.To[int32](5)
		},
		Flags: []string{"--max-endpoints-per-slice=5"},
		Kinds: []schema.GroupVersionResource{services, pods, nodes, endpointSlices},
		Steps: []Step{
			{
				"create pods and a Service",
				[]Action{
					nodeIn("full", "zone-a", ""),
					manyPods(13, 0, "full", "True", "a", "b", "c", "d"), manyPods(4, 13, "full", "True", "b", "c", "d"), manyPods(1, 17, "full", "True", "c", "d"), manyPods(9, 18, "full", "True", "d"),
					Create(serviceOf("web", "", "ipFamilyPolicy: RequireDualStack, selector: {a: 'yes'}, ports: [{port: 80}]")),
				},
				[]Condition{sizes("web", "0 3 5 5"), idle(2 * time.Second)},
			},
			selects("b", "a", "0 3 4 5 5"), selects("c", "b", "0 3 5 5 5"), selects("d", "c", "0 3 4 5 5 5 5"), selects("none", "d", "0 0"),
		},
	}
}

// sizes is that the slices of a Service have so many endpoints each.
func sizes(service, want string) Condition {
	return func(ctx context.Context, w *world) error {
		_, list, err := w.selected(ctx, "endpointslices", "kubernetes.io/service-name="+service)
		if err != nil {
			return err
		}
		var all string
		for i := range list.Items {
			endpoints, _ := list.Items[i].Object["endpoints"].([]any) // null if there are none
			all += fmt.Sprintf(" %d", len(endpoints))
		}
		if is := sorted(all); is != want {
			return fmt.Errorf("the slices of %s have %s endpoints, want %s", service, is, want)
		}
		return nil
	}
}
