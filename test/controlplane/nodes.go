package controlplane

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// nodeParallelism bounds requests in flight while nodes are created.
	nodeParallelism = 16
	zones           = 3
)

// NodeName returns the name of the i-th simulated node, counted from 0.
func NodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// newNode describes a simulated node: large enough never to be the reason why a
// pod does not fit, in one of three zones. kwok fills in the rest of the status.
func newNode(i int) *corev1.Node {
	name := NodeName(i)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1k"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"),
		corev1.ResourcePods:             resource.MustParse("10k"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			Labels: map[string]string{
				"type":                         "kwok",
				corev1.LabelHostname:           name,
				corev1.LabelOSStable:           "linux",
				corev1.LabelArchStable:         "amd64",
				corev1.LabelTopologyRegion:     "region-0",
				corev1.LabelTopologyZone:       fmt.Sprintf("zone-%d", i%zones),
				"node-role.kubernetes.io/node": "",
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources.DeepCopy(),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", 32+i>>16&31, i>>8&255, i&255)},
				{Type: corev1.NodeHostName, Address: name},
			},
		},
	}
}

// createNodes creates the nodes, waits until kwok has made them Ready and, unless they keep it,
// takes the taint off that admission gave them: the manager of a test may run without
// node-lifecycle-controller, which would do it.
func (c *ControlPlane) createNodes(ctx context.Context) error {
	err := c.eachNode(ctx, func(ctx context.Context, i int) error {
		node := newNode(i)
		if c.options.CSI {
			node.Annotations[managedAttach] = "true"
		}
		_, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating nodes: %w", err)
	}
	if err := poll(ctx, c.failed, c.nodesReady); err != nil {
		if failure := c.Err(); failure != nil {
			return failure
		}
		return fmt.Errorf("waiting for nodes: %w", err)
	}
	if c.options.NodesKeepTaint {
		return nil
	}
	err = c.eachNode(ctx, func(ctx context.Context, i int) error {
		patch := []byte(`{"spec":{"taints":null}}`)
		_, err := c.client.CoreV1().Nodes().Patch(ctx, NodeName(i), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("removing the not-ready taint: %w", err)
	}
	return nil
}

func (c *ControlPlane) eachNode(ctx context.Context, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeParallelism)
	for i := range c.options.Nodes {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func (c *ControlPlane) nodesReady(ctx context.Context) error {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	if ready < c.options.Nodes {
		return fmt.Errorf("%d of %d nodes are ready", ready, c.options.Nodes)
	}
	return nil
}
