package faults

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kcmd.dev/test/must"
)

// What depends on chance or on the time of day does not tell two states apart; what does not, does.
func TestStateKeepsWhatMatters(t *testing.T) {
	const first = `
kind: Pod
metadata: {name: web-bcdfg, generateName: web-, namespace: faults-1, uid: 11111111-2222-3333-4444-555555555555, resourceVersion: "7", generation: 2,
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "2026-01-02T03:04:05Z"},
  creationTimestamp: "2026-01-02T03:04:05Z", ownerReferences: [{kind: Job, name: web, uid: aaaaaaaa-2222-3333-4444-555555555555}]}
spec: {nodeName: node-1, image: "web:1"}
status: {podIP: 10.0.0.1, observedGeneration: 2, conditions: [{type: Ready, status: "True", message: web-bcdfg of faults-1}, {type: Bound}],
  addresses: [{ip: 10.0.0.1, name: a}, {ip: 10.0.0.2, name: b}]}
data: {token: ZTMwLmV5SnVJam9pZUNKOS5jMmxu, namespace: ZmF1bHRzLTE=}
`
	const second = `
kind: Pod
metadata: {name: web-24567, generateName: web-, namespace: faults-22, uid: 21111111-2222-3333-4444-555555555555, resourceVersion: "9", generation: 3,
  creationTimestamp: "2026-01-02T03:04:06.123456Z", ownerReferences: [{kind: Job, name: web, uid: baaaaaaa-2222-3333-4444-555555555555}]}
spec: {nodeName: node-2, image: "web:1"}
status: {podIP: 10.0.0.2, observedGeneration: 3, conditions: [{type: Bound}, {type: Ready, status: "True", message: web-24567 of faults-22}],
  addresses: [{ip: 10.0.0.1, name: b}, {ip: 10.0.0.2, name: a}]}
data: {token: ZTMwLmV5SnVJam9pZUNKOS5ZV0pq, namespace: ZmF1bHRzLTIy}
`
	of := func(namespace, text string, edits ...string) state {
		o := unstructured.Unstructured{}
		must.Succeed(t, yaml.Unmarshal([]byte(text), &o.Object))
		for i := 0; i < len(edits); i += 2 {
			must.Succeed(t, unstructured.SetNestedField(o.Object, edits[i+1], "spec", edits[i]))
		}
		return must.Get(stateOf(namespace, map[string][]unstructured.Unstructured{"pods": {o}}))(t)
	}
	a := of("faults-1", first)
	if a[0].key != "pods/web-*" {
		t.Errorf("its key is %s", a[0].key)
	}
	if o := of("faults-1", strings.ReplaceAll(first, "web-bcdfg", "web-0")); o[0].key != "pods/web-0" {
		t.Errorf("the key of one with an ordinal is %s", o[0].key)
	}
	mirrored := strings.Replace(first, "generateName: web-,", "labels: {kubernetes.io/service-name: web},", 1)
	if o := of("faults-1", mirrored); o[0].key != "pods/web-*" {
		t.Errorf("the key of one that belongs to a Service is %s", o[0].key)
	}
	if d := differences(a, of("faults-22", second)); len(d) > 0 {
		t.Errorf("they differ: %q", d)
	}
	if d := differences(a, of("faults-22", second, "image", "web:2")); len(d) != 1 || d[0] != `pods/web-* differs: .spec.image is "web:2" instead of "web:1"` {
		t.Errorf("with another image they differ by %q", d)
	}
}

