package faults

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// topologyMode is the annotation that asks for hints by the CPUs of zones.
const topologyMode = ", annotations: {service.kubernetes.io/topology-mode: "

// serviceHints have nodes in zones, and Services whose endpoints get hints.
func serviceHints() Scenario {
	const ofZones = "selector: {app: web}, ports: [{port: 80}]"
	var create []Action
	for i, zone := range []string{"a", "b", "c"} {
		create = append(create, nodeIn("hinted-"+zone, "zone-"+zone, "4"))
		for k := range 2 {
			create = append(create, playedPod(fmt.Sprintf("on-%s-%d", zone, k), "hinted-"+zone, "", "True", fmt.Sprintf("192.0.2.%d", 10*i+k+1), fmt.Sprintf("2001:db8::%d", 10*i+k+1)))
		}
	}
	create = append(create,
		playedPod("on-a-unready", "hinted-a", "", "False", "192.0.2.50"),
		CreateAll(
			serviceOf("auto", topologyMode+"Auto}", ofZones),
			serviceOf("auto-small", topologyMode+"auto}", ofZones),
			serviceOf("auto-wrong", topologyMode+"AUTO}", ofZones),
			serviceOf("auto-old", ", annotations: {service.kubernetes.io/topology-aware-hints: auto}", ofZones),
			serviceOf("auto-near", topologyMode+"Auto}", "trafficDistribution: PreferClose, "+ofZones),
			serviceOf("auto-few", topologyMode+"Auto}", "selector: {pod: on-a-0}, ports: [{port: 80}]"),
			serviceOf("auto-none", topologyMode+"Auto}", "selector: {pod: none}, ports: [{port: 80}]"),
			serviceOf("near", "", "trafficDistribution: PreferClose, "+ofZones),
			serviceOf("near-node", "", "trafficDistribution: PreferSameNode, "+ofZones),
			serviceOf("plain", "", ofZones),
		))
	hints := func(service, want string) Condition {
		return Values("endpointslices", "kubernetes.io/service-name="+service, "{.endpoints[*].hints.forZones[*].name}", want)
	}
	touch := func(services ...string) Action {
		var all []Action
		for _, name := range services {
			all = append(all, Patch("services", name, `{"metadata":{"labels":{"a":"b"}}}`))
		}
		return InTurn(all...)
	}
	const all = "zone-a zone-a zone-b zone-b zone-c zone-c"
	return Scenario{
		Name:        "services-hints",
		Bare:        true,
		Controllers: endpointControllers,
		Kinds:       []schema.GroupVersionResource{services, pods, nodes, endpointSlices},
		Chance: map[string]string{
			`^too much: event of endpoint-slice-controller about v1 Service [a-z-]+: Warning TopologyAwareHintsDisabled: Nodes only ready in one zone, addressType: IPv4$`: "EPS-53", // when upstream's manager begins
		},
		Steps: []Step{
			{"create nodes, pods and Services", create, []Condition{hints("near", all), hints("near-node", all), idle(4 * time.Second)}},
			{
				"change Services",
				[]Action{
					Patch("services", "plain", `{"metadata":{"annotations":{"service.kubernetes.io/topology-mode":"Auto"}}}`),
					Patch("services", "auto", `{"metadata":{"annotations":null}}`),
					Patch("services", "near", `{"metadata":{"annotations":{"service.kubernetes.io/topology-mode":"Auto"}}}`),
					Patch("services", "auto-near", `{"metadata":{"annotations":null}}`),
				},
				[]Condition{hints("plain", all), hints("auto", ""), hints("near", all), hints("auto-near", all), idle(3 * time.Second)},
			},
			{
				"lose a pod of a zone",
				[]Action{Delete("pods", "on-c-0", background)},
				[]Condition{hints("plain", ""), hints("auto-small", ""), hints("auto-old", ""), hints("near", ""), idle(3 * time.Second)},
			},
			{
				// Upstream's manager sees the label when a node becomes ready or unready only (EPS-80).
				"lose the last pod of the zone, and nodes",
				[]Action{
					Delete("pods", "on-c-1", background), Rest(3 * time.Second),
					Patch("nodes", "hinted-c", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`),
					PatchStatus("nodes", "hinted-b", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
				},
				[]Condition{idle(3 * time.Second)},
			},
			{
				"touch the Services",
				[]Action{touch("plain", "near", "auto-old", "auto-small", "auto-few", "auto-none")},
				[]Condition{idle(3 * time.Second)},
			},
		},
	}
}
