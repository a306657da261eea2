package faults

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kcmd.dev/test/manager"
)

func roleAggregationCorners() Scenario {
	// role creates a role with labels, rules and selectors in YAML.
	role := func(name, labels, rules, selectors string) Action {
		return func(ctx context.Context, w *world) error {
			r := &rbacv1.ClusterRole{}
			text := fmt.Sprintf("{metadata: {name: faults-%s, labels: {%s}}, rules: [%s]}", name, labels, rules)
			if selectors != "" {
				text = fmt.Sprintf("{metadata: {name: faults-%s, labels: {%s}}, rules: [%s], aggregationRule: {clusterRoleSelectors: [%s]}}", name, labels, rules, selectors)
			}
			if err := yaml.UnmarshalStrict([]byte(text), r); err != nil {
				return fmt.Errorf("decoding %s: %w", text, err)
			}
			_, err := w.admin.RbacV1().ClusterRoles().Create(ctx, r, metav1.CreateOptions{})
			return err
		}
	}
	pods := func(verbs string) string { return `{apiGroups: [""], resources: [pods], verbs: [` + verbs + `]}` }
	rules := func(name, path, want string) Condition { return Has("clusterroles", "faults-"+name, path, want) }
	verbs := func(name, want string) Condition { return rules(name, "{.rules[*].verbs[*]}", want) }
	patch := func(name, text string) Action { return Patch("clusterroles", "faults-"+name, text) }
	remove := func(name string, p metav1.DeletionPropagation) Action {
		return Delete("clusterroles", "faults-"+name, p)
	}
	return Scenario{
		Name:        "aggregated-roles",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ClusterRoleAggregation.Enabled} },
		Kinds:       []schema.GroupVersionResource{clusterRoles},
		Steps: []Step{
			{
				"create roles with all kinds of rules and selectors",
				[]Action{
					role("z", "faults/a: x", pods("get")+","+pods("list"), ""), role("b", "faults/a: x", pods("list")+","+pods("watch"), ""), role("c", "faults/a: w, faults/b: x", pods("create, delete"), ""),
					role("names", "faults/a: z", `{apiGroups: ["", apps], resources: [pods, deployments], resourceNames: [x, y], verbs: [get]}, {nonResourceURLs: [/healthz, "/x/*"], verbs: [get]}, {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`, ""),
					role("order", "faults/a: z", pods("delete, create")+", {apiGroups: [apps, \"\"], resources: [pods, deployments], resourceNames: [x, y], verbs: [get]}", ""),
					role("nothing", "faults/a: x, faults/empty: x", "", ""),
					role("equal", "", "", "{matchLabels: {faults/a: x}}"),
					role("own-rules", "", pods("impersonate"), "{matchLabels: {faults/a: x}}"),
					role("own-rules-only", "", pods("impersonate"), "{matchLabels: {faults/none: x}}"),
					role("without-rules", "", pods("impersonate"), "{matchLabels: {faults/empty: x}}"),
					role("two", "", "", "{matchLabels: {faults/b: x}}, {matchLabels: {faults/a: x}}"),
					role("expression", "", "", "{matchExpressions: [{key: faults/a, operator: In, values: [w, z]}, {key: faults/b, operator: DoesNotExist}]}"),
					role("exists", "", "", "{matchExpressions: [{key: faults/a, operator: Exists}]}"),
					role("not-in", "", "", "{matchLabels: {faults/b: x}, matchExpressions: [{key: faults/a, operator: NotIn, values: [x]}]}"),
					role("itself", "faults/itself: x", pods("bind"), "{matchLabels: {faults/itself: x}}"),
					role("chain-1", "faults/chain: \"1\"", "", "{matchLabels: {faults/a: x}}"), role("chain-2", "faults/chain: \"2\"", "", "{matchLabels: {faults/chain: \"1\"}}"), role("chain-3", "faults/chain: \"3\"", "", "{matchLabels: {faults/chain: \"2\"}}"),
				},
				[]Condition{verbs("equal", "list watch get"), verbs("own-rules", "list watch get"), verbs("chain-3", "list watch get"), verbs("two", "create delete list watch get"), verbs("not-in", "create delete"), rules("exists", "{.rules[*].nonResourceURLs[*]}", "/healthz /x/*")},
			},
			{
				"change labels, rules and selectors",
				[]Action{
					patch("own-rules", `{"aggregationRule":null}`), patch("b", `{"metadata":{"labels":{"faults/a":"w"}}}`), patch("c", `{"metadata":{"labels":{"faults/b":null}}}`), patch("z", `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["update"]},{"apiGroups":[""],"resources":["pods"],"verbs":["update"]}]}`),
					patch("nothing", `{"rules":[{"apiGroups":["x"],"resources":["y"],"verbs":["deletecollection"]}]}`),
					patch("not-in", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"faults/a":"z"}}]}}`), patch("expression", `{"rules":[]}`), patch("exists", `{"rules":null}`),
					patch("names", `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"faults/a":"w"}}]}}`),
				},
				[]Condition{verbs("equal", "deletecollection update"), verbs("chain-3", "deletecollection update"), verbs("without-rules", "deletecollection"), verbs("two", "deletecollection update"), verbs("names", "list watch create delete")},
			},
			{
				"delete roles, one of which stays",
				[]Action{
					patch("c", `{"metadata":{"finalizers":["example.com/kept"]}}`), remove("c", metav1.DeletePropagationBackground), remove("b", metav1.DeletePropagationBackground), remove("z", metav1.DeletePropagationBackground), remove("nothing", metav1.DeletePropagationBackground),
				},
				[]Condition{verbs("equal", ""), verbs("chain-3", ""), verbs("names", "create delete")},
			},
			{
				"let it go, and break the chain",
				[]Action{patch("c", `{"metadata":{"finalizers":null}}`), patch("chain-1", `{"aggregationRule":null,"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`), remove("chain-2", metav1.DeletePropagationBackground)},
				[]Condition{verbs("names", "")},
			},
		},
	}
}
