package benchmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/benchmark/report"
)

const (
	load        = "load" // the namespace of what is measured
	deployments = 20
	replicas    = 100
	fewer       = 10 // replicas after scaling in
)

func runDeployments(ctx context.Context, s *stage) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	n := scaled(deployments, s.options.Scale)
	pods := n * replicas
	complete := deploymentsComplete(s.client, load, n)
	for _, p := range []phase{
		{
			name: "scale-out", size: fmt.Sprintf("%d Deployments of %d pods, until all are available", n, replicas), units: float64(pods), unit: "pod",
			work: func(ctx context.Context, _ map[string]float64) error {
				if err := createDeployments(ctx, s.client, load, n, replicas); err != nil {
					return err
				}
				return s.until(ctx, "all are available", complete)
			},
			check: s.describe(pods),
		},
		{
			name: "rollout", size: fmt.Sprintf("a new template for %d Deployments of %d pods", n, replicas), units: float64(pods), unit: "pod",
			work: func(ctx context.Context, _ map[string]float64) error {
				if err := s.patchDeployments(ctx, n, `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`); err != nil {
					return err
				}
				return s.until(ctx, "all are rolled out", complete)
			},
			check: s.describe(pods),
		},
		{
			name: "scale-in", size: fmt.Sprintf("%d Deployments scaled from %d to %d pods", n, replicas, fewer), units: float64(n * (replicas - fewer)), unit: "pod",
			work: func(ctx context.Context, _ map[string]float64) error {
				if err := s.patchDeployments(ctx, n, fmt.Sprintf(`{"spec":{"replicas":%d}}`, fewer)); err != nil {
					return err
				}
				return s.until(ctx, "all are scaled in", complete)
			},
			check: s.describe(n * fewer),
		},
		{
			name: "delete", size: fmt.Sprintf("a namespace of %d Deployments of %d pods deleted", n, fewer), units: float64(n * fewer), unit: "pod",
			work: func(ctx context.Context, _ map[string]float64) error { return s.deleteNamespace(ctx, load) },
		},
	} {
		if err := s.measure(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) patchDeployments(ctx context.Context, n int, patch string) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		_, err := s.client.AppsV1().Deployments(load).Patch(ctx, numbered("web", i), types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

func (s *stage) deleteNamespace(ctx context.Context, name string) error {
	if err := s.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return s.until(ctx, "the namespace is gone", func(ctx context.Context) error {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is not gone")
	})
}

// describe checks that there are as many pods as there should be, once kwok has ended
// those that are terminating, and describes what is there.
func (s *stage) describe(pods int) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		err := s.until(ctx, fmt.Sprintf("there are %d pods", pods), func(ctx context.Context) error {
			list, err := s.client.CoreV1().Pods(load).List(ctx, one)
			if err == nil && count(len(list.Items), list.ListMeta) != pods {
				err = fmt.Errorf("there are %d", count(len(list.Items), list.ListMeta))
			}
			return err
		})
		if err != nil {
			return "", err
		}
		return workloads(ctx, s.client, load)
	}
}

// runSteady is about what a manager does when nothing happens.
func runSteady(ctx context.Context, s *stage) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	n := scaled(deployments, s.options.Scale)
	if err := createDeployments(ctx, s.client, load, n, replicas); err != nil {
		return err
	}
	if err := s.until(ctx, "all are available", deploymentsComplete(s.client, load, n)); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: "steady", size: fmt.Sprintf("%d pods for %s", n*replicas, s.options.Idle), units: s.options.Idle.Minutes(), unit: "minute",
		work:  func(ctx context.Context, figures map[string]float64) error { return idle(ctx, s.options.Idle, figures) },
		check: s.describe(n * replicas),
	})
}

// idle lets time pass; how long it took is no figure.
func idle(ctx context.Context, period time.Duration, figures map[string]float64) error {
	figures[report.Wall] = 0
	return pause(ctx, period)
}

func pause(ctx context.Context, period time.Duration) error {
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
