package faults

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// heldPod creates a pod on a node that stays when it has been deleted, so that its end shows what was written to it.
func heldPod(name, node, metadata, spec string) Action {
	return Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, finalizers: [faults.kcmd.dev/hold], %s},
  spec: {nodeName: %s, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], %s}}`, name, metadata, node, spec))
}

// marked is that a pod is being deleted because of taints.
func marked(pod string) Condition {
	return Has("pods", pod, "{.status.conditions[?(@.type=='DisruptionTarget')].reason}", "DeletionByTaintManager", "{.metadata.deletionGracePeriodSeconds}", "0")
}

// unmarked is that a pod is as it was.
func unmarked(pod string) Condition {
	return Has("pods", pod, "{.status.conditions[?(@.type=='DisruptionTarget')].status}", "", "{.metadata.deletionTimestamp}", "")
}

func each(condition func(string) Condition, names ...string) (all []Condition) {
	for _, name := range names {
		all = append(all, condition(name))
	}
	return all
}

// bothOfTaints are the controllers that set taints and evict because of them. Upstream's latter needs an index that its
// former makes.
func bothOfTaints(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.NodeLifecycle.Enabled, &c.Controllers.TaintEviction.Enabled}
}

// taintTolerations is about what pods tolerate, and for how long.
func taintTolerations() Scenario {
	configure, flags := lifecycle(10*time.Minute, nil)
	tolerate := func(tolerations string) string { return "tolerations: [" + tolerations + "]" }
	const forever = "{key: gone, operator: Exists, effect: NoExecute}"
	limited := func(key, seconds string) string {
		return fmt.Sprintf("{key: %s, operator: Exists, effect: NoExecute, tolerationSeconds: %s}", key, seconds)
	}
	const target = `{"status":{"conditions":[{"type":"DisruptionTarget","status":%q,"reason":%q,"message":%q,"lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`
	return Scenario{
		Name: "taint-tolerations", Bare: true,
		Controllers: bothOfTaints, Configure: configure, Flags: flags,
		Kinds: []schema.GroupVersionResource{nodes, pods},
		Differs: map[string]string{
			`missing: event of taint-eviction-controller about v1 Pod late: .*Cancelling deletion`: "TAINT-44",
		},
		Steps: []Step{
			{
				"pods come to a node with a taint",
				[]Action{
					nodeLike("clean", "", ""), nodeLike("one", "", "taints: [{key: gone, value: v, effect: NoExecute}]"),
					nodeLike("two", "", "taints: [{key: a, effect: NoExecute}, {key: b, value: x, effect: NoExecute}, {key: c, effect: NoSchedule}, {key: d, effect: PreferNoSchedule}]"),
					nodeLike("soft", "", "taints: [{key: gone, effect: NoSchedule}]"),
					heldPod("none", "one", "", ""), heldPod("zero", "one", "", tolerate(limited("gone", "0"))), heldPod("negative", "one", "", tolerate(limited("gone", "-5"))),
					heldPod("second", "one", "", tolerate(limited("gone", "1"))), heldPod("forever", "one", "", tolerate(forever)),
					heldPod("wrong-value", "one", "", tolerate("{key: gone, operator: Equal, value: w, effect: NoExecute}")),
					heldPod("right-value", "one", "", tolerate("{key: gone, value: v, effect: NoExecute}")), heldPod("anything", "one", "", tolerate("{operator: Exists}")),
					heldPod("other-effect", "one", "", tolerate("{key: gone, operator: Exists, effect: NoSchedule}")), heldPod("no-effect", "one", "", tolerate("{key: gone, operator: Exists}")),
					heldPod("first-limited", "one", "", tolerate(limited("gone", "1")+", {operator: Exists}")), heldPod("first-forever", "one", "", tolerate("{operator: Exists}, "+limited("gone", "1"))),
					heldPod("other-key", "one", "", tolerate("{key: went, operator: Exists, effect: NoExecute}")),
					heldPod("mirror", "one", "annotations: {kubernetes.io/config.mirror: x}", ""), heldPod("soft", "soft", "", ""), heldPod("calm", "clean", "", ""),
					Create(`{apiVersion: v1, kind: Pod, metadata: {name: graceful}, spec: {nodeName: one, containers: [{name: web, image: "web:1"}]}}`),
					Create(podWith("unbound", "priority: 0")),
					heldPod("only-a", "two", "", tolerate(limited("a", "3600"))), heldPod("both", "two", "", tolerate(limited("a", "3600")+", "+limited("b", "1"))),
					heldPod("both-forever", "two", "", tolerate("{key: a, operator: Exists}, {key: b, value: x}")), heldPod("half-limited", "two", "", tolerate("{key: a, operator: Exists}, "+limited("b", "1"))),
				},
				append(each(marked, "none", "zero", "negative", "second", "wrong-value", "other-effect", "first-limited", "other-key", "mirror", "only-a", "both", "half-limited"),
					append(each(unmarked, "forever", "right-value", "anything", "no-effect", "first-forever", "soft", "calm", "both-forever"), Has("pods", "graceful", "{.metadata.deletionGracePeriodSeconds}", "30"))...),
			},
			{
				"a node gets a taint while pods of all kinds are there",
				[]Action{
					heldPod("ended", "clean", "", ""), PatchStatus("pods", "ended", `{"status":{"phase":"Succeeded"}}`),
					heldPod("leaving", "clean", "", ""), Delete("pods", "leaving", metav1.DeletePropagationBackground),
					heldPod("was-target", "clean", "", ""), PatchStatus("pods", "was-target", fmt.Sprintf(target, "True", "PreemptionByScheduler", "preempted")),
					heldPod("was-none", "clean", "", ""), PatchStatus("pods", "was-none", fmt.Sprintf(target, "False", "Played", "no")),
					heldPod("was-same", "clean", "", ""), PatchStatus("pods", "was-same", fmt.Sprintf(target, "True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")),
					heldPod("owned", "clean", "ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: of, uid: 00000000-0000-4000-8000-000000000000, controller: true}]", ""),
					heldPod("canceled", "clean", "", tolerate(limited("gone", "3600"))), heldPod("hurried", "clean", "", tolerate(limited("gone", "3600"))), heldPod("lengthened", "clean", "", tolerate(limited("gone", "2"))),
					Create(`{apiVersion: v1, kind: Pod, metadata: {name: removed}, spec: {nodeName: clean, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], ` + tolerate(limited("gone", "3600")) + `}}`),
					Create(podWith("late", "tolerations: ["+limited("gone", "1")+"]")),
					Create(podWith("late-none", "priority: 0")), Rest(time.Second),
					Patch("nodes", "clean", `{"spec":{"taints":[{"key":"gone","effect":"NoExecute"}]}}`), BindPod("late", "clean"), BindPod("late-none", "clean"),
				},
				append(each(marked, "ended", "was-none", "owned", "lengthened", "was-same", "was-target", "calm"), Gone("pods", "late"), Gone("pods", "late-none"), unmarked("canceled"), unmarked("hurried")),
			},
			{
				"another taint comes, and a pod is deleted", []Action{
					Rest(time.Second), Delete("pods", "removed", metav1.DeletePropagationBackground), Patch("pods", "canceled", `{"spec":{"tolerations":[{"key":"gone","operator":"Exists","effect":"NoExecute","tolerationSeconds":3600},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"more","operator":"Exists"}]}}`),
					Rest(time.Second), Patch("nodes", "clean", `{"spec":{"taints":[{"key":"gone","effect":"NoExecute"},{"key":"more","effect":"NoExecute"}]}}`),
				}, []Condition{marked("hurried"), unmarked("canceled")},
			},
			{
				"taints go", []Action{Rest(time.Second), Patch("nodes", "clean", `{"spec":{"taints":null}}`), Patch("nodes", "one", `{"spec":{"taints":[{"key":"gone","value":"w","effect":"NoExecute"}]}}`)},
				append(each(unmarked, "canceled"), marked("right-value")),
			},
		},
	}
}

// taintedNodes is about nodes that come, go and change while pods wait for their time.
func taintedNodes() Scenario {
	configure, flags := lifecycle(10*time.Minute, nil)
	waits := func(name, node, seconds string) Action {
		return heldPod(name, node, "", "tolerations: [{key: gone, operator: Exists, effect: NoExecute, tolerationSeconds: "+seconds+"}]")
	}
	tainted := func(name string) Action {
		return nodeLike(name, "", "taints: [{key: gone, effect: NoExecute}]")
	}
	return Scenario{
		Name: "tainted-nodes", Bare: true,
		Controllers: bothOfTaints, Configure: configure, Flags: flags,
		Kinds: []schema.GroupVersionResource{nodes, pods},
		Steps: []Step{
			{
				"pods wait, or have no node yet",
				[]Action{
					tainted("a"), tainted("b"), tainted("c"), waits("on-a", "a", "4"), waits("on-b", "b", "3600"), waits("on-c", "c", "3600"), waits("on-late", "late", "1"), heldPod("at-once-on-late", "late", "", ""),
					waits("on-changed", "c", "3600"),
				}, []Condition{Count("pods", "", 6)},
			},
			{
				"nodes go and come",
				[]Action{
					Rest(time.Second), Delete("nodes", "a", metav1.DeletePropagationBackground), Delete("nodes", "b", metav1.DeletePropagationBackground), Rest(time.Second), nodeLike("b", "", ""), tainted("late"),
					Patch("nodes", "c", `{"spec":{"taints":[{"key":"gone","value":"new","effect":"NoExecute"}]}}`),
				}, []Condition{marked("on-a"), marked("on-late"), marked("at-once-on-late"), unmarked("on-b"), unmarked("on-c")},
			},
			{
				"the effect of a taint changes, and a toleration comes",
				[]Action{
					Patch("pods", "on-changed", `{"spec":{"tolerations":[{"key":"gone","operator":"Exists","effect":"NoExecute","tolerationSeconds":3600},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"operator":"Exists"}]}}`),
					Rest(time.Second), Patch("nodes", "c", `{"spec":{"taints":[{"key":"gone","effect":"NoSchedule"}]}}`), Rest(time.Second),
					Patch("nodes", "c", `{"spec":{"taints":[{"key":"gone","effect":"NoSchedule"},{"key":"other","effect":"NoExecute"}]}}`),
				}, []Condition{marked("on-c"), unmarked("on-changed")},
			},
		},
	}
}

// taintNumbers is about tolerations that compare numbers.
func taintNumbers() Scenario {
	configure, flags := lifecycle(10*time.Minute, func(c *manager.Config) {
		c.FeatureGates = map[string]bool{"TaintTolerationComparisonOperators": true}
	})
	pod := func(name, node, operator, value, seconds string) Action {
		return heldPod(name, node, "", fmt.Sprintf("tolerations: [{key: size, operator: %s, value: '%s', effect: NoExecute%s}]", operator, value, seconds))
	}
	sized := func(name, value string) Action {
		return nodeLike(name, "", "taints: [{key: size, value: '"+value+"', effect: NoExecute}]")
	}
	return Scenario{
		Name: "taint-numbers", Bare: true, Controllers: bothOfTaints, Configure: configure, Flags: flags,
		Kinds: []schema.GroupVersionResource{nodes, pods},
		Steps: []Step{
			{
				"pods come to nodes whose taints are numbers, or are not",
				[]Action{
					sized("ten", "10"), sized("word", "ten"), sized("zeros", "010"), sized("large", "9223372036854775808"), sized("empty", ""),
					pod("ten-gt-5", "ten", "Gt", "5", ""), pod("ten-gt-10", "ten", "Gt", "10", ""), pod("ten-gt-11", "ten", "Gt", "11", ""), pod("ten-lt-11", "ten", "Lt", "11", ""), pod("ten-lt-10", "ten", "Lt", "10", ""), pod("ten-gt-minus", "ten", "Gt", "-3", ""),
					pod("ten-gt-1s", "ten", "Gt", "5", ", tolerationSeconds: 1"), pod("word-gt-5", "word", "Gt", "5", ""), pod("zeros-gt-5", "zeros", "Gt", "5", ""), pod("zeros-lt-50", "zeros", "Lt", "50", ""), pod("large-gt-5", "large", "Gt", "5", ""),
					pod("empty-gt-5", "empty", "Gt", "-5", ""), pod("empty-lt-5", "empty", "Lt", "5", ""),
				},
				append(each(marked, "ten-gt-10", "ten-gt-1s", "word-gt-5", "large-gt-5", "empty-gt-5"), each(unmarked, "ten-lt-11")...),
			},
			{"the number changes", []Action{Rest(time.Second), Patch("nodes", "ten", `{"spec":{"taints":[{"key":"size","value":"3","effect":"NoExecute"}]}}`)}, each(marked, "ten-gt-5")},
		},
	}
}
