package faults

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// there is that a condition holds in another namespace than that of the run.
func there(namespace string, condition Condition) Condition {
	return Condition(In(namespace, Check(condition)))
}

// release takes all finalizers from an object that a run before may have left in a namespace that is gone since.
func release(resource, name string) Action {
	return func(ctx context.Context, w *world) error {
		err := unhold(resource, name)(ctx, w)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// namespaceEnds are namespaces that are deleted with content of every kind.
func namespaceEnds() Scenario {
	names := []string{"ends-empty", "ends-held", "ends-pods", "ends-grace", "ends-past", "ends-foreign", "ends-custom", "ends-meta", "ends-many"}
	var create, begin []Action
	for _, name := range names {
		finalizers := ""
		if name == "ends-foreign" {
			finalizers = ", spec: {finalizers: [kubernetes, faults.example.com/z, faults.example.com/a]}"
		}
		metadata := ""
		if name == "ends-meta" {
			metadata = held
		}
		create = append(create, Create(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s%s}%s}", name, metadata, finalizers)))
		begin = append(begin, Delete("namespaces", name, background))
	}
	// pod is a pod on a node, which no kubelet ends.
	pod := func(name, metadata, spec string) Action {
		return Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s%s}, spec: {nodeName: none, %scontainers: [{name: web, image: "web:1"}]}}`, name, metadata, spec))
	}
	fill := []Action{
		In("ends-held", release("configmaps", "two")), In("ends-grace", release("configmaps", "waits")),
		In("ends-held", CreateAll(heldMap("one"), heldMap("two"), configMap("free"),
			"{apiVersion: v1, kind: Secret, metadata: {name: three, finalizers: [faults.example.com/hold, faults.example.com/more]}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: four"+held+"}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}",
			serviceOf("five", held, "ports: [{port: 80}]"),
		)),
		In("ends-pods", InTurn(pod("held", held, "terminationGracePeriodSeconds: 0, "), pod("free", "", "terminationGracePeriodSeconds: 0, "), Create(configMap("waits")))),
		In("ends-grace", InTurn(pod("long", "", "terminationGracePeriodSeconds: 300, "), pod("short", "", "terminationGracePeriodSeconds: 1, "), Create(heldMap("waits")))),
		In("ends-past", InTurn(pod("past", "", "terminationGracePeriodSeconds: 1, "), Create(configMap("waits")))),
		In("ends-foreign", Create(configMap("free"))),
		In("ends-custom", CreateAll(custom("Widget", "one", held), custom("Widget", "two", held), custom("Widget", "free", ""))),
		In("ends-meta", Create(configMap("free"))),
		In("ends-many", CreateAll(
			configMap("a"), "{apiVersion: v1, kind: Secret, metadata: {name: a}}", serviceOf("a", "", "ports: [{port: 80}]"), own("b", "", "{addresses: [{ip: 192.0.2.1}]}"),
			"{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {pods: 0}}}", "{apiVersion: v1, kind: LimitRange, metadata: {name: a}, spec: {limits: []}}",
			"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}",
			"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}}", custom("Widget", "a", ""),
			"{apiVersion: v1, kind: Event, metadata: {name: a}, involvedObject: {namespace: ends-many}}",
		)),
	}
	condition := func(name, kind, field, want string) Condition {
		return Has("namespaces", name, "{.status.conditions[?(@.type=='"+kind+"')]."+field+"}", want)
	}
	remaining := func(name, content, finalizers string) []Condition {
		return []Condition{condition(name, "NamespaceContentRemaining", "message", content), condition(name, "NamespaceFinalizersRemaining", "message", finalizers)}
	}
	const some, in = "Some resources are remaining: ", "Some content in the namespace has finalizers remaining: faults.example.com/hold in "
	return Scenario{
		Name:        "namespaces",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.Namespace.Enabled} },
		Before:      []Action{widgets},
		Kinds:       []schema.GroupVersionResource{namespaces},
		Steps: []Step{
			{
				"create namespaces, and delete them",
				append(append(create, fill...), begin...),
				append(append(append(append([]Condition{
					condition("ends-grace", "NamespaceDeletionContentFailure", "status", "False"), // as long as the pods may take
					Gone("namespaces", "ends-empty"), Gone("namespaces", "ends-many"), Has("namespaces", "ends-meta", "{.spec.finalizers}", ""), there("ends-meta", Gone("configmaps", "free")),
					Has("namespaces", "ends-foreign", "{.spec.finalizers[*]}", "faults.example.com/a faults.example.com/z"),
					condition("ends-past", "NamespaceDeletionContentFailure", "status", "True"),
					condition("ends-pods", "NamespaceDeletionContentFailure", "status", "False"),
				},
					remaining("ends-held", some+"configmaps. has 2 resource instances, deployments.apps has 1 resource instances, secrets. has 1 resource instances, services. has 1 resource instances", in+"5 resource instances, faults.example.com/more in 1 resource instances")...),
					remaining("ends-custom", some+"widgets.faults.example.com has 2 resource instances", in+"2 resource instances")...),
					there("ends-pods", Gone("pods", "free"))), there("ends-held", Gone("configmaps", "free")), there("ends-pods", Has("configmaps", "waits", "{.metadata.name}", "waits"))),
			},
			{
				"let go of what is held, and end pods",
				[]Action{
					In("ends-held", unhold("configmaps", "one")), In("ends-held", unhold("secrets", "three")),
					In("ends-held", unhold("deployments", "four")), In("ends-held", unhold("services", "five")),
					In("ends-custom", unhold("widgets.faults.example.com", "one")), In("ends-custom", unhold("widgets.faults.example.com", "two")),
					In("ends-pods", unhold("pods", "held")), In("ends-past", End("past")), In("ends-grace", End("long")), In("ends-grace", End("short")),
					Patch("namespaces", "ends-foreign", `{"metadata":{"labels":{"more":"labels"}}}`), unhold("namespaces", "ends-meta"),
					Patch("namespaces", "ends-grace", `{"metadata":{"labels":{"more":"labels"}}}`), // the next pass would come when its pods may have ended
				},
				append(append(append([]Condition{Gone("namespaces", "ends-custom"), Gone("namespaces", "ends-pods"), Gone("namespaces", "ends-past"), Gone("namespaces", "ends-meta")},
					remaining("ends-held", some+"configmaps. has 1 resource instances", in+"1 resource instances")...),
					remaining("ends-grace", some+"configmaps. has 1 resource instances", in+"1 resource instances")...), idle(time.Second)),
			},
		},
	}
}
