package faults

import (
	"fmt"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	priorityClasses = schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
	deviceClasses   = resourcev1.SchemeGroupVersion.WithResource("deviceclasses")
)

// quotaOf is a quota with further fields of its specification.
func quotaOf(name, hard, more string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ResourceQuota, metadata: {name: %s}, spec: {hard: {%s}%s}}", name, hard, more)
}

// podUsing is a pod with further fields of its specification, and with the resources of its container.
func podUsing(name, spec, resources string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {%scontainers: [{name: web, image: a, resources: {%s}}]}}", name, spec, resources)
}

// claimAsking is a PersistentVolumeClaim with further metadata and further fields of its specification.
func claimAsking(name, metadata, spec, storage string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s%s}, spec: {accessModes: [ReadWriteOnce], %sresources: {requests: {storage: %q}}}}", name, metadata, spec, storage)
}

// claimOfDevices is a ResourceClaim of some requests.
func claimOfDevices(name, requests string) string {
	return fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: %s}, spec: {devices: {requests: [%s]}}}", name, requests)
}

// charged are objects that quotas count.
func charged() Action {
	const some = "requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 300m, memory: 128Mi}"
	const affinity = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}, %s}]}}, "
	return InTurn(
		CreateAll(
			"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: faults-high}, value: 1000}",
			"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: faults-low}, value: 10}",
			"{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpus}, spec: {extendedResourceName: example.com/dra}}",
			"{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: nics}}",
			podUsing("some", "", some), podUsing("leaves", "", some), podUsing("deleted", "nodeName: none, ", some), podUsing("effortless", "", ""), podUsing("effortless-too", "activeDeadlineSeconds: 60, ", ""),
			podUsing("ends", "activeDeadlineSeconds: 3600, ", some), podUsing("will-end", "", some),
			podUsing("high", "priorityClassName: faults-high, ", some), podUsing("low", "priorityClassName: faults-low, ", some), podUsing("high-effortless", "priorityClassName: faults-high, ", ""),
			podUsing("near", fmt.Sprintf(affinity, "namespaces: [other]"), some), podUsing("near-any", fmt.Sprintf(affinity, "namespaceSelector: {}"), some), podUsing("near-own", fmt.Sprintf(affinity, "namespaces: []"), some),
			podUsing("init", "initContainers: [{name: a, image: a, resources: {requests: {cpu: 2}}}, {name: b, image: b, restartPolicy: Always, resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 1}}}], ", some),
			podUsing("whole", "resources: {requests: {cpu: 3, memory: 3Gi}, limits: {cpu: 4}}, ", "requests: {cpu: 100m, ephemeral-storage: 1Gi}, limits: {ephemeral-storage: 2Gi}"),
			podUsing("large", "", "requests: {cpu: 1, example.com/gpu: 2, hugepages-2Mi: 4Mi, memory: 1Mi, example.com/dra: 3}, limits: {example.com/gpu: 2, hugepages-2Mi: 4Mi, example.com/dra: 3}"),
			podUsing("done", "", some), podUsing("failed", "", some), podUsing("resized", "", some), podUsing("finishes", "", some),
			serviceOf("plain", "", "ports: [{port: 80}]"), serviceOf("external", "", "type: ExternalName, externalName: example.com"),
			serviceOf("ports", "", "type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81}]"),
			serviceOf("ports-later", "", "type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81}]"),
			serviceOf("balanced", "", "type: LoadBalancer, ports: [{name: a, port: 80}, {name: b, port: 81}]"),
			serviceOf("balanced-later", "", "type: LoadBalancer, ports: [{name: a, port: 80}]"),
			serviceOf("portless", "", "type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{name: a, port: 80}, {name: b, port: 81}]"),
			claimAsking("gold", "", "storageClassName: gold, ", "1Gi"), claimAsking("gold-old", `, annotations: {volume.beta.kubernetes.io/storage-class: gold}`, "", "1500m"), claimAsking("none", "", "", "2Gi"), claimAsking("empty", "", `storageClassName: "", `, "3Gi"),
			claimAsking("silver", "", "storageClassName: silver, volumeAttributesClassName: slow, ", "4Gi"), claimAsking("fast", "", "volumeAttributesClassName: fast, ", "5Gi"), claimAsking("goes", "", "storageClassName: gold, volumeAttributesClassName: fast, ", "6Gi"),
			claimOfDevices("exact", "{name: a, exactly: {deviceClassName: gpus, count: 2}}, {name: b, exactly: {deviceClassName: nics}}"),
			claimOfDevices("all", "{name: a, exactly: {deviceClassName: nics, allocationMode: All}}"),
			claimOfDevices("first", "{name: a, firstAvailable: [{name: a, deviceClassName: gpus, count: 3}, {name: b, deviceClassName: gpus, count: 5}, {name: c, deviceClassName: nics, count: 2}]}"),
			claimOfDevices("goes", "{name: a, exactly: {deviceClassName: gpus, count: 7}}"),
			configMap("a"), configMap("b"), "{apiVersion: v1, kind: Secret, metadata: {name: a}}", "{apiVersion: v1, kind: ReplicationController, metadata: {name: a}, spec: {replicas: 0, selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}",
			custom("Widget", "a", ""), custom("Widget", "b", ""), "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}", "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}",
		),
		PatchStatus("pods", "resized", `{"status":{"containerStatuses":[{"name":"web","image":"a","imageID":"a","ready":true,"restartCount":0,"resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"300m","memory":"128Mi"}}}]}}`),
		PatchStatus("pods", "done", `{"status":{"phase":"Succeeded"}}`), PatchStatus("pods", "failed", `{"status":{"phase":"Failed"}}`),
		PatchStatus("persistentvolumeclaims", "none", `{"status":{"phase":"Bound","capacity":{"storage":"2Gi"},"allocatedResources":{"storage":"7Gi"},"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"}}}`),
	)
}

