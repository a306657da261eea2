package faults

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// aggregatedRoles have roles that aggregate others in every way.
func aggregatedRoles() Scenario {
	role := func(name, labels, rules string) string {
		return fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: aggregated-%s, labels: {%s}}, rules: [%s]}", name, labels, rules)
	}
	sum := func(name, labels, selectors, rules string) string {
		return fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: aggregated-%s, labels: {%s}}, aggregationRule: {clusterRoleSelectors: [%s]}, rules: [%s]}", name, labels, selectors, rules)
	}
	const (
		get    = "{apiGroups: [''], resources: [pods], verbs: [get]}"
		list   = "{apiGroups: [''], resources: [pods], verbs: [list]}"
		named  = "{apiGroups: [apps], resources: [deployments/status], resourceNames: [a, b], verbs: [get, update]}"
		urls   = "{nonResourceURLs: [/healthz, /metrics*], verbs: [get]}"
		orders = "{apiGroups: [apps], resources: [deployments/status], resourceNames: [b, a], verbs: [get, update]}"
		team   = "{matchLabels: {team: "
	)
	verbs := func(name, want string) Condition {
		return Has("clusterroles", "aggregated-"+name, "{.rules[*].verbs[*]}", want)
	}
	return Scenario{
		Name:        "roles",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ClusterRoleAggregation.Enabled} },
		Kinds:       []schema.GroupVersionResource{clusterRoles},
		Steps: []Step{
			{
				"create roles",
				[]Action{CreateAll(
					role("z", "team: a", get), role("y", "team: a, tier: b", list+", "+get), role("x", "tier: b", named+", "+urls), role("w", "tier: b", orders+", "+named), role("v", "team: none", get),
					sum("one", "", team+"a}}", ""), sum("two", "", "{matchLabels: {tier: b}}, "+team+"a}}", ""),
					sum("expressions", "", "{matchExpressions: [{key: team, operator: In, values: [a, c]}, {key: tier, operator: DoesNotExist}]}", ""),
					sum("no-match", "", team+"nobody}}", get), sum("no-match-empty", "", team+"nobody}}", ""), sum("overwritten", "", team+"a}}", named),
					sum("itself", "team: self", team+"self}}", list),
					sum("mutual-a", "mutual: a", "{matchLabels: {mutual: b}}", get), sum("mutual-b", "mutual: b", "{matchLabels: {mutual: a}}", get),
					sum("chain-a", "chain: a", team+"a}}", ""), sum("chain-b", "chain: b", "{matchLabels: {chain: a}}", ""), sum("chain-c", "", "{matchLabels: {chain: b}}, {matchLabels: {tier: b}}", ""),
					role("later", "", get), sum("not-later", "", team+"a}}", ""),
				)},
				[]Condition{verbs("one", "list get"), verbs("chain-b", "list get"), verbs("expressions", "get"), verbs("overwritten", "list get"), idle(time.Second)},
			},
			{
				"change roles",
				[]Action{
					Patch("clusterroles", "aggregated-not-later", `{"aggregationRule":null,"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["watch"]}]}`),
					Rest(time.Second), // upstream may have an apply on its way, see AGG-33
					Patch("clusterroles", "aggregated-z", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`),
					Patch("clusterroles", "aggregated-x", `{"metadata":{"labels":{"tier":null,"team":"c"}}}`),
					Patch("clusterroles", "aggregated-v", `{"metadata":{"labels":{"team":"nobody"}}}`),
					Patch("clusterroles", "aggregated-later", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"team":"a"}}]}}`),
					Patch("clusterroles", "aggregated-one", `{"rules":null}`),
				},
				[]Condition{verbs("one", "list get *"), verbs("no-match", "get"), verbs("later", "list get *"), verbs("chain-b", "list get *"), idle(time.Second)},
			},
			{
				"delete roles",
				[]Action{
					Delete("clusterroles", "aggregated-z", background), Delete("clusterroles", "aggregated-y", background), Delete("clusterroles", "aggregated-v", background),
					Delete("clusterroles", "aggregated-mutual-a", background), Delete("clusterroles", "aggregated-expressions", background),
				},
				[]Condition{verbs("one", ""), verbs("no-match-empty", ""), verbs("chain-b", ""), idle(time.Second)},
			},
		},
	}
}

