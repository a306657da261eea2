package faults

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stones defines a kind that has been stored in another version than it is now.
const stones = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.NAMESPACE.example.com}
spec:
  group: NAMESPACE.example.com
  scope: %[3]s
  names: {plural: %[1]s, singular: %[2]s, kind: %[4]s, listKind: %[4]sList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// PatchDefinition changes the definition of a resource of the run's group.
func PatchDefinition(resource, patch string) Action {
	return func(ctx context.Context, w *world) error {
		return Patch("customresourcedefinitions", resource+"."+w.namespace+".example.com", patch)(ctx, w)
	}
}

// touch writes to a resource of the run's group: a migration waits for a cache that is newer than it.
func touch(ctx context.Context, w *world, resource, kind string) error {
	group := w.namespace + ".example.com"
	o := fmt.Sprintf("{apiVersion: %s/v2, kind: %s, metadata: {name: touched}}", group, kind)
	if err := Create(o)(ctx, w); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return Forget(resource+"."+group, "touched")(ctx, w)
}

// refused is that the API server refuses updates of a ConfigMap of the run, as the policy of the scenario wants.
func refused(ctx context.Context, w *world) error {
	_, err := w.admin.CoreV1().ConfigMaps(w.namespace).Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fixed"}}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil {
		return errors.New("the API server does not know the policy yet")
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func migrationCorners() Scenario {
	const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: faults-fixed}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps]}
    - {apiGroups: [NAMESPACE.example.com], apiVersions: ["*"], operations: [UPDATE], resources: [pebbles]}
  validations: [{expression: "object.metadata.name != 'fixed'", message: it is fixed}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: faults-fixed}
spec: {policyName: faults-fixed, validationActions: [Deny]}
`
	migrate := func(name, group, resource string) Action {
		return Create(fmt.Sprintf("{apiVersion: storagemigration.k8s.io/v1beta1, kind: StorageVersionMigration, metadata: {name: %s}, spec: {resource: {group: %q, resource: %s}}}", name, group, resource))
	}
	// ended is that a migration has ended, well or not. Until then the resources are written to.
	ended := func(name, how string) Condition {
		return func(ctx context.Context, w *world) error {
			for resource, kind := range map[string]string{"stones": "Stone", "pebbles": "Pebble", "rocks": "Rock"} {
				if err := touch(ctx, w, resource, kind); err != nil {
					return err
				}
			}
			configMaps := w.admin.CoreV1().ConfigMaps("default")
			touched, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "touch-"}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if err := configMaps.Delete(ctx, touched.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			return Has("storageversionmigrations", name, "{.status.conditions[?(@.type=='"+how+"')].status}", "True", "{.status.conditions[?(@.type=='Running')].status}", "False")(ctx, w)
		}
	}
	const group = "NAMESPACE.example.com"
	base := storageVersionMigrator()
	inV2 := `{"spec":{"versions":[{"name":"v1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},{"name":"v2","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	define := func(resource, singular, scope, kind string) Action {
		return Create(fmt.Sprintf(stones, resource, singular, scope, kind))
	}
	object := func(kind, name string) Action {
		create := Create(fmt.Sprintf("{apiVersion: NAMESPACE.example.com/v1, kind: %s, metadata: {name: %s}, spec: {x: y}}", kind, name))
		return Repeat(func(ctx context.Context, w *world) error {
			err := create(ctx, w)
			if err != nil {
				meta.MaybeResetRESTMapper(w.mapper) // it is from before the definition
			}
			return err
		})
	}
	stored := func(resource, want string) Condition {
		return func(ctx context.Context, w *world) error {
			return Has("customresourcedefinitions", resource+"."+w.namespace+".example.com", "{.status.storedVersions[*]}", want)(ctx, w)
		}
	}
	return Scenario{
		Name:        "storage-migrations",
		Bare:        true,
		Controllers: base.Controllers,
		Configure:   base.Configure,
		Kinds:       []schema.GroupVersionResource{migrations, definitions, policies, policyBindings},
		Differs: map[string]string{
			`^customresourcedefinitions/pebbles\.NAMESPACE\.example\.com differs: \.status\.storedVersions\[0\] is "v1" instead of "v2", \.status\.storedVersions\[1\] is "v2" instead of ""$`: "SVM-60",
		},
		Before: []Action{
			define("stones", "stone", "Namespaced", "Stone"), define("pebbles", "pebble", "Namespaced", "Pebble"), define("rocks", "rock", "Cluster", "Rock"),
			object("Stone", "a"), object("Stone", "b"), object("Pebble", "fixed"), object("Rock", "a"),
			PatchDefinition("stones", inV2), PatchDefinition("pebbles", inV2), PatchDefinition("rocks", inV2),
			Repeat(Action(stored("rocks", "v1 v2"))),
			Create("{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}}"), Create(policy), Repeat(refused),
		},
		Steps: []Step{
			{
				"migrate what cannot be migrated",
				[]Action{
					migrate("components", "", "componentstatuses"), migrate("reviews", "authorization.k8s.io", "subjectaccessreviews"), migrate("bindings", "", "bindings"), migrate("fixed", "", "configmaps"),
				},
				[]Condition{ended("components", "Failed"), ended("reviews", "Failed"), ended("fixed", "Failed"), ended("bindings", "Failed")},
			},
			{
				"migrate custom resources",
				[]Action{migrate("stones", group, "stones"), migrate("pebbles", group, "pebbles"), migrate("rocks", group, "rocks")},
				[]Condition{ended("stones", "Succeeded"), ended("pebbles", "Failed"), ended("rocks", "Succeeded"), stored("stones", "v2"), stored("rocks", "v2")},
			},
			{
				"migrate them twice again, and delete a migration",
				[]Action{migrate("stones-2", group, "stones"), migrate("stones-3", group, "stones"), Delete("storageversionmigrations", "rocks", metav1.DeletePropagationBackground)},
				[]Condition{ended("stones-2", "Succeeded"), ended("stones-3", "Succeeded")},
			},
		},
	}
}
