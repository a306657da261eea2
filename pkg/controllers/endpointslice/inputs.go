package endpointslice

import (
	"hash/maphash"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// inputs remembers, for each Service, a digest of the inputs of its last reconcile that
// succeeded and had nothing to write: with the same inputs the library would decide the
// same again. A reconcile that wrote does not count, because its inputs recur when somebody
// else undoes its writes, for example deletes the slice it created, be it before the answer.
//
// The memory is not inherited, because the gauges of an instance only count the Services
// that went through its own reconciler.
type inputs struct {
	nodes corelisters.NodeLister
	seed  maphash.Seed

	mu      sync.Mutex
	digests map[types.NamespacedName]uint64
	// creating are the Services for which a create was sent in the reconcile under way.
	creating sets.Set[types.NamespacedName]
}

func newInputs(nodes corelisters.NodeLister) *inputs {
	return &inputs{
		nodes:    nodes,
		seed:     maphash.MakeSeed(),
		digests:  map[types.NamespacedName]uint64{},
		creating: sets.New[types.NamespacedName](),
	}
}

// upToDate reports whether the Service is known to need no writes with these inputs.
func (in *inputs) upToDate(key types.NamespacedName, digest uint64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	last, known := in.digests[key]
	return known && last == digest
}

// markUpToDate notes that a reconcile had nothing to write.
func (in *inputs) markUpToDate(key types.NamespacedName, digest uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.digests[key] = digest
}

// noteCreate notes that a create was sent for a Service.
func (in *inputs) noteCreate(key types.NamespacedName) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.creating.Insert(key)
}

// takeCreate reports whether a create was sent for a Service since it was called last.
func (in *inputs) takeCreate(key types.NamespacedName) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	sent := in.creating.Has(key)
	in.creating.Delete(key)
	return sent
}

func (in *inputs) forget(key types.NamespacedName) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.digests, key)
}

// serviceInput is what matters in a Service.
type serviceInput struct {
	uid             types.UID
	resourceVersion string
	topologyEpoch   uint64
}

// sliceInput is what matters in a slice. Its generation would not do: annotations do not
// change it.
type sliceInput struct {
	uid             types.UID
	resourceVersion string
}

// podInput is what matters in a pod and may change. The UID covers the rest, such as name
// and container ports; the labels only decide whether the pod is selected.
type podInput struct {
	uid                                     types.UID
	nodeName, hostname, subdomain           string
	zone                                    string
	nodeKnown, terminal, terminating, ready bool
	podIP                                   string
}

// ipInput is one of the addresses of a pod.
type ipInput struct {
	uid      types.UID
	position int
	ip       string
}

// digest sums up the inputs of a Service. Pods and slices come in no order, so their
// hashes are added.
func (in *inputs) digest(
	service *corev1.Service, pods []*corev1.Pod, slices []*discoveryv1.EndpointSlice, epoch uint64,
) uint64 {
	sum := maphash.Comparable(in.seed, serviceInput{service.UID, service.ResourceVersion, epoch})
	for _, slice := range slices {
		sum += maphash.Comparable(in.seed, sliceInput{slice.UID, slice.ResourceVersion})
	}
	for _, pod := range pods {
		sum += maphash.Comparable(in.seed, in.ofPod(pod))
		for i := range pod.Status.PodIPs {
			sum += maphash.Comparable(in.seed, ipInput{pod.UID, i, pod.Status.PodIPs[i].IP})
		}
	}
	return sum
}

func (in *inputs) ofPod(pod *corev1.Pod) podInput {
	input := podInput{
		uid:         pod.UID,
		nodeName:    pod.Spec.NodeName,
		hostname:    pod.Spec.Hostname,
		subdomain:   pod.Spec.Subdomain,
		terminal:    pods.IsTerminal(pod),
		terminating: pod.DeletionTimestamp != nil,
		ready:       util.IsPodReady(pod),
		podIP:       pod.Status.PodIP,
	}
	if node, err := in.nodes.Get(pod.Spec.NodeName); err == nil {
		input.nodeKnown = true
		input.zone = zoneOf(node)
	}
	return input
}
