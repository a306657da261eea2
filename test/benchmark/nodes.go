package benchmark

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/benchmark/report"
)

const (
	fleetNodes  = 1000
	fleetZones  = 3
	podsPerNode = 10
	// deadNodes is the number of nodes that stop renewing their leases at the same time. It is less
	// than half of each zone, so zones still count as healthy.
	deadNodes = 300

	heartbeat = 10 * time.Second
	// toleration is how long pods tolerate an unreachable node, instead of five minutes.
	toleration = 5 * time.Second
)

// imageDigest is what follows the name of an image.
const imageDigest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"

// runNodes measures lease renewals of a fleet, then silences one node, then many nodes.
func runNodes(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	f := &fleet{stage: s, leases: make([]renewals, scaled(fleetNodes, s.options.Scale))}
	if err := f.create(ctx); err != nil {
		return err
	}
	defer f.beat(ctx)()
	if err := s.start(ctx); err != nil {
		return err
	}
	n := len(f.leases)
	err := s.measure(ctx, phase{
		name: "nodes-leases", size: fmt.Sprintf("%d nodes of %d pods that renew leases every %s, for %s", n, podsPerNode, heartbeat, s.options.Idle), units: 1, unit: "run",
		work:  func(ctx context.Context, figures map[string]float64) error { return idle(ctx, s.options.Idle, figures) },
		check: f.describe,
	})
	if err != nil {
		return err
	}
	if err := f.measureLoss(ctx, "nodes-one", 1, podsPerNode); err != nil {
		return err
	}
	return f.measureLoss(ctx, "nodes-many", scaled(deadNodes, s.options.Scale), 1)
}

// measureLoss silences more nodes. It waits until all of them and their pods are not ready and a number
// of pods are evicted. One result is the time until nodes and pods are not ready. Another result is
// the time until the first eviction. Both times start at the last lease renewal.
func (f *fleet) measureLoss(ctx context.Context, name string, count, evicted int) error {
	seen, stop, err := f.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	first := int(f.silent.Load())
	toFirst := report.Result{
		Scenario: f.scenario, Phase: name + "-evicted", Mode: string(f.mode), Subject: f.name, Round: f.round,
		Size: "the same, until the first pod is evicted", Units: 1, Unit: "eviction", Figures: map[string]float64{},
	}
	err = f.measure(ctx, phase{
		name: name + "-unready", size: fmt.Sprintf("%d of %d nodes fall silent, until they and their pods are not ready", count, len(f.leases)), units: float64(count), unit: "node",
		work: func(ctx context.Context, figures map[string]float64) error {
			f.silent.Add(int64(count))
			err := f.until(ctx, "silent nodes have been acted on", func(context.Context) error { return seen.complete(count, evicted) })
			fell := f.fell(first, first+count)
			figures[report.Wall] = seen.lastUnready().Sub(fell).Seconds()
			toFirst.Figures[report.Wall] = seen.firstEviction().Sub(fell).Seconds()
			return err
		},
		check: f.describe,
	})
	if err == nil {
		f.record(toFirst)
	}
	return err
}

// fleet is a set of nodes without kubelets. The benchmark creates the nodes and renews their leases.
type fleet struct {
	*stage
	leases []renewals // of each node
	// silent is the number of nodes, counted from the first, that no longer renew their leases.
	silent atomic.Int64
}

// renewals holds a lease and its last renewal time. Only one worker writes each lease.
type renewals struct {
	lease *coordinationv1.Lease
	last  atomic.Int64 // Unix time in nanoseconds
}

// fell returns the time of the last lease renewal among the nodes in [from, until).
func (f *fleet) fell(from, until int) time.Time {
	var last int64
	for i := from; i < until; i++ {
		last = max(last, f.leases[i].last.Load())
	}
	return time.Unix(0, last)
}

// create creates ready nodes, their leases and ready pods.
func (f *fleet) create(ctx context.Context) error {
	return each(ctx, len(f.leases), func(ctx context.Context, i int) error {
		if err := f.createNode(ctx, i); err != nil {
			return fmt.Errorf("creating a node: %w", err)
		}
		for p := range podsPerNode {
			if err := f.createPod(ctx, i, p); err != nil {
				return fmt.Errorf("creating a pod: %w", err)
			}
		}
		return nil
	})
}

func nodeName(i int) string { return numbered("fleet", i) }

