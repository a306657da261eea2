package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// servicesComparisons are those of the controllers of Services, of namespaces, of quotas, of owners and of roles.
func servicesComparisons() []Scenario {
	return []Scenario{
		servicePods(), serviceMirrors(), serviceHints(), ownerReferences(), namespaceEnds(), usedQuotas(), aggregatedRoles(), servedRanges(), crowdedServices(), fullSlices(),
	}
}

// background is how most things are deleted.
const background = metav1.DeletePropagationBackground

// documents joins YAML texts, one a line.
func documents(lines ...string) string { return strings.Join(lines, "\n---\n") }

// idle is that some time has passed: for steps of which the end cannot be told from anything else.
func idle(d time.Duration) Condition {
	return func(ctx context.Context, _ *world) error { return sleep(ctx, d) }
}

// held is metadata of objects that somebody holds.
const held = ", finalizers: [faults.example.com/hold]"

// unhold takes all finalizers from an object.
func unhold(resource, name string) Action {
	return Patch(resource, name, `{"metadata":{"finalizers":null}}`)
}

// nodeIn creates a node that is ready, in a zone unless that is empty, with CPUs unless there are none.
func nodeIn(name, zone, cpus string) Action {
	labels, status := "{}", `{"conditions":[{"type":"Ready","status":"True"}]`
	if zone != "" {
		labels = "{topology.kubernetes.io/zone: " + zone + "}"
	}
	if cpus != "" {
		status += `,"allocatable":{"cpu":"` + cpus + `"}`
	}
	return InTurn(
		Create(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: %s}}", name, labels)),
		PatchStatus("nodes", name, `{"status":`+status+`}}`),
	)
}

// playedPod creates a pod with further fields of its specification, on a node. If it has addresses, it runs there, and
// is ready or not.
func playedPod(name, node, spec, ready string, addresses ...string) Action {
	if !strings.Contains(spec, "containers:") {
		spec += `, containers: [{name: web, image: "web:1"}]`
	}
	if node != "" {
		spec += ", nodeName: " + node
	}
	create := Create(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: web, pod: %s}}, spec: {%s}}", name, name, strings.TrimPrefix(spec, ", ")))
	if len(addresses) == 0 {
		return create
	}
	return InTurn(create, PatchStatus("pods", name, podStatus("Running", ready, addresses...)))
}

// podStatus is a patch of the status of a pod.
func podStatus(phase, ready string, addresses ...string) string {
	var all []string
	for _, one := range addresses {
		all = append(all, fmt.Sprintf(`{"ip":%q}`, one))
	}
	return fmt.Sprintf(`{"status":{"phase":%q,"podIP":%q,"podIPs":[%s],"conditions":[{"type":"Ready","status":%q}]}}`,
		phase, addresses[0], strings.Join(all, ","), ready)
}

// serviceOf is a Service with further fields of its metadata and its specification.
func serviceOf(name, metadata, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s%s}, spec: {%s}}", name, metadata, spec)
}

const (
	ofAll   = "selector: {app: web}"
	onPort  = ofAll + ", ports: [{name: http, port: 80, targetPort: 8080}]"
	byNames = ofAll + ", ports: [{name: http, port: 80, targetPort: http, appProtocol: kubernetes.io/h2c}, {name: metrics, port: 90, targetPort: metrics}, " +
		"{name: dns, port: 53, protocol: UDP, targetPort: dns}]"
	// longest is the longest name of a Service.
	longest = "a23456789-a23456789-a23456789-a23456789-a23456789-a23456789-abc"
)

