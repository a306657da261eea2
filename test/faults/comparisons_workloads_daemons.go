package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// daemonComparisons are those of DaemonSets.
func daemonComparisons() []Scenario {
	return []Scenario{daemonsPlaced(), daemonsRolling(), daemonsFailing()}
}

func ofDaemons(c *manager.Config) []**bool { return []**bool{&c.Controllers.DaemonSet.Enabled} }

// createNode creates a node, and takes from it the taint that the API server gives every new one.
func createNode(name, labels, taints string) Action {
	create := Create(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}", name, labels))
	return func(ctx context.Context, w *world) error {
		if err := create(ctx, w); err != nil {
			return err
		}
		return Patch("nodes", name, `{"spec":{"taints":[`+taints+`]}}`)(ctx, w)
	}
}

// taint is one of a node.
func taint(key, effect string) string { return fmt.Sprintf(`{"key":%q,"effect":%q}`, key, effect) }

// scheduled is how many pods DaemonSets should have, have, and have where they should not be; all that should be there
// are available and of the newest template.
func scheduled(desired, misscheduled int, names ...string) []Condition {
	var all []Condition
	number, available := fmt.Sprint(desired), fmt.Sprint(desired)
	if desired == 0 {
		available = ""
	}
	for _, name := range names {
		all = append(all, Has("daemonsets", name, "{.status.desiredNumberScheduled}", number, "{.status.currentNumberScheduled}", number, "{.status.numberAvailable}", available,
			"{.status.updatedNumberScheduled}", available, "{.status.numberMisscheduled}", fmt.Sprint(misscheduled)), Count("pods", "app="+name, desired+misscheduled))
	}
	return all
}

// daemonsPlaced has nodes and DaemonSets that fit and do not fit each other, and changes the nodes.
func daemonsPlaced() Scenario {
	const affine = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [%s]}}}"
	const zones = "{matchExpressions: [{key: zone, operator: %s}]}"
	return Scenario{
		Name:        "daemonsets-placed",
		Controllers: ofDaemons,
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{daemonSets, pods, revisions, nodes},
		Steps: []Step{
			{
				"create nodes",
				[]Action{
					createNode("n1", "zone: a, size: '1'", ""), createNode("n2", "zone: b, size: '5'", ""), createNode("n3", "zone: a", taint("example.com/x", "NoSchedule")),
					createNode("n4", "", taint("example.com/y", "NoExecute")), createNode("n5", "zone: c", taint("example.com/z", "PreferNoSchedule")),
					createNode("n6", "zone: a", taint("node.kubernetes.io/not-ready", "NoExecute")+","+taint("node.kubernetes.io/unschedulable", "NoSchedule")),
					createNode("n7", "zone: a", taint("node.kubernetes.io/network-unavailable", "NoSchedule")),
				},
				nil,
			},
			{
				"create",
				[]Action{createAll("DaemonSet",
					workload{name: "plain"},
					workload{name: "selected", pod: "nodeSelector: {zone: a}"},
					workload{name: "nowhere", pod: "nodeSelector: {zone: z}"},
					workload{name: "affine", pod: fmt.Sprintf(affine, fmt.Sprintf(zones, "In, values: [b, c]"))},
					workload{name: "either", pod: fmt.Sprintf(affine, fmt.Sprintf(zones, "NotIn, values: [a, b, c]")+", {matchExpressions: [{key: size, operator: Gt, values: ['3']}]}")},
					workload{name: "field", pod: fmt.Sprintf(affine, "{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}")},
					workload{name: "named", pod: "nodeName: n1"},
					workload{name: "missing", pod: "nodeName: n99"},
					workload{name: "tolerant", pod: "tolerations: [{key: example.com/x, operator: Exists}, {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]"},
					workload{name: "executed", pod: "tolerations: [{key: example.com/y, operator: Exists, effect: NoExecute, tolerationSeconds: 3600}]"},
					workload{name: "all", pod: "tolerations: [{operator: Exists}]"},
					workload{name: "hosted", pod: "hostNetwork: true"},
					workload{name: "prefer", pod: "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: " + fmt.Sprintf(zones, "In, values: [b, c]") + "}]}}"},
				)},
				slices.Concat(scheduled(4, 0, "plain", "prefer"), scheduled(2, 0, "selected", "affine"), scheduled(0, 0, "nowhere", "missing"),
					scheduled(1, 0, "field", "named", "either"), scheduled(5, 0, "tolerant", "executed", "hosted"), scheduled(7, 0, "all")),
			},
			{
				"change nodes",
				[]Action{
					Patch("nodes", "n1", `{"spec":{"taints":[`+taint("example.com/new", "NoSchedule")+`]}}`),
					Patch("nodes", "n2", `{"metadata":{"labels":{"zone":"a","size":"2"}}}`),
					Patch("nodes", "n3", `{"spec":{"taints":[]}}`),
					Patch("nodes", "n5", `{"spec":{"taints":[`+taint("example.com/new", "NoExecute")+`]}}`),
					createNode("n8", "zone: z", ""),
					Rest(stillness), PatchEach("daemonsets", bySide, `{"metadata":{"annotations":{"woken":"once"}}}`), // upstream does not wake all
				},
				slices.Concat(scheduled(4, 1, "plain", "prefer"), scheduled(3, 1, "selected"), scheduled(0, 0, "affine"), scheduled(1, 0, "nowhere", "field"),
					scheduled(0, 1, "named"), scheduled(8, 0, "all")),
			},
			{
				"restore and delete nodes",
				[]Action{
					Delete("nodes", "n8", metav1.DeletePropagationBackground), Rest(stillness), deletePodsOn("n8", ""),
					Patch("nodes", "n1", `{"spec":{"taints":[]}}`), Patch("nodes", "n5", `{"spec":{"taints":[]}}`), Patch("nodes", "n7", `{"spec":{"unschedulable":true}}`),
					Rest(stillness), PatchEach("daemonsets", bySide, `{"metadata":{"annotations":{"woken":"twice"}}}`), // upstream does not wake all
				},
				slices.Concat(scheduled(5, 0, "plain"), scheduled(1, 0, "named", "field"), scheduled(0, 0, "nowhere"), scheduled(7, 0, "all")),
			},
			{
				"change templates",
				[]Action{
					Patch("daemonsets", "selected", `{"spec":{"template":{"spec":{"nodeSelector":{"zone":"c"}}}}}`), Patch("daemonsets", "named", `{"spec":{"template":{"spec":{"nodeName":"n2"}}}}`),
					Patch("daemonsets", "missing", `{"spec":{"template":{"spec":{"nodeName":null}}}}`), Patch("daemonsets", "tolerant", `{"spec":{"template":{"spec":{"tolerations":null}}}}`),
				},
				append(scheduled(1, 0, "selected", "named"), scheduled(5, 0, "missing", "tolerant")...),
			},
		},
	}
}