// Names that are hashes, certificates and the order of taints differ from run to run; the node of a
// VolumeAttachment does not.
func TestStateOfClusterScopedObjects(t *testing.T) {
	of := func(resource, text string) state {
		o := unstructured.Unstructured{}
		must.Succeed(t, yaml.Unmarshal([]byte(text), &o.Object))
		return must.Get(stateOf("faults-1", map[string][]unstructured.Unstructured{resource: {o}}))(t)
	}
	const attachment = "{kind: VolumeAttachment, metadata: {name: csi-%s}, spec: {nodeName: %s}}"
	one := of("volumeattachments", fmt.Sprintf(attachment, strings.Repeat("0a", 32), "node-a"))
	if one[0].key != "volumeattachments/csi-*" {
		t.Errorf("its key is %s", one[0].key)
	}
	if d := differences(one, of("volumeattachments", fmt.Sprintf(attachment, strings.Repeat("b1", 32), "node-b"))); len(d) != 1 {
		t.Errorf("on another node it differs by %q", d)
	}
	const provisioned = "{kind: PersistentVolume, metadata: {name: pvc-%s-2222-3333-4444-555555555555}}"
	if o := of("persistentvolumes", fmt.Sprintf(provisioned, "11111111")); o[0].key != "persistentvolumes/pvc-UID" {
		t.Errorf("the key of a provisioned volume is %s", o[0].key)
	}
	const group = "{kind: PodGroup, metadata: {name: gang-b2-gang-pgt-0-c4d}, spec: {podGroupTemplateRef: {workload: {workloadName: gang-b2}}}}"
	if o := of("podgroups", group); o[0].key != "podgroups/gang-*-gang-pgt-0-*" {
		t.Errorf("the key of a group of a Job is %s", o[0].key)
	}
	if o := of("workloads", "{kind: Workload, metadata: {name: gang-b2, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: gang, uid: a, controller: true}]}}"); o[0].key != "workloads/gang-*" {
		t.Errorf("the key of the Workload of a Job is %s", o[0].key)
	}
	const node = "{kind: Node, metadata: {name: a}, spec: {taints: [{key: %s}, {key: %s}]}}"
	if d := differences(of("nodes", fmt.Sprintf(node, "x", "y")), of("nodes", fmt.Sprintf(node, "y", "x"))); len(d) > 0 {
		t.Errorf("the order of taints differs: %q", d)
	}
	const request = "{kind: CertificateSigningRequest, metadata: {name: a}, status: {%s}}"
	issued := func(number int64) string {
		return "certificate: " + issuedCertificate(t, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(number) })
	}
	if d := differences(of("requests", fmt.Sprintf(request, issued(1))), of("requests", fmt.Sprintf(request, issued(2)))); len(d) > 0 {
		t.Errorf("certificates differ: %q", d)
	}
	if d := differences(of("requests", fmt.Sprintf(request, "certificate: YQ==")), of("requests", fmt.Sprintf(request, ""))); len(d) != 1 {
		t.Errorf("without a certificate it differs by %q", d)
	}
	const definition = "{kind: CustomResourceDefinition, metadata: {name: widgets.faults-1.example.com}}"
	if o := of("definitions", definition); o[0].key != "definitions/widgets.NAMESPACE.example.com" {
		t.Errorf("the key of a definition of the run is %s", o[0].key)
	}
	const policy = "{kind: ValidatingAdmissionPolicy, metadata: {name: a}, status: {typeChecking: {expressionWarnings: [{warning: '(%s.spec, int)'}]}}}"
	if d := differences(of("policies", fmt.Sprintf(policy, "Widget831783341")), of("policies", fmt.Sprintf(policy, "Widget9042"))); len(d) > 0 {
		t.Errorf("names of types differ: %q", d)
	}
	if d := differences(of("policies", fmt.Sprintf(policy, "Widget831783341")), of("policies", fmt.Sprintf(policy, "Gadget831783341"))); len(d) != 1 {
		t.Errorf("of another kind it differs by %q", d)
	}
}

// The API server chooses addresses and ports of Services, and makes names of a prefix of which it keeps a part.
func TestStateOfServices(t *testing.T) {
	of := func(resource, text string) state {
		o := unstructured.Unstructured{}
		must.Succeed(t, yaml.Unmarshal([]byte(text), &o.Object))
		return must.Get(stateOf("faults-1", map[string][]unstructured.Unstructured{resource: {o}}))(t)
	}
	const service = "{kind: Service, metadata: {name: a}, spec: {clusterIP: %s, clusterIPs: [%s], healthCheckNodePort: %d, ports: [{port: %d, nodePort: %d}]}}"
	one := of("services", fmt.Sprintf(service, "'fd00::1'", "'fd00::1'", 30000, 80, 30001))
	if d := differences(one, of("services", fmt.Sprintf(service, "'fd00::2'", "'fd00::2'", 30002, 80, 30003))); len(d) > 0 {
		t.Errorf("what was chosen differs: %q", d)
	}
	if d := differences(one, of("services", fmt.Sprintf(service, "'fd00::1'", "'fd00::1'", 30000, 81, 30001))); len(d) != 1 {
		t.Errorf("with another port it differs by %q", d)
	}
	long := strings.Repeat("a", longestPrefix)
	if o := of("endpointslices", fmt.Sprintf("{metadata: {name: %sbcdfg, generateName: %saaaaa-}}", long, long)); o[0].key != "endpointslices/"+long+"*" {
		t.Errorf("the key of one with a long name is %s", o[0].key)
	}
	const subsets = "{kind: Endpoints, metadata: {name: a}, subsets: [{ports: [{port: %d}]}, {ports: [{port: %d}]}]}"
	if d := differences(of("endpoints", fmt.Sprintf(subsets, 1, 2)), of("endpoints", fmt.Sprintf(subsets, 2, 1))); len(d) > 0 {
		t.Errorf("the order of subsets differs: %q", d)
	}
}
