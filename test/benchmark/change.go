package benchmark

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kcmd.dev/test/benchmark/report"
)

// runChange changes concurrentSyncs of deployment-controller: first of managers that hold
// a lease, as in any cluster, then of managers without leader election, which need not
// wait until the lease of the ended process has expired.
func runChange(ctx context.Context, s *stage) error {
	pods, err := s.storePods(ctx)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.measureChange(ctx, "change", fmt.Sprintf("a setting changed with %d pods cached", pods), settings{mode: s.mode, deploymentSyncs: 7}); err != nil {
		return err
	}
	if err := s.startAgain(ctx, settings{mode: s.mode, alone: true}); err != nil {
		return err
	}
	return s.measureChange(ctx, "change-without-lease", fmt.Sprintf("the same without leader election, %d pods", pods), settings{mode: s.mode, deploymentSyncs: 7, alone: true})
}

func (s *stage) storePods(ctx context.Context) (int, error) {
	if err := s.namespace(ctx, load); err != nil {
		return 0, err
	}
	pods := scaledHundreds(changePods, s.options.Scale)
	return pods, createPods(ctx, s.client, load, 0, pods)
}

// measureChange takes the time until the changed setting is in force and a Deployment
// that is created then has its pod.
func (s *stage) measureChange(ctx context.Context, name, size string, with settings) error {
	if err := s.namespace(ctx, name); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: name, size: size, units: 1, unit: "change",
		work: func(ctx context.Context, figures map[string]float64) error {
			return s.untilFirstPod(ctx, name, figures, func(ctx context.Context) error {
				changed, err := s.subject.change(ctx, s.plane, s.manager, with)
				if err == nil {
					s.manager = changed
				}
				return err
			})
		},
	})
}

// untilFirstPod disturbs the manager, creates a Deployment and waits for its pod. The
// time is that from the disturbance.
func (s *stage) untilFirstPod(ctx context.Context, namespace string, figures map[string]float64, disturb func(context.Context) error) error {
	pods, err := s.client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer pods.Stop()
	began := time.Now()
	if err := disturb(ctx); err != nil {
		return err
	}
	if _, err := s.client.AppsV1().Deployments(namespace).Create(ctx, newDeployment(0, 1, "fresh"), metav1.CreateOptions{}); err != nil {
		return err
	}
	select {
	case event, open := <-pods.ResultChan():
		if _, ok := event.Object.(*corev1.Pod); !open || !ok || event.Type != watch.Added {
			return fmt.Errorf("watching for a pod: the watch ended with %v", event.Object)
		}
	case <-s.manager.Exited():
		return errors.New("watching for a pod: the manager has ended")
	case <-ctx.Done():
		return fmt.Errorf("watching for a pod: %w", context.Cause(ctx))
	}
	figures[report.Wall] = time.Since(began).Seconds()
	return nil
}

// runFailover ends a leader, next to a standby that is ready, in two ways.
func runFailover(ctx context.Context, s *stage) error {
	pods, err := s.storePods(ctx)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.measureFailover(ctx, "failover-killed", fmt.Sprintf("the leader killed (SIGKILL), %d pods cached", pods), syscall.SIGKILL); err != nil {
		return err
	}
	return s.measureFailover(ctx, "failover-stopped", fmt.Sprintf("the leader stopped (SIGTERM), %d pods cached", pods), syscall.SIGTERM)
}

// measureFailover takes the time until a new Deployment has its pod. Processor time and
// memory are those of the process that takes over.
func (s *stage) measureFailover(ctx context.Context, name, size string, signal syscall.Signal) error {
	if err := s.namespace(ctx, name); err != nil {
		return err
	}
	leader := s.manager
	standby, err := s.subject.start(ctx, s.plane, settings{mode: s.mode})
	if err != nil {
		return err
	}
	s.others = append(s.others, leader)
	s.manager = standby
	if err := s.settle(ctx); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: name, size: size, units: 1, unit: "failover",
		work: func(ctx context.Context, figures map[string]float64) error {
			return s.untilFirstPod(ctx, name, figures, func(context.Context) error { return leader.Signal(signal) })
		},
	})
}
