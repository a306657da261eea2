package faults

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"kcmd.dev/test/manager"
)

// owner is what an owner reference says: of an object that exists, unless it has a UID.
type owner struct {
	resource, name string
	blocks         bool
	// uid and kind are other ones than those of the object, if they are not empty.
	uid, kind string
	// version is another one than that of the object, if it is not empty.
	version string
	// in is the namespace of the object if it is another one.
	in string
}

// CreateOwnedBy creates an object of a YAML text that has owners.
func CreateOwnedBy(text string, owners ...owner) Action {
	return func(ctx context.Context, w *world) error {
		references, err := referencesTo(ctx, w, owners)
		if err != nil {
			return err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(w.fill(text)), o); err != nil {
			return fmt.Errorf("decoding %s: %w", text, err)
		}
		o.SetOwnerReferences(references)
		whole, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", text, err)
		}
		return Create(string(whole))(ctx, w)
	}
}

// SetOwners gives an object other owners.
func SetOwners(resource, name string, owners ...owner) Action {
	return func(ctx context.Context, w *world) error {
		references, err := referencesTo(ctx, w, owners)
		if err != nil {
			return err
		}
		patch, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": references}})
		if err != nil {
			return fmt.Errorf("encoding owners of %s: %w", name, err)
		}
		asJSON, err := yaml.YAMLToJSON(patch)
		if err != nil {
			return fmt.Errorf("encoding owners of %s: %w", name, err)
		}
		return Patch(resource, name, string(asJSON))(ctx, w)
	}
}

func referencesTo(ctx context.Context, w *world, owners []owner) ([]metav1.OwnerReference, error) {
	var references []metav1.OwnerReference
	for _, one := range owners {
		reference := metav1.OwnerReference{APIVersion: one.version, Kind: one.kind, Name: one.name, UID: "00000000-0000-4000-8000-000000000000"}
		if one.uid == "" {
			at := &world{client: w.client, mapper: w.mapper, namespace: cmp.Or(one.in, w.namespace)}
			client, err := at.of(one.resource)
			if err != nil {
				return nil, err
			}
			o, err := client.Get(ctx, one.name, metav1.GetOptions{})
			if err != nil {
				return nil, err
			}
			reference.UID = o.GetUID()
			if one.kind == "" {
				reference.Kind = o.GetKind()
			}
			if one.version == "" {
				reference.APIVersion = o.GetAPIVersion()
			}
		}
		if one.blocks {
			blocks := true
			reference.BlockOwnerDeletion = &blocks
		}
		references = append(references, reference)
	}
	return references, nil
}

// widgets are custom resources, which stay until the control plane ends: Widgets of a namespace, and Gadgets without.
var widgets = InTurn(definition("Widget", "widgets", "Namespaced"), definition("Gadget", "gadgets", "Cluster"))

func definition(kind, plural, scope string) Action {
	text := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.faults.example.com}
spec:
  group: faults.example.com
  names: {kind: %[1]s, plural: %[2]s}
  scope: %[3]s
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, kind, plural, scope)
	return func(ctx context.Context, w *world) error {
		if err := Create(text)(ctx, w); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return Repeat(func(ctx context.Context, w *world) error {
			if _, err := w.client.Resource(schema.GroupVersionResource{Group: "faults.example.com", Version: "v1", Resource: plural}).List(ctx, metav1.ListOptions{}); err != nil {
				return err
			}
			_, err := w.of(plural + ".faults.example.com")
			if err != nil {
				meta.MaybeResetRESTMapper(w.mapper) // it is from before the definition
			}
			return err
		})(ctx, w)
	}
}

// custom is a custom object of a name, with further metadata.
func custom(kind, name, metadata string) string {
	return fmt.Sprintf("{apiVersion: faults.example.com/v1, kind: %s, metadata: {name: %s%s}}", kind, name, metadata)
}

// heldMap is a ConfigMap that somebody holds.
func heldMap(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s%s}}", name, held)
}

// ofMap is an owner that is a ConfigMap.
func ofMap(name string) owner { return owner{resource: "configmaps", name: name} }

// blocking is an owner that is a ConfigMap, and waits for its dependent in foreground deletion.
func blocking(name string) owner { return owner{resource: "configmaps", name: name, blocks: true} }

// absent is an owner that does not exist.
func absent(version, kind, name string) owner {
	return owner{version: version, kind: kind, name: name, uid: "none"}
}