// allServices are Services of every kind for the same pods.
func allServices() Action {
	return CreateAll(
		serviceOf("plain", ", labels: {team: a, tier: b}, annotations: {note: c}", onPort),
		serviceOf("named", "", byNames),
		serviceOf("unnamed", "", ofAll+", ports: [{port: 8080}]"),
		serviceOf("two-protocols", "", ofAll+", ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53, protocol: TCP}, {name: c, port: 54, protocol: SCTP}]"),
		serviceOf("nowhere", "", ofAll+", ports: [{name: http, port: 80, targetPort: nowhere}]"),
		serviceOf("headless", ", labels: {team: a}", "clusterIP: None, "+onPort),
		serviceOf("portless", "", "clusterIP: None, "+ofAll),
		serviceOf("early", "", "publishNotReadyAddresses: true, "+onPort),
		serviceOf("early-headless", "", "publishNotReadyAddresses: true, clusterIP: None, "+byNames),
		serviceOf("both", "", "ipFamilyPolicy: RequireDualStack, "+onPort),
		serviceOf("both-six", "", "ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4], "+onPort),
		serviceOf("six", "", "ipFamilies: [IPv6], "+onPort),
		serviceOf("both-headless", "", "ipFamilyPolicy: PreferDualStack, clusterIP: None, "+byNames),
		serviceOf("nobody", "", "selector: {app: nobody}, ports: [{port: 80}]"),
		serviceOf("nobody-both", "", "ipFamilyPolicy: RequireDualStack, selector: {app: nobody}, ports: [{port: 80}]"),
		serviceOf("unselecting", ", labels: {team: a}", "ports: [{port: 80}]"),
		serviceOf("elsewhere", "", "type: ExternalName, externalName: example.com, "+onPort),
		serviceOf("node-port", "", "type: NodePort, "+onPort),
		serviceOf("balanced", "", "type: LoadBalancer, externalTrafficPolicy: Local, internalTrafficPolicy: Local, sessionAffinity: ClientIP, "+onPort),
		serviceOf("reserved", `, labels: {service.kubernetes.io/headless: x, endpointslice.kubernetes.io/managed-by: me, endpoints.kubernetes.io/managed-by: me, kubernetes.io/service-name: other, service.kubernetes.io/service-proxy-name: own}`, onPort),
		serviceOf("reserved-headless", `, labels: {service.kubernetes.io/headless: x, endpointslice.kubernetes.io/skip-mirror: "true"}`, "clusterIP: None, "+onPort),
		serviceOf("near", "", "trafficDistribution: PreferClose, "+onPort),
		serviceOf("near-zone", "", "trafficDistribution: PreferSameZone, "+onPort),
		serviceOf("near-node", "", "trafficDistribution: PreferSameNode, "+onPort),
		serviceOf("near-early", "", "trafficDistribution: PreferSameNode, publishNotReadyAddresses: true, "+onPort),
		serviceOf("lost", "", "selector: {pod: lost}, ports: [{port: 80}]"),
		serviceOf("lost-early", "", "publishNotReadyAddresses: true, selector: {pod: lost}, ports: [{port: 80}]"),
		serviceOf("unbound", "", "selector: {pod: unbound}, ports: [{port: 80}]"),
		serviceOf(longest, "", onPort),
	)
}

