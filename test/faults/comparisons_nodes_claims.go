package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

const anyDevice = "{devices: {requests: [{name: device, exactly: {deviceClassName: none}}]}}"

// claimTemplate creates a template of claims with metadata for them.
func claimTemplate(name, metadata string) Action {
	return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: %s}, spec: {metadata: {%s}, spec: %s}}", name, metadata, anyDevice))
}

// deviceClaim creates a claim with further metadata.
func deviceClaim(name, metadata string) Action {
	return Create(fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s, %s}, spec: %s}", name, metadata, anyDevice))
}

// ownedClaim creates a claim whose controller is a pod.
func ownedClaim(name, pod, annotations string) Action {
	return func(ctx context.Context, w *world) error {
		owner, err := w.admin.CoreV1().Pods(w.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return deviceClaim(name, fmt.Sprintf("annotations: {%s}, ownerReferences: [{apiVersion: v1, kind: Pod, name: %s, uid: %s, controller: true}]", annotations, pod, owner.UID))(ctx, w)
	}
}

// allocate does what the scheduler does: a claim, which no pod uses that it does not name, gets a device.
func allocate(claim string, pods ...string) Action {
	return func(ctx context.Context, w *world) error {
		claims := w.admin.ResourceV1().ResourceClaims(w.namespace)
		o, err := claims.Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "device", Driver: csiDriver, Pool: devicePool, Device: "device-0"},
		}}}
		for _, name := range pods {
			pod, err := w.admin.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			o.Status.ReservedFor = append(o.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: pod.UID})
		}
		_, err = claims.UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	}
}

const claimFinalizer = "finalizers: [resource.kubernetes.io/delete-protection]"