// usedQuotas have quotas of every kind of object, in every scope.
func usedQuotas() Scenario {
	scoped := func(scope, operator, values string) string {
		return fmt.Sprintf(", scopeSelector: {matchExpressions: [{scopeName: %s, operator: %s%s}]}", scope, operator, values)
	}
	const counts = "configmaps: 10, secrets: 10, services: 20, services.nodeports: 20, services.loadbalancers: 20, resourcequotas: 40, replicationcontrollers: 10, persistentvolumeclaims: 20"
	const counted = "count/configmaps: 10, count/services: 20, count/pods: 50, count/deployments.apps: 9, count/widgets.faults.example.com: 9, count/leases.coordination.k8s.io: 9, count/serviceaccounts: 9, " +
		"count/unknown.example.com: 9, count/secrets: 9, count/persistentvolumeclaims: 20, count/replicationcontrollers: 9, count/resourcequotas: 40, count/events: 9, count/bindings: 9"
	const amounts = "pods: 50, requests.cpu: 50, limits.cpu: 50, requests.memory: 50Gi, limits.memory: 50Gi"
	used := func(quota, name, want string) Condition {
		return Has("resourcequotas", quota, "{.status.used['"+strings.ReplaceAll(name, ".", `\.`)+"']}", want)
	}
	return Scenario{
		Name:        "quotas",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ResourceQuota.Enabled} },
		Before:      []Action{widgets},
		Kinds:       []schema.GroupVersionResource{quotas, pods, services, volumeClaims, resourceClaims, priorityClasses, deviceClasses},
		Steps: []Step{
			{"create what is counted", []Action{charged()}, []Condition{idle(2 * time.Second)}},
			{
				"create quotas",
				[]Action{CreateAll(
					quotaOf("pods", amounts, ""),
					quotaOf("pods-bare", "cpu: 50, memory: 50Gi, ephemeral-storage: 50Gi, requests.ephemeral-storage: 50Gi, limits.ephemeral-storage: 50Gi", ""),
					quotaOf("pods-extended", "requests.example.com/gpu: 9, hugepages-2Mi: 1Gi, requests.hugepages-2Mi: 1Gi, requests.example.com/none: 3", ""),
					quotaOf("counts", counts, ""), quotaOf("counted", counted, ""),
					quotaOf("storage", "requests.storage: 100Gi, gold.storageclass.storage.k8s.io/requests.storage: 100Gi, gold.storageclass.storage.k8s.io/persistentvolumeclaims: 9, none.storageclass.storage.k8s.io/persistentvolumeclaims: 9, silver.storageclass.storage.k8s.io/requests.storage: 100Gi", ""),
					quotaOf("terminating", amounts, ", scopes: [Terminating]"), quotaOf("not-terminating", amounts, ", scopes: [NotTerminating]"),
					quotaOf("best-effort", "pods: 9", ", scopes: [BestEffort]"), quotaOf("not-best-effort", amounts, ", scopes: [NotBestEffort]"),
					quotaOf("two-scopes", "pods: 9", ", scopes: [Terminating, BestEffort]"),
					quotaOf("in", amounts, scoped("PriorityClass", "In", ", values: [faults-high]")), quotaOf("not-in", amounts, scoped("PriorityClass", "NotIn", ", values: [faults-high]")),
					quotaOf("exists", amounts, scoped("PriorityClass", "Exists", "")), quotaOf("does-not-exist", amounts, scoped("PriorityClass", "DoesNotExist", "")),
					quotaOf("priority", "pods: 9", ", scopes: [PriorityClass]"),
					quotaOf("cross", amounts, ", scopes: [CrossNamespacePodAffinity]"),
					quotaOf("attributes-in", "persistentvolumeclaims: 9, requests.storage: 100Gi", scoped("VolumeAttributesClass", "In", ", values: [fast]")),
					quotaOf("attributes-not-in", "persistentvolumeclaims: 9, requests.storage: 100Gi", scoped("VolumeAttributesClass", "NotIn", ", values: [fast]")),
					quotaOf("attributes", "persistentvolumeclaims: 9, requests.storage: 100Gi", scoped("VolumeAttributesClass", "Exists", "")),
					quotaOf("devices", "count/resourceclaims.resource.k8s.io: 9, gpus.deviceclass.resource.k8s.io/devices: 50, nics.deviceclass.resource.k8s.io/devices: 90, none.deviceclass.resource.k8s.io/devices: 9", ""),
					quotaOf("devices-extended", "requests.example.com/dra: 50, requests.deviceclass.resource.kubernetes.io/gpus: 50, requests.deviceclass.resource.kubernetes.io/nics: 90", ""),
					quotaOf("unknown", "count/unknown.example.com: 1, example.com/unknown: 2", ""), quotaOf("empty", "", ""),
				), Rest(time.Second), Patch("resourcequotas", "counts", `{"spec":{"hard":{"secrets":"11"}}}`), Patch("resourcequotas", "counted", `{"spec":{"hard":{"count/secrets":"8"}}}`)},
				[]Condition{used("counts", "resourcequotas", "24"), used("counted", "count/resourcequotas", "24"), used("devices-extended", "requests.example.com/dra", "17"), used("counts", "services.loadbalancers", "3"), idle(3 * time.Second)},
			},
			{
				"change what is counted",
				[]Action{
					Delete("pods", "leaves", background), Delete("pods", "deleted", background), Delete("pods", "high", background), Delete("pods", "near", background), PatchStatus("pods", "finishes", `{"status":{"phase":"Succeeded"}}`),
					Delete("pods", "effortless-too", background), Delete("pods", "large", background), Patch("pods", "will-end", `{"spec":{"activeDeadlineSeconds":50}}`),
					PatchStatus("pods", "resized", `{"status":{"containerStatuses":[{"name":"web","image":"a","imageID":"a","ready":true,"restartCount":0,"allocatedResources":{"cpu":"200m"},"resources":{"requests":{"cpu":"250m","memory":"32Mi"},"limits":{"cpu":"900m"}}}]}}`),
					Patch("services", "ports-later", `{"spec":{"type":"ClusterIP","ports":[{"name":"a","port":80,"nodePort":null},{"name":"b","port":81,"nodePort":null}]}}`), Patch("services", "balanced-later", `{"spec":{"type":"NodePort","allocateLoadBalancerNodePorts":null}}`), Delete("services", "balanced", background), Delete("services", "external", background),
					Delete("persistentvolumeclaims", "goes", background), PatchStatus("persistentvolumeclaims", "fast", `{"status":{"currentVolumeAttributesClassName":"slow"}}`),
					PatchStatus("persistentvolumeclaims", "none", `{"status":{"allocatedResources":{"storage":"3Gi"}}}`),
					Delete("resourceclaims", "goes", background), Delete("configmaps", "a", background), Delete("secrets", "a", background), Delete("widgets.faults.example.com", "a", background),
					Delete("deployments", "a", background), Delete("leases", "a", background), Delete("serviceaccounts", "a", background), Delete("replicationcontrollers", "a", background),
				},
				[]Condition{used("devices-extended", "requests.example.com/dra", "7"), used("counts", "configmaps", "1"), used("counted", "count/widgets.faults.example.com", "1"), used("counts", "services.loadbalancers", "1"), idle(3 * time.Second)},
			},
			{
				"change the quotas",
				[]Action{
					Delete("resourcequotas", "devices", background), Repeat(Action(All(used("counts", "resourcequotas", "23"), used("counted", "count/resourcequotas", "23")))),
					Create(quotaOf("devices", "nics.deviceclass.resource.k8s.io/devices: 9", "")),
					Patch("resourcequotas", "pods", `{"spec":{"hard":{"pods":"1","requests.cpu":null,"limits.ephemeral-storage":"9Gi"}}}`),
					Patch("resourcequotas", "in", `{"spec":{"hard":{"pods":"7"},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["faults-low"]}]}}}`),
					Patch("resourcequotas", "unknown", `{"spec":{"hard":{"configmaps":"5"}}}`), Patch("resourcequotas", "empty", `{"spec":{"hard":{"secrets":"5"}}}`),
					Patch("resourcequotas", "counts", `{"spec":{"hard":{"configmaps":"10000m"}}}`), Patch("resourcequotas", "storage", `{"spec":{"hard":null}}`),
				},
				[]Condition{used("unknown", "configmaps", "1"), used("empty", "secrets", "0"), used("devices", "nics.deviceclass.resource.k8s.io/devices", "35"), used("counts", "resourcequotas", "24"), idle(3 * time.Second)},
			},
		},
	}
}
