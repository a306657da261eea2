package faults

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	services       = corev1.SchemeGroupVersion.WithResource("services")
	endpointsKind  = corev1.SchemeGroupVersion.WithResource("endpoints")
	endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

// serviceScenarios are those of the controllers that say where the pods of Services are.
func serviceScenarios() []Scenario {
	return []Scenario{endpoints(), endpointSlice(), endpointSliceMirroring()}
}

const (
	selecting = `{apiVersion: v1, kind: Service, metadata: {name: web, labels: {app: web}}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}`
	unready   = `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`
	otherPort = `{"spec":{"ports":[{"name":"http","port":80,"targetPort":9090}]}}`
)

// podsOfService is what users do with a Service and its pods. ready and notReady return what is nil when these pods
// are at this port.
func podsOfService(ready, notReady func(pods, port string) Condition) []Step {
	return []Step{
		{"create pods", []Action{Create(podOn(0, "a") + "\n---\n" + podOn(1, "b"))}, []Condition{isReady("a"), isReady("b")}},
		{"create a Service", []Action{Create(selecting)}, []Condition{ready("a b", "8080")}},
		{"make a pod not ready", []Action{PatchStatus("pods", "a", unready)}, []Condition{ready("b", "8080"), notReady("a", "8080")}},
		{"lose a pod", []Action{Delete("pods", "b", metav1.DeletePropagationBackground)}, []Condition{ready("", ""), notReady("a", "8080")}},
		{"create another pod", []Action{Create(podOn(2, "c"))}, []Condition{ready("c", "8080"), notReady("a", "8080")}},
		{"change the port", []Action{Patch("services", "web", otherPort)}, []Condition{ready("c", "9090")}},
	}
}

func endpoints() Scenario {
	at := func(addresses string) func(string, string) Condition {
		return func(pods, port string) Condition {
			if port == "" {
				return Values("endpoints", "app=web", "{.subsets[*]."+addresses+"[*].targetRef.name}", pods)
			}
			return Values("endpoints", "app=web", "{.subsets[*]."+addresses+"[*].targetRef.name} {.subsets[*].ports[*].port}", sorted(pods+" "+port))
		}
	}
	return Scenario{
		Name:        "endpoints",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.Endpoints.Enabled} },
		Kinds:       []schema.GroupVersionResource{services, pods, endpointsKind},
		AtMost:      map[string]int{"endpoints/web": 1},
		// The API server deletes the Endpoints of a Service with it. A cache that still shows the Service has them made again.
		Spare: map[string]int{"endpoints/web": 1},
		Steps: append(podsOfService(at("addresses"), at("notReadyAddresses")),
			Step{
				"delete the Endpoints",
				[]Action{Delete("endpoints", "web", metav1.DeletePropagationBackground)},
				[]Condition{at("addresses")("c", "9090")},
			},
			Step{
				"delete the Service",
				[]Action{Delete("services", "web", metav1.DeletePropagationBackground)},
				[]Condition{Gone("endpoints", "web")},
			},
		),
	}
}

func endpointSlice() Scenario {
	const ofService = "kubernetes.io/service-name=web"
	at := func(ready string) func(string, string) Condition {
		return func(pods, port string) Condition {
			path := "{.endpoints[?(@.conditions.ready==" + ready + ")].targetRef.name}"
			if port == "" {
				return Values("endpointslices", ofService, path, pods)
			}
			return Values("endpointslices", ofService, path+" {.ports[*].port}", sorted(pods+" "+port))
		}
	}
	return Scenario{
		Name:        "endpointslice",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.EndpointSlice.Enabled} },
		Kinds:       []schema.GroupVersionResource{services, pods, endpointSlices},
		Steps: append(podsOfService(at("true"), at("false")), Step{
			"delete the EndpointSlice",
			[]Action{DeleteOne("endpointslices", ofService)},
			[]Condition{at("true")("c", "9090")},
		}),
	}
}

func endpointSliceMirroring() Scenario {
	const ofMirroring = "endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io"
	mirrored := func(want string) []Condition {
		return []Condition{Values("endpointslices", ofMirroring, "{.endpoints[*].addresses[*]}", want)}
	}
	const own = `
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: web, labels: {team: a}}, subsets: [{addresses: [{ip: 192.0.2.1}], ports: [{name: http, port: 8080}]}]}`
	return Scenario{
		Name:        "endpointslicemirroring",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.EndpointSliceMirroring.Enabled} },
		Kinds:       []schema.GroupVersionResource{services, endpointsKind, endpointSlices},
		// A successor that is shown older Endpoints mirrors them, and then the newer ones.
		Spare: map[string]int{"endpointslices/web-*": 3},
		Steps: []Step{
			{"create a Service and its Endpoints", []Action{Create(own)}, mirrored("192.0.2.1")},
			{
				"change the Endpoints",
				[]Action{Patch("endpoints", "web", `{"subsets":[{"addresses":[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}],"ports":[{"name":"http","port":8080}]}]}`)},
				mirrored("192.0.2.1 192.0.2.2"),
			},
			{"delete the EndpointSlice", []Action{DeleteOne("endpointslices", ofMirroring)}, mirrored("192.0.2.1 192.0.2.2")},
			{
				"have two subsets and two families",
				[]Action{Patch("endpoints", "web", `{"subsets":[{"addresses":[{"ip":"192.0.2.1"},{"ip":"2001:db8::1"}],"ports":[{"name":"http","port":8080}]},{"addresses":[{"ip":"192.0.2.3"}],"ports":[{"name":"dns","port":53,"protocol":"UDP"}]}]}`)},
				mirrored("192.0.2.1 192.0.2.3 2001:db8::1"),
			},
			{"delete the Endpoints", []Action{Delete("endpoints", "web", metav1.DeletePropagationBackground)}, []Condition{Count("endpointslices", "", 0)}},
		},
	}
}

// sorted sorts the words of a text.
func sorted(text string) string { return strings.Join(slices.Sorted(strings.FieldsSeq(text)), " ") }