// claimsOf is that the status of a pod records claims for these entries, which are in order.
func claimsOf(pod, entries string) Condition {
	return func(ctx context.Context, w *world) error {
		o, err := w.admin.CoreV1().Pods(w.namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var names []string
		for _, s := range o.Status.ResourceClaimStatuses {
			if s.ResourceClaimName != nil {
				names = append(names, s.Name)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != entries {
			return fmt.Errorf("the claims of %s are %q, want %q", pod, got, entries)
		}
		return nil
	}
}

func onlyClaims(c *manager.Config) []**bool { return []**bool{&c.Controllers.ResourceClaim.Enabled} }

// claimsMade is about claims that are made of templates.
func claimsMade() Scenario {
	const one = "resourceClaims: [{name: device, resourceClaimTemplateName: plain}]"
	long, longEntry := strings.Repeat("pod-name-", 6)+"pod", strings.Repeat("entry-name-", 5)+"entry"
	return Scenario{
		Name: "claims-made", Bare: true, Controllers: onlyClaims,
		Kinds: []schema.GroupVersionResource{pods, resourceClaims, resourceClaimTemplates},
		Before: []Action{
			claimTemplate("plain", ""), claimTemplate("labeled", "labels: {of: labeled, more: x}, annotations: {note: text, resource.kubernetes.io/pod-claim-name: other}"),
			Create(podWith("unneeded", one)), PatchStatus("pods", "unneeded", `{"status":{"resourceClaimStatuses":[{"name":"device"}]}}`),
			Create(podWith("adopts", one)), ownedClaim("made-before", "adopts", "resource.kubernetes.io/pod-claim-name: device"),
			Create(podWith("foreign", one)), deviceClaim("foreign-device", "annotations: {resource.kubernetes.io/pod-claim-name: device}"), ownedClaim("no-annotation", "foreign", ""),
			Create(podWith("lost", one)), PatchStatus("pods", "lost", `{"status":{"resourceClaimStatuses":[{"name":"device","resourceClaimName":"lost-device-none"}]}}`),
		},
		Steps: []Step{
			{
				"pods of all kinds come",
				[]Action{
					Create(podWith("web", one)), Create(podWith("labeled", "resourceClaims: [{name: device, resourceClaimTemplateName: labeled}]")),
					Create(podWith("several", "resourceClaims: [{name: a, resourceClaimTemplateName: plain}, {name: own, resourceClaimName: own}, {name: b, resourceClaimTemplateName: labeled}]")),
					Create(podWith("missing", "resourceClaims: [{name: a, resourceClaimTemplateName: plain}, {name: b, resourceClaimTemplateName: none}, {name: c, resourceClaimTemplateName: plain}]")),
					Create(podWith(long, "resourceClaims: [{name: device, resourceClaimTemplateName: plain}, {name: "+longEntry+", resourceClaimTemplateName: plain}]")),
					Create(podWith("with.dots", one)), Patch("pods", "with.dots", `{"metadata":{"finalizers":["faults.kcmd.dev/hold"]}}`),
					Create(podWith("names-missing", "resourceClaims: [{name: own, resourceClaimName: not-there}]")), Create(podWith("unused", "priority: 0")),
					podAt("bound", "ghost", "  "+one),
				},
				[]Condition{
					claimsOf("web", "device"), claimsOf("labeled", "device"), claimsOf("several", "a b"), claimsOf(long, "device "+longEntry), claimsOf("with.dots", "device"), claimsOf("bound", "device"),
					claimsOf("adopts", "device"), claimsOf("foreign", "device"), Count("resourceclaims", "", 14),
				},
			},
			{
				// Pods that have ended go before another manager comes: upstream's would make claims for them again (RCLM-30).
				"a template comes, and pods end",
				[]Action{
					claimTemplate("none", ""), SetPhase("web", "Succeeded"), SetPhase("labeled", "Failed"), deletes("pods", "with.dots"), SetPhase("unneeded", "Succeeded"),
					Repeat(Action(All(claimsOf("missing", "a b c"), Count("resourceclaims", "of=labeled", 1), Count("resourceclaims", "", 13)))),
					Patch("pods", "with.dots", `{"metadata":{"finalizers":null}}`), deletes("pods", "web", "labeled"),
				},
				[]Condition{Gone("pods", "with.dots")},
			},
			{
				"a template goes, and a pod comes again under a name",
				[]Action{deletes("resourceclaimtemplates", "plain"), Rest(time.Second), Create(podWith("web", one))},
				[]Condition{Told("pods", "web", "FailedResourceClaimCreation", "")},
			},
		},
	}
}

// claimsReserved is about who uses claims.
func claimsReserved() Scenario {
	uses := func(claims ...string) string {
		var all []string
		for i, name := range claims {
			all = append(all, fmt.Sprintf("{name: c%d, resourceClaimName: %s}", i, name))
		}
		return "resourceClaims: [" + strings.Join(all, ", ") + "]"
	}
	at := func(pod string, claims ...string) Action { return heldPod(pod, "ghost", "", uses(claims...)) }
	waits := func(pod string, claims ...string) Action { return Create(podWith(pod, uses(claims...))) }
	remove := func(resource, name string) Action {
		return Delete(resource, name, metav1.DeletePropagationBackground)
	}
	release := func(pod string) Action { return Patch("pods", pod, `{"metadata":{"finalizers":null}}`) }
	reservedFor := func(claim, names string) Condition {
		return func(ctx context.Context, w *world) error {
			o, err := w.client.Resource(resourceClaims).Namespace(w.namespace).Get(ctx, claim, metav1.GetOptions{})
			if err != nil {
				return err
			}
			text, err := valueAt("{.status.reservedFor[*].name}", o)
			is, want := strings.Fields(text), strings.Fields(names)
			slices.Sort(is)
			slices.Sort(want)
			if err == nil && !slices.Equal(is, want) {
				err = fmt.Errorf("%s is reserved for %v, want %v", claim, is, want)
			}
			return err
		}
	}
	var claims []Action
	for _, name := range []string{"free", "taken", "shared", "two-1", "two-2", "deleted", "unscheduled", "ended", "terminating", "strangers", "failed"} {
		claims = append(claims, deviceClaim(name, claimFinalizer))
	}
	claims = append(claims, deviceClaim("bare", ""), deviceClaim("idle", claimFinalizer+", annotations: {a: b}"), allocate("idle"),
		deviceClaim("other-finalizer", "finalizers: [faults.kcmd.dev/hold, resource.kubernetes.io/delete-protection]"))
	const strangers = `{"status":{"reservedFor":[{"resource":"pods","name":"ghost","uid":"00000000-0000-4000-8000-000000000001"},{"apiGroup":"example.com","resource":"things","name":"thing","uid":"00000000-0000-4000-8000-000000000002"},{"apiGroup":"scheduling.k8s.io","resource":"podgroups","name":"group","uid":"00000000-0000-4000-8000-000000000003"}]}}`
	return Scenario{
		Name: "claims-reserved", Bare: true, Controllers: onlyClaims,
		Kinds:  []schema.GroupVersionResource{pods, resourceClaims, resourceClaimTemplates},
		Before: claims,
		Steps: []Step{
			{
				"pods use claims, some past the scheduler",
				[]Action{
					at("on-free", "free"), allocate("shared"), at("on-shared", "shared"), at("also-on-shared", "shared"), allocate("two-1"), allocate("two-2"), at("on-two", "two-1", "two-2"),
					waits("taker", "taken"), allocate("taken", "taker"), at("on-taken", "taken"), waits("on-unscheduled", "unscheduled"), allocate("unscheduled", "on-unscheduled"),
					at("on-ended", "ended"), allocate("ended", "on-ended"), at("on-failed", "failed"), allocate("failed", "on-failed"),
					at("on-terminating", "terminating"), allocate("terminating", "on-terminating"), at("on-deleted", "deleted"), allocate("deleted", "on-deleted"), at("on-other", "other-finalizer"), allocate("other-finalizer", "on-other"),
					allocate("strangers"), PatchStatus("resourceclaims", "strangers", strangers), at("on-missing", "not-there", "bare"), allocate("bare"),
				},
				[]Condition{
					reservedFor("shared", "on-shared also-on-shared"), reservedFor("two-1", "on-two"), reservedFor("two-2", "on-two"), reservedFor("taken", "taker on-taken"), reservedFor("free", ""), reservedFor("strangers", "thing group"),
				},
			},
			{
				"pods end in all ways",
				[]Action{
					PatchStatus("pods", "on-ended", `{"status":{"phase":"Succeeded"}}`), PatchStatus("pods", "on-failed", `{"status":{"phase":"Failed"}}`), remove("pods", "on-unscheduled"), remove("pods", "on-terminating"),
					remove("resourceclaims", "deleted"), remove("resourceclaims", "other-finalizer"), remove("pods", "also-on-shared"), release("also-on-shared"), remove("resourceclaims", "idle"), remove("resourceclaims", "free"),
				},
				[]Condition{
					reservedFor("ended", ""), Has("resourceclaims", "ended", "{.status.allocation}", "", "{.metadata.finalizers}", ""), Has("resourceclaims", "failed", "{.status.allocation}", ""),
					reservedFor("unscheduled", ""), reservedFor("terminating", "on-terminating"), reservedFor("deleted", "on-deleted"), reservedFor("shared", "on-shared"), Gone("resourceclaims", "idle"), Gone("resourceclaims", "free"),
				},
			},
			{
				"the rest ends",
				[]Action{
					remove("pods", "on-deleted"), release("on-deleted"), remove("pods", "on-terminating"), release("on-terminating"), PatchStatus("pods", "on-other", `{"status":{"phase":"Failed"}}`), Rest(time.Second),
				},
				[]Condition{Gone("resourceclaims", "deleted"), reservedFor("terminating", ""), Has("resourceclaims", "other-finalizer", "{.metadata.finalizers[*]}", "faults.kcmd.dev/hold")},
			},
		},
	}
}

// claimsExtended is about claims that the scheduler makes for extended resources, and about those that cannot be made.
func claimsExtended() Scenario {
	extended := func(pod string) Action {
		return InTurn(
			Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: ghost, containers: [{name: web, image: "web:1", resources: {requests: {example.com/device: 1}, limits: {example.com/device: 1}}}]}}`, pod)),
			ownedClaim(pod+"-claim", pod, "resource.kubernetes.io/extended-resource-claim: 'true'"),
			Patch("resourceclaims", pod+"-claim", `{"metadata":{"finalizers":["resource.kubernetes.io/delete-protection"]}}`), allocate(pod+"-claim", pod),
			PatchStatus("pods", pod, fmt.Sprintf(`{"status":{"extendedResourceClaimStatus":{"resourceClaimName":"%s-claim","requestMappings":[{"containerName":"web","resourceName":"example.com/device","requestName":"device"}]}}}`, pod)),
		)
	}
	const quota = `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none}, spec: {hard: {count/resourceclaims.resource.k8s.io: "3"}}}`
	return Scenario{
		Name: "claims-extended", Bare: true, Controllers: onlyClaims,
		Kinds: []schema.GroupVersionResource{pods, resourceClaims, resourceClaimTemplates},
		Steps: []Step{
			{"pods use extended resources", []Action{claimTemplate("plain", ""), extended("ends"), extended("fails"), extended("stays"), Rest(time.Second)}, []Condition{Count("resourceclaims", "", 3)}},
			{
				"claims are refused",
				[]Action{
					Create(quota), PatchStatus("resourcequotas", "none", `{"status":{"hard":{"count/resourceclaims.resource.k8s.io":"3"},"used":{"count/resourceclaims.resource.k8s.io":"3"}}}`), Rest(time.Second),
					Create(podWith("refused", "resourceClaims: [{name: device, resourceClaimTemplateName: plain}]")), Rest(2 * time.Second),
				}, []Condition{claimsOf("refused", "")},
			},
			{
				"pods end", []Action{PatchStatus("pods", "ends", `{"status":{"phase":"Succeeded"}}`), PatchStatus("pods", "fails", `{"status":{"phase":"Failed"}}`), Forget("resourcequotas", "none")},
				[]Condition{Gone("resourceclaims", "ends-claim"), Gone("resourceclaims", "fails-claim"), Has("resourceclaims", "stays-claim", "{.status.reservedFor[*].name}", "stays")},
			},
		},
	}
}

// claimsOfGroups is about claims of groups of pods.
func claimsOfGroups() Scenario {
	group := func(name, entries string) Action {
		return Create(fmt.Sprintf("{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: %s}, spec: {schedulingPolicy: {basic: {}}, resourceClaims: [%s]}}", name, entries))
	}
	const one = "{name: device, resourceClaimTemplateName: plain}"
	member := func(name, group, entries string) Action {
		return Create(podWith(name, fmt.Sprintf("schedulingGroup: {podGroupName: %s}, resourceClaims: [%s]", group, entries)))
	}
	recorded := func(group string, n int) Condition {
		return func(ctx context.Context, w *world) error {
			o, err := w.admin.SchedulingV1alpha2().PodGroups(w.namespace).Get(ctx, group, metav1.GetOptions{})
			if err == nil && len(o.Status.ResourceClaimStatuses) != n {
				err = fmt.Errorf("%s has the claims %v", group, o.Status.ResourceClaimStatuses)
			}
			return err
		}
	}
	return Scenario{
		Name: "claims-of-groups", Bare: true,
		Controllers: onlyClaims,
		Configure: func(c *manager.Config) {
			c.FeatureGates = map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true}
			c.Controllers.ResourceClaim.ConcurrentSyncs = ptr.To[int32](20)
		},
		Flags: []string{"--concurrent-resourceclaim-syncs=20"},
		Kinds: []schema.GroupVersionResource{pods, resourceClaims, resourceClaimTemplates, podGroups},
		Steps: []Step{
			{
				"groups come",
				[]Action{claimTemplate("plain", "labels: {of: plain}"), group("one", one), group("two", one+", {name: more, resourceClaimTemplateName: plain}, {name: own, resourceClaimName: own}"), group("missing", "{name: device, resourceClaimTemplateName: none}"), group("empty", "")},
				[]Condition{recorded("one", 1), recorded("two", 2)},
			},
			{
				// All claims of a pod are recorded at once then: upstream's manager would leave out earlier ones (RCLM-19).
				"members come when the claims of their groups are recorded",
				[]Action{
					member("same", "one", one), member("other-entry", "one", "{name: other, resourceClaimTemplateName: plain}"), member("in-two", "two", one+", {name: more, resourceClaimTemplateName: plain}"), member("in-empty", "empty", one),
					member("in-missing", "missing", "{name: device, resourceClaimTemplateName: none}"),
				},
				[]Condition{claimsOf("same", "device"), claimsOf("other-entry", "other"), claimsOf("in-two", "device more"), claimsOf("in-empty", "device"), Count("resourceclaims", "", 5)},
			},
			{
				"a member comes before its group, and a template late",
				[]Action{member("early", "later", one), Rest(time.Second), group("later", one), claimTemplate("none", "")},
				[]Condition{claimsOf("early", "device"), claimsOf("in-missing", "device")},
			},
		},
	}
}