// servedRanges are ranges of the addresses of Services, which are deleted while some are in use.
func servedRanges() Scenario {
	cidrs := func(name, metadata, all string) string {
		return fmt.Sprintf("{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: ranges-%s%s}, spec: {cidrs: [%s]}}", name, metadata, all)
	}
	at := func(name, address string) Action {
		return Repeat(Create(serviceOf(name, "", "clusterIP: "+address+", ports: [{port: 80}]")))
	}
	ready := func(name, status string) Condition { return isReadyRange("ranges-"+name, status) }
	message := func(name, want string) Condition {
		return Has("servicecidrs", name, "{.status.conditions[?(@.type=='Ready')].message}", want)
	}
	remove := func(name string) Action { return Delete("servicecidrs", "ranges-"+name, background) }
	return Scenario{
		Name:        "ranges",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceCIDR.Enabled} },
		Kinds:       []schema.GroupVersionResource{serviceCIDRs, addresses, services},
		Steps: []Step{
			{
				"create ranges",
				[]Action{CreateAll(
					cidrs("four", "", "10.210.0.0/24"), cidrs("six", "", "'fd00:210::/112'"), cidrs("both", "", "10.211.0.0/24, 'fd00:211::/112'"),
					cidrs("large", "", "10.212.0.0/16"), cidrs("small", "", "10.212.5.0/24"), cidrs("equal", "", "10.213.0.0/24"), cidrs("equal-too", "", "10.213.0.0/24"),
					cidrs("free", "", "10.214.0.0/24"), cidrs("default", "", "10.0.7.0/24"), cidrs("held", held, "10.215.0.0/24"), cidrs("foreign", "", "10.216.0.0/24"), cidrs("edited", "", "10.217.0.0/24"),
				)},
				[]Condition{
					ready("four", "True"), ready("six", "True"), ready("both", "True"), ready("large", "True"), ready("small", "True"), ready("equal", "True"), ready("equal-too", "True"),
					ready("free", "True"), ready("default", "True"), ready("foreign", "True"), ready("edited", "True"), message("kubernetes", "Kubernetes Service CIDR is ready"),
				},
			},
			{
				"use them, and delete some",
				[]Action{
					at("four", "10.210.0.9"), at("six", "'fd00:210::9'"), at("both", "'fd00:211::9'"), at("small", "10.212.5.9"), at("equal", "10.213.0.9"), at("default", "10.0.7.9"),
					Create(`{apiVersion: networking.k8s.io/v1, kind: IPAddress, metadata: {name: 10.216.0.9, labels: {ipaddress.kubernetes.io/ip-family: IPv4, ipaddress.kubernetes.io/managed-by: somebody}}, spec: {parentRef: {resource: services, namespace: NAMESPACE, name: four}}}`),
					PatchStatus("servicecidrs", "ranges-edited", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Edited","message":"by a user","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Other","status":"True","reason":"Own","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`),
					unhold("servicecidrs", "ranges-equal-too"),
					remove("four"), remove("six"), remove("both"), remove("small"), remove("free"), remove("default"), remove("held"), remove("foreign"), remove("equal"),
				},
				[]Condition{
					ready("four", "False"), ready("six", "False"), ready("both", "False"), Gone("servicecidrs", "ranges-small"), Gone("servicecidrs", "ranges-free"), Gone("servicecidrs", "ranges-default"),
					Gone("servicecidrs", "ranges-foreign"), Gone("servicecidrs", "ranges-equal"), ready("equal-too", "True"), ready("edited", "True"), Has("servicecidrs", "ranges-held", "{.metadata.finalizers[*]}", "faults.example.com/hold"),
				},
			},
			{
				"delete a Service, and create another range for what is in use",
				[]Action{Delete("services", "four", background), Create(cidrs("again", "", "'fd00:210::/64'")), remove("equal-too")},
				[]Condition{Gone("servicecidrs", "ranges-four"), Gone("servicecidrs", "ranges-six"), ready("again", "True"), ready("equal-too", "False"), idle(time.Second)},
			},
		},
	}
}