// deletePodsOn deletes the pods of a node that a selector of labels selects, as the collector of pods does with all of a
// node that is gone. There has to be one at least.
func deletePodsOn(node, labels string) Action {
	return func(ctx context.Context, w *world) error {
		of := metav1.ListOptions{FieldSelector: "spec.nodeName=" + node, LabelSelector: labels}
		if list, err := w.admin.CoreV1().Pods(w.namespace).List(ctx, of); err != nil || len(list.Items) == 0 {
			return errors.Join(err, fmt.Errorf("no pod on %s has %s", node, labels))
		}
		return w.admin.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, of)
	}
}

// daemonsRolling rolls out with every strategy.
func daemonsRolling() Scenario {
	const rolling = "updateStrategy: {rollingUpdate: {maxSurge: %s, maxUnavailable: %s}}"
	names := []string{"plain", "two", "percent", "surge", "surgeall", "slow", "forgetful", "short", "generation"}
	return Scenario{
		Name:        "daemonsets-rolling",
		Controllers: ofDaemons,
		Bare:        true,
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{daemonSets, pods, revisions, nodes},
		Steps: []Step{
			{"create nodes", []Action{createNode("n1", "", ""), createNode("n2", "", ""), createNode("n3", "", "")}, nil},
			{
				"create",
				[]Action{createAll("DaemonSet",
					workload{name: "plain"},
					workload{name: "two", spec: fmt.Sprintf(rolling, "0", "2")},
					workload{name: "percent", spec: fmt.Sprintf(rolling, "0", "34%")},
					workload{name: "surge", spec: fmt.Sprintf(rolling, "1", "0")},
					workload{name: "surgeall", spec: fmt.Sprintf(rolling, "100%", "0")},
					workload{name: "slow", spec: "minReadySeconds: 1, " + fmt.Sprintf(rolling, "0", "100%")},
					workload{name: "forgetful", spec: "revisionHistoryLimit: 0, " + fmt.Sprintf(rolling, "0", "100%")},
					workload{name: "short", spec: "revisionHistoryLimit: 1, " + fmt.Sprintf(rolling, "0", "100%")},
					workload{name: "ondelete", spec: "updateStrategy: {type: OnDelete}"},
					workload{name: "generation", spec: "updateStrategy: {rollingUpdate: {maxUnavailable: 3}}"},
				), Patch("daemonsets", "generation", `{"metadata":{"annotations":{"deprecated.daemonset.template.generation":"1","other":"annotation"}}}`)},
				scheduled(3, 0, append(names, "ondelete")...),
			},
			{
				"roll out",
				[]Action{PatchEach("daemonsets", bySide, newImage)},
				append(scheduled(3, 0, names...), Has("daemonsets", "ondelete", "{.status.numberAvailable}", "3", "{.status.updatedNumberScheduled}", "")),
			},
			{
				"roll out something else",
				[]Action{PatchEach("daemonsets", bySide, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`), deletePodsOn("n1", "app=ondelete")},
				append(scheduled(3, 0, names...), Has("daemonsets", "ondelete", "{.status.numberAvailable}", "3", "{.status.updatedNumberScheduled}", "1")),
			},
			{
				"roll back",
				[]Action{PatchEach("daemonsets", bySide, `{"spec":{"template":{"metadata":{"annotations":null},"spec":{"containers":[{"name":"web","image":"web:1"}]}}}}`)},
				append(scheduled(3, 0, names...), Has("daemonsets", "ondelete", "{.status.numberAvailable}", "3", "{.status.updatedNumberScheduled}", "2")),
			},
			{
				"roll out what does not become ready",
				[]Action{PatchEach("daemonsets", bySide, `{"spec":{"template":{"metadata":{"labels":{"stuck":"here"}}}}}`)},
				[]Condition{
					Has("daemonsets", "plain", "{.status.numberAvailable}", "2", "{.status.updatedNumberScheduled}", "1"), Has("daemonsets", "two", "{.status.numberAvailable}", "1", "{.status.updatedNumberScheduled}", "2"),
					Count("pods", "app=surge", 4), Count("pods", "app=surgeall", 6), Has("daemonsets", "slow", "{.status.updatedNumberScheduled}", "3"), Has("daemonsets", "percent", "{.status.updatedNumberScheduled}", "2"),
				},
			},
			{
				"make it ready",
				[]Action{PatchEach("daemonsets", bySide, `{"spec":{"template":{"metadata":{"labels":{"stuck":null}}}}}`)},
				scheduled(3, 0, names...),
			},
			{
				"replace all", // the labels tell how often the template had changed, and upstream goes through nodes in any order
				[]Action{PatchEach("daemonsets", bySide, newImage)},
				scheduled(3, 0, names...),
			},
		},
	}
}

// daemonsFailing is about pods that end or belong to somebody else, and about requests that are refused.
func daemonsFailing() Scenario {
	const all = "updateStrategy: {rollingUpdate: {maxUnavailable: 100%}}"
	return Scenario{
		Name:        "daemonsets-failing",
		Controllers: ofDaemons,
		Bare:        true,
		Before:      []Action{Denies},
		Beside:      []func(context.Context, *world) error{Readies},
		Kinds:       []schema.GroupVersionResource{daemonSets, pods, revisions, nodes, policies, policyBindings},
		Steps: []Step{
			{"create nodes", []Action{createNode("n1", "", ""), createNode("n2", "", "")}, nil},
			{
				"create",
				[]Action{
					Create(`{apiVersion: v1, kind: Pod, metadata: {name: adopted, labels: {app: adopting}}, spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}`),
					Create(`{apiVersion: v1, kind: Pod, metadata: {name: surplus, labels: {app: adopting}}, spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}}`),
					Create(barePod("unplaced", "app: adopting", "")),
					createAll("DaemonSet",
						workload{name: "adopting", spec: "updateStrategy: {type: OnDelete}"},
						workload{name: "failing", spec: all},
						workload{name: "ending", spec: all},
						workload{name: "denied", spec: all, labels: "denied: create-pods"},
						workload{name: "staying", spec: all, labels: "denied: delete-pods"},
						workload{name: "releasing", spec: all},
						workload{name: "holding", spec: all},
					),
				},
				append(scheduled(2, 0, "failing", "ending", "staying", "releasing", "holding"), Has("daemonsets", "adopting", "{.status.numberAvailable}", "2"), Gone("pods", "surplus")),
			},
			{
				"end pods, and change what there is",
				[]Action{
					PatchEach("pods", "app=failing", evicted, "status"), PatchEach("pods", "app=ending", hasSucceeded, "status"),
					PatchEach("pods", "app=releasing", `{"metadata":{"labels":{"app":"nobodys"}}}`), PatchEach("pods", "app=holding", `{"metadata":{"finalizers":["example.com/hold"]}}`),
				},
				scheduled(2, 0, "failing", "ending", "releasing"),
			},
			{
				"roll out",
				[]Action{
					Patch("daemonsets", "holding", newImage), Patch("daemonsets", "staying", newImage),
					Patch("daemonsets", "denied", `{"spec":{"template":{"metadata":{"labels":{"denied":null}}}}}`), Patch("daemonsets", "adopting", newImage),
				},
				append(scheduled(2, 0, "denied"), Has("daemonsets", "staying", "{.status.updatedNumberScheduled}", ""), Has("daemonsets", "holding", "{.status.updatedNumberScheduled}", "")),
			},
			{
				"end the causes, and delete",
				[]Action{
					PatchEach("pods", "app=staying", `{"metadata":{"labels":{"denied":null}}}`), PatchEach("pods", "app=holding", letGo),
					Delete("daemonsets", "ending", metav1.DeletePropagationForeground), Delete("daemonsets", "releasing", metav1.DeletePropagationOrphan), Delete("daemonsets", "failing", metav1.DeletePropagationBackground),
				},
				append(scheduled(2, 0, "holding"), Gone("daemonsets", "failing")),
			},
		},
	}
}
