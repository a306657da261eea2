package benchmark

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/benchmark/report"
)

// growthPods are the numbers of pods of the growth scenario.
var growthPods = [...]int{0, 1000, 5000, 10000}

// The pods of growth-large run, each of its nodes has a hundred.
const (
	largePods  = 50000
	largeNodes = 500
)

// runGrowth starts a manager with more and more pods.
func runGrowth(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	have := 0
	for _, full := range growthPods {
		pods := scaledHundreds(full, s.options.Scale)
		if err := s.retire(); err != nil {
			return err
		}
		if err := createPods(ctx, s.client, load, have, pods); err != nil {
			return err
		}
		have = pods
		err := s.measure(ctx, phase{
			name: report.GrowthPhase(full), size: fmt.Sprintf("start with %d pods", pods), units: float64(pods), unit: "pod",
			work: s.startAgainAndHold, check: s.describe(pods),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scaledHundreds multiplies a size that is a multiple of a hundred by the scale, in hundreds; 0 stays 0.
func scaledHundreds(size int, scale float64) int {
	if size == 0 {
		return 0
	}
	return scaled(size/100, scale) * 100
}

// startAgainAndHold is startAndHold of a manager that may not be the first one.
func (s *stage) startAgainAndHold(ctx context.Context, figures map[string]float64) error {
	return s.holdAfter(ctx, figures, func(ctx context.Context) error { return s.startAgain(ctx, settings{mode: s.mode}) })
}

// runGrowthLarge starts a manager on a large cluster where nothing is to be done.
func runGrowthLarge(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	f := &fleet{stage: s}
	pods, nodes := scaledHundreds(largePods, s.options.Scale), scaled(largeNodes, s.options.Scale)
	if err := f.createNodes(ctx, nodes); err != nil {
		return err
	}
	if err := f.runPods(ctx, pods); err != nil {
		return err
	}
	defer f.beat(ctx)()
	if err := f.bringToRest(ctx); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: report.GrowthPhase(largePods), size: fmt.Sprintf("start with %d running pods on %d nodes", pods, nodes), units: float64(pods), unit: "pod",
		work: s.startAgainAndHold, check: f.describeRest,
	})
}

// createNodes creates the nodes of a fleet that has none.
func (f *fleet) createNodes(ctx context.Context, n int) error {
	f.leases = make([]renewals, n)
	return each(ctx, n, f.createNode)
}

// runPods creates ReplicaSets whose pods run on the nodes, each set on all nodes in turn.
func (f *fleet) runPods(ctx context.Context, n int) error {
	return each(ctx, n/podsPerSet, func(ctx context.Context, i int) error {
		set, err := createReplicaSet(ctx, f.client, load, numbered("set", i), podsPerSet)
		if err != nil {
			return err
		}
		for p := range podsPerSet {
			pod := newPod(set, p)
			pod.Spec.NodeName = nodeName((i*podsPerSet + p) % len(f.leases))
			if err := f.run(ctx, pod); err != nil {
				return fmt.Errorf("running a pod: %w", err)
			}
		}
		return nil
	})
}

// bringToRest lets a manager do what there is to do about everything that was stored, and stops it: the
// next one has only to read.
func (f *fleet) bringToRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, f.options.PhaseTimeout, fmt.Errorf("coming to rest took longer than %s", f.options.PhaseTimeout))
	defer cancel()
	if err := f.startAgain(ctx, settings{mode: f.mode}); err != nil {
		return err
	}
	if err := f.untilEvery(ctx, time.Second, "there is nothing left to do", f.atRest); err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	return f.retire()
}

// atRest returns nil when nodes are without the taint that they are admitted with, and ReplicaSets know of
// their pods.
func (f *fleet) atRest(ctx context.Context) error {
	nodes, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has taints %v", node.Name, node.Spec.Taints)
		}
	}
	sets, err := f.client.AppsV1().ReplicaSets(load).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, set := range sets.Items {
		if set.Status.AvailableReplicas != *set.Spec.Replicas {
			return fmt.Errorf("of %d replicas of ReplicaSet %s %d are available", *set.Spec.Replicas, set.Name, set.Status.AvailableReplicas)
		}
	}
	return nil
}

// describeRest is an error unless everything is as it was brought to rest.
func (f *fleet) describeRest(ctx context.Context) (string, error) {
	if err := f.atRest(ctx); err != nil {
		return "", err
	}
	pods, err := f.client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, one)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d nodes without taints, %d pods", len(f.leases), count(len(pods.Items), pods.ListMeta)), nil
}
