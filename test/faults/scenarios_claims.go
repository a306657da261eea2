package faults

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/manager"
)

var (
	volumeClaims           = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	resourceClaims         = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	resourceClaimTemplates = resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates")
)

// claimScenarios are those of the controllers of what pods claim.
func claimScenarios() []Scenario {
	return []Scenario{ephemeralVolume(), claimProtection(), resourceClaim()}
}

// podWith is a pod of a name without a node, with more in its spec.
func podWith(name, more string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {schedulerName: nobody, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], %s}}`, name, more)
}

// volumeClaim is a claim of a name, which nobody binds.
func volumeClaim(name string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s}, spec: {%s}}", name, volumeClaimSpec)
}

const volumeClaimSpec = "storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"

func ephemeralVolume() Scenario {
	const volume = "{name: %s, ephemeral: {volumeClaimTemplate: {metadata: {labels: {of: %s}}, spec: {" + volumeClaimSpec + "}}}}"
	pod := Create(podWith("web", "volumes: ["+fmt.Sprintf(volume, "data", "data")+", "+fmt.Sprintf(volume, "cache", "cache")+"]"))
	claimed := []Condition{OwnedBy("web", "persistentvolumeclaims", "web-data"), OwnedBy("web", "persistentvolumeclaims", "web-cache")}
	return Scenario{
		Name: "ephemeralvolume",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.EphemeralVolume.Enabled, &c.Controllers.PersistentVolumeClaimProtection.Enabled}
		},
		Kinds:  []schema.GroupVersionResource{pods, volumeClaims},
		Beside: []func(context.Context, *world) error{collect(volumeClaims)},
		AtMost: map[string]int{"persistentvolumeclaims/web-data": 1, "persistentvolumeclaims/web-cache": 1},
		// A cache of pods that is behind has a claim of the first pod made once more, which is collected too.
		Spare: map[string]int{"persistentvolumeclaims/web-data": 2, "persistentvolumeclaims/web-cache": 2},
		// Which of the claims of the first pod the second one meets depends on when they are collected.
		Differs: map[string]string{`: event of ephemeral_volume about .* FailedBinding: .*\(pod is not owner\)`: "EPHV-18"},
		Steps: []Step{
			{"create a pod", []Action{pod}, claimed},
			{"delete a claim", []Action{Delete("persistentvolumeclaims", "web-data", metav1.DeletePropagationBackground)}, claimed},
			{"delete the pod", []Action{Delete("pods", "web", metav1.DeletePropagationBackground)}, []Condition{Gone("pods", "web")}},
			{"create it again", []Action{pod}, claimed},
		},
	}
}

// collect deletes objects of a kind whose pod is gone, as the garbage collector does. It comes when caches that are
// behind have caught up: what is made for such a pod until then is not collected over and over.
func collect(kind schema.GroupVersionResource) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error {
		ticker := time.NewTicker(removal / 10)
		defer ticker.Stop()
		since := map[types.UID]time.Time{}
		for {
			select {
			case <-ticker.C:
				collectOnce(ctx, w, kind, since)
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// collectOnce deletes those that have been orphans for long enough, and notes since when the others have.
func collectOnce(ctx context.Context, w *world, kind schema.GroupVersionResource, since map[types.UID]time.Time) {
	client := w.client.Resource(kind).Namespace(w.namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the next round looks again
	}
	for i := range list.Items {
		o := &list.Items[i]
		if !isOrphan(ctx, w, o) {
			continue
		}
		if _, known := since[o.GetUID()]; !known {
			since[o.GetUID()] = time.Now()
		}
		if time.Since(since[o.GetUID()]) > 2*staleFor {
			_ = client.Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.GetUID()))})
		}
	}
}

// isOrphan reports whether the pod that controls an object is gone.
func isOrphan(ctx context.Context, w *world, o *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(o)
	if owner == nil || o.GetDeletionTimestamp() != nil {
		return false
	}
	pod, err := w.client.Resource(pods).Namespace(w.namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && pod.GetUID() != owner.UID
}

func claimProtection() Scenario {
	const finalizer = "kubernetes.io/pvc-protection"
	user := Create(`{apiVersion: v1, kind: Pod, metadata: {name: user}, spec: {nodeName: node-0, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}],
  volumes: [{name: used, persistentVolumeClaim: {claimName: used}}]}}`)
	isProtected := func(name string) Condition {
		return Has("persistentvolumeclaims", name, "{.metadata.finalizers[*]}", finalizer)
	}
	remove := func(name string) Action {
		return Delete("persistentvolumeclaims", name, metav1.DeletePropagationBackground)
	}
	return Scenario{
		Name: "pvcprotection",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.PersistentVolumeClaimProtection.Enabled}
		},
		Kinds: []schema.GroupVersionResource{pods, volumeClaims},
		Steps: []Step{
			{
				"create claims and a pod that uses one",
				[]Action{Create(volumeClaim("used") + "\n---\n" + volumeClaim("unused") + "\n---\n" + volumeClaim("kept")), user},
				[]Condition{isReady("user")},
			},
			{"take a finalizer off", []Action{Patch("persistentvolumeclaims", "kept", `{"metadata":{"finalizers":null}}`)}, []Condition{isProtected("kept")}},
			{"delete claims", []Action{remove("used"), remove("unused")}, []Condition{Gone("persistentvolumeclaims", "unused"), isProtected("used")}},
			{"end the pod", []Action{Delete("pods", "user", metav1.DeletePropagationBackground)}, []Condition{Gone("persistentvolumeclaims", "used")}},
			{"create a claim again under the name, and use it", []Action{Create(volumeClaim("used")), user}, []Condition{isReady("user")}},
			{"delete the claim while it is in use", []Action{remove("used")}, []Condition{isProtected("used")}},
		},
	}
}

func resourceClaim() Scenario {
	const spec = "{devices: {requests: [{name: device, exactly: {deviceClassName: none}}]}}"
	const made = "resourceclaims"
	pod := Create(podWith("web", "resourceClaims: [{name: device, resourceClaimTemplateName: one}]"))
	recorded := []Condition{ClaimRecorded("web"), Count(made, "of=template", 1)}
	// shares is a pod that bypasses the scheduler.
	shares := func(name string) Action {
		return Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: ghost, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], resourceClaims: [{name: s, resourceClaimName: shared}]}}`, name))
	}
	reserved := func(names string) []Condition {
		return []Condition{Values(made, "!of", "{.status.reservedFor[*].name}", names)}
	}
	return Scenario{
		Name:        "resourceclaim",
		Stalls:      "RCLM-50", // upstream takes a claim that it has created to exist for an hour
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ResourceClaim.Enabled} },
		Kinds:       []schema.GroupVersionResource{pods, resourceClaims, resourceClaimTemplates},
		Beside:      []func(context.Context, *world) error{collect(resourceClaims)},
		AtMost:      map[string]int{"resourceclaims/web-device-*": 1},
		// A cache of pods that is behind has a claim made for a pod that has ended.
		Spare: map[string]int{"resourceclaims/web-device-*": 1},
		Steps: []Step{
			{
				"create a pod whose claim is made of a template",
				[]Action{
					Create("{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {metadata: {labels: {of: template}}, spec: " + spec + "}}"),
					pod,
				},
				recorded,
			},
			{"delete the claim", []Action{DeleteOne(made, "of=template")}, recorded},
			{
				"share a claim that is allocated",
				[]Action{
					Create("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: shared, finalizers: [resource.kubernetes.io/delete-protection]}, spec: " + spec + "}"),
					PatchStatus(made, "shared", `{"status":{"allocation":{"devices":{"results":[{"request":"device","driver":"faults.kcmd.dev","pool":"pool","device":"device-0"}]}}}}`),
					shares("a"), shares("b"),
				},
				reserved("a b"),
			},
			{"lose a pod", []Action{Delete("pods", "a", metav1.DeletePropagationBackground)}, reserved("b")},
			{"end a pod", []Action{PatchStatus("pods", "b", `{"status":{"phase":"Succeeded"}}`)}, append(reserved(""), Has(made, "shared", "{.status.allocation}", ""))},
			{"end the pod with a claim of its own", []Action{PatchStatus("pods", "web", `{"status":{"phase":"Succeeded"}}`)}, []Condition{Count(made, "of=template", 0)}},
			// Its status still names the claim, which had another name in each run.
			{"delete that pod", []Action{Delete("pods", "web", metav1.DeletePropagationBackground)}, []Condition{Gone("pods", "web")}},
			// A finalizer that could not be taken off a claim that is free stays until the claim is deleted, RCLM-26.
			{"delete the claim that was shared", []Action{Delete(made, "shared", metav1.DeletePropagationBackground)}, []Condition{Gone(made, "shared")}},
		},
	}
}
