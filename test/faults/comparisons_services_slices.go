package faults

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// own is a Service without a selector, and the Endpoints that somebody made for it, with further metadata.
func own(name, metadata, subsets string) string {
	return documents(
		serviceOf(name, "", "ports: [{port: 80}]"),
		fmt.Sprintf("{apiVersion: v1, kind: Endpoints, metadata: {name: %s%s}, subsets: [%s]}", name, metadata, subsets),
	)
}

// serviceMirrors have Endpoints of every kind that somebody made.
func serviceMirrors() Scenario {
	const (
		one     = "{addresses: [{ip: 2001:db8::1}], ports: [{name: http, port: 8080}]}"
		details = `{addresses: [{ip: 2001:db8::1, hostname: one, nodeName: node-a, targetRef: {kind: Pod, name: a, namespace: NAMESPACE, uid: b}}, {ip: "2001:db8:0::2"}],
			notReadyAddresses: [{ip: 2001:db8::3, hostname: three}], ports: [{name: http, port: 8080, appProtocol: example.com/own}, {name: dns, port: 53, protocol: UDP}]}`
		twice = `{addresses: [{ip: 2001:db8::1}, {ip: 192.0.2.1}], ports: [{name: a, port: 1}]}, {addresses: [{ip: 2001:db8::1}], ports: [{name: b, port: 2}]},
			{addresses: [{ip: 2001:db8::1}], notReadyAddresses: [{ip: 2001:db8::5}], ports: [{name: c, port: 3}]}, {addresses: [{ip: 2001:db8::9}]}`
		contested = `{addresses: [{ip: 2001:db8::1}], ports: [{name: a, port: 1}]}, {notReadyAddresses: [{ip: 2001:db8::1}], ports: [{name: a, port: 1}]}`
	)
	var many, fewReady []string
	for i := range 8 {
		many = append(many, fmt.Sprintf("{ip: 2001:db8::1%d}", i))
		fewReady = append(fewReady, fmt.Sprintf("{ip: 2001:db8::2%d}", i))
	}
	mirrored := func(service, path, want string) Condition {
		return Values("endpointslices", "endpointslice.kubernetes.io/managed-by=endpointslicemirroring-controller.k8s.io,kubernetes.io/service-name="+service, path, want)
	}
	return Scenario{
		Name:        "services-mirrors",
		Bare:        true,
		Controllers: endpointControllers,
		Configure: func(c *manager.Config) {
			c.Controllers.EndpointSliceMirroring.MaxEndpointsPerSubset = ptr.To[int32](5)
		},
		Flags: []string{"--mirroring-max-endpoints-per-subset=5"},
		Differs: map[string]string{
			// Upstream waits for slices that somebody has taken over or given to another Service.
			`too much: endpointslices/(details|unready)-\*`:    "EPM-64",
			`endpointslices/(details|unready)-\* were created`: "EPM-64",
			`endpointslices/details-\* differs: \.metadata\.labels\.endpointslice\.kubernetes\.io/managed-by is "[^"]*" instead of "me"$`: "EPM-64",
			// It writes them in each reconcile, and an update leaves generateName out.
			`endpointslices/managed-\* differs: \.metadata\.generateName is "[a-z-]*" instead of "[a-z-]*"$`: "EPM-51",
		},
		Kinds: []schema.GroupVersionResource{services, endpointsKind, endpointSlices},
		Steps: []Step{
			{
				"create Services and their Endpoints",
				[]Action{
					CreateAll(
						own("one", ", labels: {team: a}, annotations: {note: b, kubectl.kubernetes.io/last-applied-configuration: c, endpoints.kubernetes.io/last-change-trigger-time: '2020-01-01T00:00:00Z', endpoints.kubernetes.io/over-capacity: truncated}", one),
						own("details", "", details), own("twice", "", twice), own("contested", "", contested),
						own("portless", "", "{addresses: [{ip: 2001:db8::1}, {ip: 192.0.2.7}]}"),
						own("unready", "", "{notReadyAddresses: [{ip: 2001:db8::1}], ports: [{port: 1}]}"),
						own("empty", "", ""),
						own("many", "", "{addresses: ["+strings.Join(many, ",")+"], ports: [{port: 1}]}"),
						own("few-ready", "", "{addresses: [{ip: 2001:db8::1}], notReadyAddresses: ["+strings.Join(fewReady, ",")+"], ports: [{port: 1}]}, {addresses: [{ip: 2001:db8::2}], ports: [{port: 2}]}"),
						own("skipped", `, labels: {endpointslice.kubernetes.io/skip-mirror: "true"}`, one),
						own("not-skipped", `, labels: {endpointslice.kubernetes.io/skip-mirror: "True"}`, one),
						own("elected", `, annotations: {control-plane.alpha.kubernetes.io/leader: "{}"}`, one),
						own("managed", `, labels: {endpoints.kubernetes.io/managed-by: endpoint-controller, endpointslice.kubernetes.io/managed-by: me, kubernetes.io/service-name: other, service.kubernetes.io/headless: ""}`, one),
						serviceOf("bare-endpoints", "", "clusterIP: None"),
						serviceOf("external", "", "type: ExternalName, externalName: example.com"),
						"{apiVersion: v1, kind: Endpoints, metadata: {name: external}, subsets: ["+one+"]}",
						serviceOf("late", "", "ports: [{port: 80}]"),
					),
				},
				[]Condition{mirrored("one", "{.endpoints[*].addresses[*]}", "2001:db8::1"), mirrored("external", "{.addressType}", "IPv6"), idle(2 * time.Second)},
			},
			{
				"change the Endpoints",
				[]Action{
					Patch("endpoints", "one", `{"metadata":{"labels":{"team":null,"tier":"x"},"annotations":{"note":null,"other":"y","kubectl.kubernetes.io/last-applied-configuration":"z"}}}`),
					Patch("endpoints", "details", `{"subsets":[{"addresses":[{"ip":"2001:db8::1","hostname":"renamed","nodeName":"node-b"}],"ports":[{"name":"http","port":8080}]}]}`),
					Patch("endpoints", "twice", `{"subsets":[{"addresses":[{"ip":"2001:db8::1"},{"ip":"2001:db8::5"}],"ports":[{"name":"c","port":3}]}]}`),
					Patch("endpoints", "portless", `{"subsets":null}`),
					Patch("endpoints", "unready", `{"subsets":[{"addresses":[{"ip":"2001:db8::1"}],"ports":[{"port":1}]}]}`),
					Patch("endpoints", "empty", `{"subsets":[{"addresses":[{"ip":"2001:db8::1"}],"ports":[{"port":1}]}]}`),
					Patch("endpoints", "many", `{"metadata":{"labels":{"more":"labels"}}}`),
					Patch("endpoints", "skipped", `{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":null}}}`),
					Patch("endpoints", "not-skipped", `{"metadata":{"labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}}}`),
					Patch("endpoints", "elected", `{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":null}}}`),
					Patch("endpoints", "contested", `{"metadata":{"annotations":{"control-plane.alpha.kubernetes.io/leader":""}}}`),
					// A manager that begins deletes Endpoints without a Service, so they are not there before.
					Create("{apiVersion: v1, kind: Endpoints, metadata: {name: early}, subsets: [" + one + "]}"), Rest(time.Second),
					CreateAll(
						serviceOf("early", "", "ports: [{port: 80}]"),
						"{apiVersion: v1, kind: Endpoints, metadata: {name: late}, subsets: ["+one+"]}",
					),
				},
				[]Condition{mirrored("early", "{.addressType}", "IPv6"), mirrored("late", "{.addressType}", "IPv6"), mirrored("not-skipped", "{.addressType}", ""), idle(2 * time.Second)},
			},
			{
				"change the EndpointSlices and Services",
				[]Action{
					PatchEach("endpointslices", "kubernetes.io/service-name=one", `{"metadata":{"labels":{"tier":"other"},"annotations":{"foreign":"note"}},"endpoints":[]}`),
					PatchEach("endpointslices", "kubernetes.io/service-name=details", `{"metadata":{"labels":{"endpointslice.kubernetes.io/managed-by":"me"}}}`),
					PatchEach("endpointslices", "kubernetes.io/service-name=unready", `{"metadata":{"labels":{"kubernetes.io/service-name":"nowhere"}}}`),
					PatchEach("endpointslices", "kubernetes.io/service-name=late", `{"metadata":{"ownerReferences":null}}`),
					DeleteOne("endpointslices", "kubernetes.io/service-name=many"),
					Patch("services", "few-ready", `{"spec":{"selector":{"app":"few"}}}`),
					Delete("services", "skipped", background), Delete("endpoints", "elected", background),
				},
				[]Condition{Gone("endpoints", "skipped"), Gone("endpoints", "elected"), mirrored("elected", "{.addressType}", ""), mirrored("few-ready", "{.addressType}", ""), idle(4 * time.Second)},
			},
			{
				"take the selector away, and delete everything of two",
				[]Action{
					Patch("services", "few-ready", `{"spec":{"selector":null}}`),
					Patch("endpoints", "few-ready", `{"subsets":[{"addresses":[{"ip":"2001:db8::a"}],"ports":[{"port":1}]}]}`),
					Delete("services", "one", background), Delete("endpoints", "many", background), Delete("services", "many", background),
				},
				[]Condition{mirrored("few-ready", "{.addressType}", "IPv6"), mirrored("one", "{.addressType}", ""), mirrored("many", "{.addressType}", ""), idle(3 * time.Second)},
			},
		},
	}
}