// ownerReferences have owners of every kind.
func ownerReferences() Scenario {
	role := func(name string) string {
		return "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: " + name + "}, rules: []}"
	}
	owned := func(name string, owners ...owner) Action { return CreateOwnedBy(configMap(name), owners...) }
	ownedHeld := func(name string, owners ...owner) Action { return CreateOwnedBy(heldMap(name), owners...) }
	gone := func(names ...string) (all []Condition) {
		for _, name := range names {
			all = append(all, Gone("configmaps", name))
		}
		return all
	}
	const autoscaler = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: scaler}, spec: {maxReplicas: 2, scaleTargetRef: {kind: Deployment, name: none, apiVersion: apps/v1}}}"
	return Scenario{
		Name:        "owners",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.GarbageCollector.Enabled} },
		Before:      []Action{widgets, Forget("gadgets.faults.example.com", "gadget"), Forget("gadgets.faults.example.com", "of-gadget"), In("default", Forget("configmaps", "elsewhere"))},
		Kinds:       []schema.GroupVersionResource{configMaps, secrets, clusterRoles, autoscalers},
		Steps: []Step{
			{
				"create owners that exist, and some that do not",
				[]Action{
					CreateAll(
						configMap("stays"), configMap("back"), configMap("fore"), configMap("fore-two"), configMap("left"), heldMap("held"), heldMap("fore-held"), heldMap("left-held"), configMap("changed"),
						role("owner-role"), autoscaler, custom("Widget", "widget", ""), custom("Gadget", "gadget", ""),
						"{apiVersion: v1, kind: Secret, metadata: {name: stays}}",
					),
					In("default", Create(configMap("elsewhere"))),
					owned("of-absent", absent("v1", "ConfigMap", "absent")),
					owned("of-absent-two", absent("v1", "ConfigMap", "absent"), absent("v1", "Secret", "absent")),
					ownedHeld("of-absent-held", absent("v1", "ConfigMap", "absent")),
					owned("of-absent-and-stays", absent("v1", "ConfigMap", "absent"), ofMap("stays")),
					owned("of-of-absent", absent("v1", "ConfigMap", "of-absent"), ofMap("of-absent-and-stays")),
					owned("of-stays-other-uid", absent("v1", "ConfigMap", "stays")),
					owned("of-other-kind", owner{resource: "configmaps", name: "stays", kind: "Secret"}),
					owned("of-unknown-kind", absent("v1", "Unknown", "stays")),
					owned("of-unknown-group", absent("unknown.example.com/v1", "Unknown", "stays")),
					owned("of-unknown-version", absent("apps/v1beta1", "Deployment", "stays")),
					owned("of-unknown-and-absent", absent("unknown.example.com/v1", "Unknown", "stays"), absent("v1", "ConfigMap", "absent")),
					owned("of-elsewhere", owner{resource: "configmaps", name: "elsewhere", in: "default"}),
					ownedHeld("of-elsewhere-held", owner{resource: "configmaps", name: "elsewhere", in: "default"}),
					owned("of-elsewhere-and-stays", owner{resource: "configmaps", name: "elsewhere", in: "default"}, ofMap("stays")),
					CreateOwnedBy(role("of-namespaced"), ofMap("stays")),
					CreateOwnedBy(role("of-role"), owner{resource: "clusterroles", name: "owner-role"}),
					CreateOwnedBy(role("of-absent-role"), absent("rbac.authorization.k8s.io/v1", "ClusterRole", "absent")),
					owned("map-of-role", owner{resource: "clusterroles", name: "owner-role", blocks: true}),
					owned("of-scaler", owner{resource: "horizontalpodautoscalers", name: "scaler", version: "autoscaling/v1"}),
					owned("of-widget", owner{resource: "widgets.faults.example.com", name: "widget", blocks: true}),
					owned("of-widget-beta", owner{resource: "widgets.faults.example.com", name: "widget", version: "faults.example.com/v1beta1"}),
					owned("of-gadget", owner{resource: "gadgets.faults.example.com", name: "gadget"}),
					CreateOwnedBy(custom("Widget", "of-map", ""), ofMap("back")),
					CreateOwnedBy(custom("Widget", "of-absent", ""), absent("v1", "ConfigMap", "absent")),
					CreateOwnedBy(custom("Widget", "of-absent-and-stays", ""), absent("v1", "ConfigMap", "absent"), ofMap("stays")),
					CreateOwnedBy(custom("Gadget", "of-gadget", ""), owner{resource: "gadgets.faults.example.com", name: "gadget"}),
					CreateOwnedBy(custom("Widget", "of-left", ""), ofMap("left")),
					owned("of-back", ofMap("back")), owned("of-of-back", ofMap("of-back")), ownedHeld("of-back-held", ofMap("back")), owned("of-of-back-held", ofMap("of-back-held")),
					owned("of-back-and-stays", blocking("back"), ofMap("stays")),
					owned("of-held", ofMap("held")),
					owned("of-fore", blocking("fore")), owned("of-of-fore", blocking("of-fore")), owned("of-fore-free", ofMap("fore")), ownedHeld("of-fore-held", blocking("fore")),
					owned("of-fore-and-stays", blocking("fore"), ofMap("stays")),
					ownedHeld("of-fore-two-free", ofMap("fore-two")),
					ownedHeld("of-fore-of-held", blocking("fore-held")),
					owned("of-left-one", blocking("left")), owned("of-left-two", ofMap("left"), ofMap("stays")), owned("of-of-left", ofMap("of-left-one")),
					owned("of-left-held", ofMap("left-held")),
					owned("of-changed", ofMap("changed")), owned("of-changed-later", ofMap("stays")),
				},
				append(gone("of-absent", "of-absent-two", "of-stays-other-uid", "of-other-kind", "of-elsewhere"),
					Gone("clusterroles", "of-absent-role"), Gone("widgets.faults.example.com", "of-absent"),
					Has("widgets.faults.example.com", "of-absent-and-stays", "{.metadata.ownerReferences[*].name}", "stays"),
					Has("configmaps", "of-absent-and-stays", "{.metadata.ownerReferences[*].name}", "stays"),
					Has("configmaps", "of-elsewhere-and-stays", "{.metadata.ownerReferences[*].name}", "stays"), idle(2*time.Second)),
			},
			{
				"delete owners in every way",
				[]Action{
					Delete("configmaps", "back", background), Delete("configmaps", "held", background),
					Delete("configmaps", "fore", metav1.DeletePropagationForeground), Delete("configmaps", "fore-two", metav1.DeletePropagationForeground),
					Delete("configmaps", "fore-held", metav1.DeletePropagationForeground),
					Delete("configmaps", "left", metav1.DeletePropagationOrphan), Delete("configmaps", "left-held", metav1.DeletePropagationOrphan),
					Delete("clusterroles", "owner-role", metav1.DeletePropagationForeground),
					Delete("horizontalpodautoscalers", "scaler", background),
					Delete("widgets.faults.example.com", "widget", metav1.DeletePropagationForeground), Delete("gadgets.faults.example.com", "gadget", background),
					SetOwners("configmaps", "of-changed"), Delete("configmaps", "changed", background),
					SetOwners("configmaps", "of-changed-later", absent("v1", "ConfigMap", "absent"), ofMap("stays")),
				},
				append(gone("back", "of-of-back", "of-fore-free", "of-of-fore", "fore-two", "left", "of-scaler", "of-widget", "of-widget-beta", "of-gadget", "map-of-role"),
					Gone("clusterroles", "of-role"), Gone("clusterroles", "owner-role"), Gone("widgets.faults.example.com", "widget"), Gone("widgets.faults.example.com", "of-map"),
					Gone("gadgets.faults.example.com", "of-gadget"), Has("widgets.faults.example.com", "of-left", "{.metadata.ownerReferences}", ""),
					Has("configmaps", "left-held", "{.metadata.finalizers[*]}", "faults.example.com/hold"), idle(2*time.Second)),
			},
			{
				"let go of what is held",
				[]Action{
					SetOwners("configmaps", "of-fore-held", ofMap("fore")), unhold("configmaps", "of-back-held"), unhold("configmaps", "of-fore-of-held"),
					unhold("configmaps", "held"), unhold("configmaps", "left-held"),
				},
				append(gone("fore", "of-of-back-held", "of-held", "held", "left-held"), Has("configmaps", "fore-held", "{.metadata.finalizers[*]}", "faults.example.com/hold"), idle(2*time.Second)),
			},
			{
				"delete what was left, and own in a circle",
				[]Action{
					unhold("configmaps", "of-elsewhere-held"), unhold("configmaps", "of-absent-held"), unhold("configmaps", "fore-held"),
					In("default", Delete("configmaps", "elsewhere", background)),
					CreateAll(configMap("circle-a"), configMap("self")), SetOwners("configmaps", "self", ofMap("self")), Delete("configmaps", "self", metav1.DeletePropagationForeground),
					owned("circle-b", blocking("circle-a")), SetOwners("configmaps", "circle-a", blocking("circle-b")),
					Delete("configmaps", "circle-a", metav1.DeletePropagationForeground),
					Delete("configmaps", "of-left-one", metav1.DeletePropagationForeground), Delete("secrets", "stays", background),
				},
				append(gone("fore-held", "self", "circle-a", "circle-b", "of-of-left", "of-elsewhere-held", "of-absent-held"), idle(time.Second)),
			},
		},
	}
}