// servicePods has Services of every kind, and pods of every kind behind them.
func servicePods() Scenario {
	const ports = `, containers: [{name: web, image: "web:1", ports: [{name: http, containerPort: %d}, {name: dns, containerPort: 5353, protocol: UDP}, {name: dns-tcp, containerPort: 5353}]}]`
	const sidecar = `, initContainers: [{name: side, image: "side:1", restartPolicy: Always, ports: [{name: metrics, containerPort: 9100}]}, {name: once, image: "once:1", ports: [{name: nowhere, containerPort: 1}]}]`
	slices := func(service, path, want string) Condition {
		return Values("endpointslices", "kubernetes.io/service-name="+service, path, want)
	}
	return Scenario{
		Name:        "services-pods",
		Bare:        true,
		Controllers: endpointControllers,
		Kinds:       []schema.GroupVersionResource{services, pods, nodes, endpointsKind, endpointSlices},
		Differs: map[string]string{
			// The API server deletes Endpoints with their Service. A manager that sees their end first makes them again.
			`^2 endpoints/(headless|` + longest + `) were (created|deleted), not 1$`: "EP-11",
			`^1 endpoints/(headless|` + longest + `) were (created|deleted), not 2$`: "EP-11",
		},
		Steps: []Step{
			{
				"create nodes, pods and Services",
				[]Action{
					nodeIn("served-a", "zone-a", "4"), nodeIn("served-b", "zone-b", ""), nodeIn("served-c", "", ""),
					playedPod("ready", "served-a", fmt.Sprintf(ports, 8080)+sidecar, "True", "192.0.2.1", "2001:db8::1"),
					playedPod("other-ports", "served-b", fmt.Sprintf(ports, 9090), "True", "192.0.2.2", "2001:db8::2"),
					playedPod("unready", "served-b", fmt.Sprintf(ports, 8080), "False", "192.0.2.3", "2001:db8::3"),
					playedPod("unknown", "served-b", "", "Unknown", "192.0.2.33"),
					playedPod("new", "served-a", "", ""),
					playedPod("four", "served-c", "", "True", "192.0.2.4"),
					playedPod("six", "served-c", "", "True", "2001:db8:0:0::6"),
					playedPod("six-first", "served-a", "", "True", "2001:db8::7", "192.0.2.7"),
					playedPod("succeeded", "served-a", "", "True", "192.0.2.8"), PatchStatus("pods", "succeeded", `{"status":{"phase":"Succeeded"}}`),
					playedPod("failed", "served-a", "", "False", "192.0.2.9"), PatchStatus("pods", "failed", `{"status":{"phase":"Failed"}}`),
					playedPod("named", "served-a", "hostname: one, subdomain: headless", "True", "192.0.2.10"),
					playedPod("named-other", "served-a", "hostname: two, subdomain: other", "True", "192.0.2.11"),
					playedPod("named-half", "served-a", "subdomain: headless", "True", "192.0.2.12"),
					playedPod("named-unready", "served-b", "hostname: three, subdomain: headless", "False", "192.0.2.13"),
					playedPod("shared", "served-b", "hostNetwork: true", "True", "192.0.2.1"),
					playedPod("leaving", "served-a", "", "True", "192.0.2.14", "2001:db8::14"), Delete("pods", "leaving", background),
					playedPod("leaving-unready", "served-b", "", "False", "192.0.2.15"), Delete("pods", "leaving-unready", background),
					playedPod("lost", "nowhere", "", "True", "192.0.2.16"), Patch("pods", "lost", `{"metadata":{"labels":{"app":"lost"}}}`),
					playedPod("unbound", "", "", "True", "192.0.2.17"), Patch("pods", "unbound", `{"metadata":{"labels":{"app":"unbound"}}}`),
					allServices(),
				},
				[]Condition{slices("nobody-both", "{.addressType}", "IPv4 IPv6"), slices("lost-early", "{.endpoints[*].targetRef.name}", "lost"), idle(4 * time.Second)},
			},
			{
				"change pods",
				[]Action{
					PatchStatus("pods", "unready", podStatus("Running", "True", "192.0.2.3", "2001:db8::3")),
					PatchStatus("pods", "other-ports", podStatus("Running", "False", "192.0.2.2", "2001:db8::2")),
					PatchStatus("pods", "new", podStatus("Running", "False", "192.0.2.20")),
					PatchStatus("pods", "four", podStatus("Running", "True", "192.0.2.40", "2001:db8::40")),
					PatchStatus("pods", "six", `{"status":{"phase":"Failed"}}`),
					Patch("pods", "named", `{"metadata":{"labels":{"app":"none"}}}`),
					Patch("pods", "named-half", `{"metadata":{"labels":{"more":"labels"},"annotations":{"more":"too"}}}`),
					Delete("pods", "unbound", background),
					Delete("pods", "ready", background), Delete("pods", "six-first", background),
				},
				[]Condition{slices("nobody-both", "{.addressType}", "IPv4 IPv6"), idle(3 * time.Second)},
			},
			{
				"change Services",
				[]Action{
					Patch("services", "plain", `{"metadata":{"labels":{"team":"z","tier":null},"annotations":{"note":"d"}}}`),
					Patch("services", "named", `{"spec":{"ports":[{"name":"http","port":80,"targetPort":"dns-tcp"},{"name":"dns","port":53,"protocol":"UDP","targetPort":"dns"}]}}`),
					Patch("services", "unnamed", `{"spec":{"ports":[{"port":8080,"appProtocol":"http"}]}}`),
					Patch("services", "nowhere", `{"spec":{"ports":[{"name":"http","port":80,"targetPort":81}]}}`),
					Patch("services", "headless", `{"spec":{"ports":null},"metadata":{"labels":null}}`),
					Patch("services", "portless", `{"spec":{"ports":[{"port":80}]}}`),
					Patch("services", "early", `{"spec":{"publishNotReadyAddresses":false}}`),
					Patch("services", "node-port", `{"spec":{"publishNotReadyAddresses":true}}`),
					Patch("services", "both", `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv4"],"clusterIPs":null,"clusterIP":null}}`),
					Patch("services", "six", `{"spec":{"ipFamilyPolicy":"RequireDualStack","ipFamilies":["IPv6","IPv4"]}}`),
					Patch("services", "nobody", `{"spec":{"selector":{"pod":"four"}}}`),
					Patch("services", "nobody-both", `{"spec":{"selector":{"pod":"no","app":"web"}}}`),
					Patch("services", "unselecting", `{"spec":{"selector":{"app":"web"}}}`),
					Patch("services", "two-protocols", `{"spec":{"selector":null}}`),
					Patch("services", "balanced", `{"spec":{"type":"ExternalName","externalName":"example.com","externalTrafficPolicy":null,"internalTrafficPolicy":null,"sessionAffinity":null,"sessionAffinityConfig":null,"healthCheckNodePort":null,"allocateLoadBalancerNodePorts":null,"clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null,"ports":null}}`),
					Patch("services", "elsewhere", `{"spec":{"type":"ClusterIP","externalName":null}}`),
					Patch("services", "near", `{"spec":{"trafficDistribution":null}}`),
					Patch("services", "near-zone", `{"spec":{"trafficDistribution":"PreferSameNode"}}`),
					Patch("services", "near-node", `{"spec":{"trafficDistribution":"PreferSameZone"}}`),
				},
				[]Condition{slices("elsewhere", "{.metadata.labels.kubernetes\\.io/service-name}", "elsewhere"), idle(4 * time.Second)},
			},
			{
				"change and delete what was made",
				[]Action{
					Delete("endpoints", "plain", background),
					DeleteOne("endpointslices", "kubernetes.io/service-name=plain"), Rest(time.Second),
					Patch("services", "plain", `{"metadata":{"labels":{"wake":"up"}}}`), // of a slice that it has not written, upstream misses the deletion
					Delete("services", "headless", background), Delete("services", longest, background),
					Patch("services", "unselecting", `{"spec":{"selector":null}}`),
					Patch("endpoints", "both-six", `{"metadata":{"labels":{"own":"label"},"annotations":{"own":"note"}},"subsets":null}`),
					Patch("endpoints", "reserved", `{"metadata":{"labels":null}}`), Patch("services", "reserved", `{"metadata":{"annotations":{"more":"notes"}}}`),
					Patch("services", "both-six", `{"metadata":{"labels":{"more":"labels"}}}`),
				},
				[]Condition{slices("plain", "{.addressType}", "IPv4"), Gone("endpoints", "headless"), idle(4 * time.Second)},
			},
		},
	}
}

// endpointControllers are those that say where the pods of Services are.
func endpointControllers(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.Endpoints.Enabled, &c.Controllers.EndpointSlice.Enabled, &c.Controllers.EndpointSliceMirroring.Enabled}
}
