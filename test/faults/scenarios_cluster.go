package faults

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")
	serviceCIDRs = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	addresses    = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	serviceKind  = corev1.SchemeGroupVersion.WithResource("services")
	policies     = admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
)

func roleAggregation() Scenario {
	// source is a role that allows a verb, and is aggregated by others if it is labeled.
	source := func(name, label, verb string) Action {
		return Create(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s, labels: {%s: "true"}}
rules: [{apiGroups: [""], resources: [pods], verbs: [%s]}]
`, name, label, verb))
	}
	aggregate := func(name, labels, label string) Action {
		return Create(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s, labels: {%s: "true"}}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {%s: "true"}}]}
rules: []
`, name, labels, label))
	}
	verbs := func(role, want string) Condition { return Has("clusterroles", role, "{.rules[*].verbs[*]}", want) }
	return Scenario{
		Name:        "clusterrole-aggregation",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ClusterRoleAggregation.Enabled} },
		Kinds:       []schema.GroupVersionResource{clusterRoles},
		Steps: []Step{
			{
				"create roles, one of which aggregates the other",
				[]Action{source("faults-a", "faults.kcmd.dev/to-low", "get"), aggregate("faults-low", "faults.kcmd.dev/to-high", "faults.kcmd.dev/to-low"), aggregate("faults-top", "none", "faults.kcmd.dev/to-high")},
				[]Condition{verbs("faults-low", "get"), verbs("faults-top", "get")},
			},
			{"add a source", []Action{source("faults-b", "faults.kcmd.dev/to-low", "list")}, []Condition{verbs("faults-low", "get list"), verbs("faults-top", "get list")}},
			{
				"take rights away",
				[]Action{Delete("clusterroles", "faults-a", metav1.DeletePropagationBackground)},
				[]Condition{verbs("faults-low", "list"), verbs("faults-top", "list")},
			},
			{
				"change a source, and overwrite what was aggregated",
				[]Action{
					Patch("clusterroles", "faults-b", `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["watch"]}]}`),
					Patch("clusterroles", "faults-top", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`),
				},
				[]Condition{verbs("faults-low", "watch"), verbs("faults-top", "watch")},
			},
		},
	}
}

// isReadyRange is that a ServiceCIDR is protected and shown as ready or not.
func isReadyRange(name, status string) Condition {
	return Has("servicecidrs", name, "{.status.conditions[?(@.type=='Ready')].status}", status, "{.metadata.finalizers[*]}", "networking.k8s.io/service-cidr-finalizer")
}

func serviceRanges() Scenario {
	serviceCIDR := func(name, cidr string) Action {
		return Create("{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: " + name + "}, spec: {cidrs: [" + cidr + "]}}")
	}
	return Scenario{
		Name:        "service-cidr",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceCIDR.Enabled} },
		Clock:       fast, // a range that is deleted stays for ten seconds
		Kinds:       []schema.GroupVersionResource{serviceCIDRs, addresses, serviceKind},
		Steps: []Step{
			{"create ranges", []Action{serviceCIDR("used", "10.201.0.0/24"), serviceCIDR("unused", "10.202.0.0/24")}, []Condition{isReadyRange("used", "True"), isReadyRange("unused", "True")}},
			{
				"use one, and delete both",
				[]Action{
					Repeat(Create("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {clusterIP: 10.201.0.7, ports: [{port: 80}]}}")),
					Delete("servicecidrs", "used", metav1.DeletePropagationBackground), Delete("servicecidrs", "unused", metav1.DeletePropagationBackground),
				},
				[]Condition{isReadyRange("used", "False"), Gone("servicecidrs", "unused")},
			},
			{
				"delete the Service",
				[]Action{Check(isReadyRange("used", "False")), Delete("services", "web", metav1.DeletePropagationBackground)},
				[]Condition{Gone("servicecidrs", "used")},
			},
		},
	}
}

func admissionPolicies() Scenario {
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
  validations: [{expression: "%s"}]
`
	warning := func(name, want string) Condition {
		return Has("validatingadmissionpolicies", name, "{.status.typeChecking.expressionWarnings[*].fieldRef}", want)
	}
	return Scenario{
		Name: "validatingadmissionpolicy-status",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.ValidatingAdmissionPolicyStatus.Enabled}
		},
		Kinds:   []schema.GroupVersionResource{policies},
		Differs: map[string]string{`validatingadmissionpolicies/wrong differs: $`: "VAP-38"}, // typeChecking is empty, and upstream's is not there
		Steps: []Step{
			{
				"create policies",
				[]Action{Create(fmt.Sprintf(policy, "correct", "object.spec.replicas > 1")), Create(fmt.Sprintf(policy, "wrong", "object.spec.replicas > '1'"))},
				[]Condition{
					Has("validatingadmissionpolicies", "correct", "{.status.observedGeneration}", "1"),
					Has("validatingadmissionpolicies", "wrong", "{.status.observedGeneration}", "1"), warning("wrong", "spec.validations[0].expression"),
				},
			},
			{
				"change them",
				[]Action{
					Patch("validatingadmissionpolicies", "correct", `{"spec":{"validations":[{"expression":"object.spec.nope == 1"}]}}`),
					Patch("validatingadmissionpolicies", "wrong", `{"spec":{"validations":[{"expression":"object.spec.replicas > 2"}]}}`),
				},
				[]Condition{
					Has("validatingadmissionpolicies", "correct", "{.status.observedGeneration}", "2"), warning("correct", "spec.validations[0].expression"),
					Has("validatingadmissionpolicies", "wrong", "{.status.observedGeneration}", "2"), warning("wrong", ""),
				},
			},
			{
				"create one again under the name",
				[]Action{Delete("validatingadmissionpolicies", "wrong", metav1.DeletePropagationBackground), Create(fmt.Sprintf(policy, "wrong", "object.spec.replicas > '1'"))},
				[]Condition{Has("validatingadmissionpolicies", "wrong", "{.status.observedGeneration}", "1"), warning("wrong", "spec.validations[0].expression")},
			},
		},
	}
}