func (f *fleet) createNode(ctx context.Context, i int) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
		corev1.LabelTopologyRegion: "region", corev1.LabelTopologyZone: numbered("zone", i%fleetZones), corev1.LabelHostname: nodeName(i),
	}}}
	created, err := f.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = nodeStatus(metav1.Now())
	if _, err := f.client.CoreV1().Nodes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	f.leases[i].lease, err = f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: created.Name, UID: created.UID}}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(nodeName(i)), LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	return err
}

// nodeImages is the number of images that a node reports; kubelets report up to 50.
const nodeImages = 20

// nodeStatus is the status of a ready node, of the size that a kubelet reports.
func nodeStatus(now metav1.Time) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	status := corev1.NodeStatus{
		Capacity: resources, Allocatable: resources,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		NodeInfo: corev1.NodeSystemInfo{
			KernelVersion: "6.12.0", OSImage: "Linux", ContainerRuntimeVersion: "containerd://2.1.0", KubeletVersion: "v1.36.0",
			OperatingSystem: "linux", Architecture: "amd64",
		},
	}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		state := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			state = corev1.ConditionTrue
		}
		status.Conditions = append(status.Conditions, corev1.NodeCondition{
			Type: kind, Status: state, Reason: "KubeletReports", Message: "reported by the kubelet", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	for i := range nodeImages {
		name := "registry.example.com/team/" + numbered("image", i)
		status.Images = append(status.Images, corev1.ContainerImage{Names: []string{name + imageDigest, name + ":1.2.3"}, SizeBytes: 100 << 20})
	}
	return status
}

func (f *fleet) createPod(ctx context.Context, node, i int) error {
	template := podTemplate(map[string]string{"app": "fleet"}, corev1.RestartPolicyAlways)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Spec.NodeName = numbered(nodeName(node), i), nodeName(node)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) // no kubelet confirms the deletion
	pod.Spec.Tolerations = nil
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(toleration.Seconds())),
		})
	}
	return f.run(ctx, pod)
}

// run creates a pod and reports that it runs, as a kubelet does.
func (f *fleet) run(ctx context.Context, pod *corev1.Pod) error {
	created, err := f.client.CoreV1().Pods(load).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status = runningStatus(created, metav1.Now())
	_, err = f.client.CoreV1().Pods(load).UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

// runningStatus is the status of a pod that runs and is ready.
func runningStatus(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	const address = "10.244.0.1"
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, QOSClass: pod.Status.QOSClass,
		HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}}, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image + imageDigest, ContainerID: "containerd://" + string(pod.UID) + c.Name,
			Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return status
}

// beat renews the leases of all nodes that are not silent until the caller calls stop. It spreads the
// renewals evenly over the interval.
func (f *fleet) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beating sync.WaitGroup
	for worker := range min(parallelism, len(f.leases)) {
		beating.Go(func() {
			for i := worker; ctx.Err() == nil; i += parallelism {
				if i >= len(f.leases) {
					i = worker
				}
				// Each worker renews its share of the nodes once in each interval.
				share := (len(f.leases) - worker + parallelism - 1) / parallelism
				select {
				case <-time.After(heartbeat / time.Duration(share)):
				case <-ctx.Done():
					return
				}
				if int64(i) >= f.silent.Load() {
					f.renew(ctx, i)
				}
			}
		})
	}
	return func() {
		cancel()
		beating.Wait()
	}
}

// renew renews a lease like a kubelet. After a failure, it runs again in the next interval.
func (f *fleet) renew(ctx context.Context, i int) {
	node := &f.leases[i]
	lease := node.lease.DeepCopy()
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if renewed, err := f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
		node.lease = renewed
		node.last.Store(time.Now().UnixNano())
	}
}

// describe counts nodes and pods by state. It counts only the pods of a live node, because the number
// of pods evicted from silent nodes by the end of a phase depends on timing.
func (f *fleet) describe(ctx context.Context) (string, error) {
	nodes, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	t := tally{}
	for _, node := range nodes.Items {
		t.add("nodes %s, taints %s", readiness(&node), noSchedule(&node))
	}
	pods, err := f.client.CoreV1().Pods(load).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName(len(f.leases)-1)})
	if err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		t.add("pods of a node that is alive, ready %t", podReady(&pod))
	}
	return t.String(), nil
}

func readiness(node *corev1.Node) string {
	var all []string
	for _, c := range node.Status.Conditions {
		all = append(all, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return fmt.Sprint(all)
}

// noSchedule omits NoExecute taints, because only some of the nodes have them yet.
func noSchedule(node *corev1.Node) string {
	var all []string
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule {
			all = append(all, t.Key)
		}
	}
	return fmt.Sprint(all)
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
