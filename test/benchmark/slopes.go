package benchmark

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/benchmark/report"
)

// slopeObjects are the numbers of objects that are added for each kind: the memory of all of them is to be
// large beside that by which one start differs from the next.
var slopeObjects = map[string]int{
	report.NoKind: 0, report.KindNode: 1000, report.KindPod: 5000, report.KindJob: 5000, report.KindService: 2000, report.KindConfigMap: 10000,
}

// configMapText is the size of a ConfigMap of the slopes, in bytes.
const configMapText = 1 << 10

// runSlopes starts a manager again and again, each time with more objects of one more kind.
func runSlopes(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	f := &fleet{stage: s}
	store := map[string]func(context.Context, int) error{
		report.NoKind:        func(context.Context, int) error { return nil },
		report.KindNode:      f.createNodes,
		report.KindPod:       f.runPods,
		report.KindJob:       s.createOldJobs,
		report.KindService:   s.createServices,
		report.KindConfigMap: s.createConfigMaps,
	}
	for _, kind := range report.SlopeKinds {
		n := scaledHundreds(slopeObjects[kind], s.options.Scale)
		if err := store[kind](ctx, n); err != nil {
			return fmt.Errorf("storing %ss: %w", kind, err)
		}
		if err := f.measureSlope(ctx, kind, n); err != nil {
			return err
		}
	}
	return nil
}

// measureSlope takes the memory of a manager at rest, and what is alive in its heap.
func (f *fleet) measureSlope(ctx context.Context, kind string, n int) error {
	defer f.beat(ctx)()
	if err := f.bringToRest(ctx); err != nil {
		return err
	}
	size := "start in an empty cluster"
	if n > 0 {
		size = fmt.Sprintf("start with %d %ss more", n, kind)
	}
	err := f.measure(ctx, phase{
		name: report.SlopePhase(kind), size: size, units: float64(n), unit: strings.ToLower(kind),
		work: f.startAgainAndHold, after: f.addHeap, check: f.describeRest,
	})
	if err != nil {
		return err
	}
	return f.retire()
}

// createOldJobs creates Jobs that have finished, and are kept for longer than anything here takes.
func (s *stage) createOldJobs(ctx context.Context, n int) error {
	return s.createFinishedJobs(ctx, n, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
}

// createServices creates Services of no pods: what a pod costs is another line.
func (s *stage) createServices(ctx context.Context, n int) error {
	return each(ctx, n, func(ctx context.Context, i int) error {
		service := newService(i)
		service.Spec.Selector = map[string]string{"app": service.Name}
		_, err := s.client.CoreV1().Services(load).Create(ctx, service, metav1.CreateOptions{})
		return err
	})
}

func (s *stage) createConfigMaps(ctx context.Context, n int) error {
	text := strings.Repeat(ballastTemplate, configMapText/len(ballastTemplate))
	return each(ctx, n, func(ctx context.Context, i int) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: numbered("settings", i)}, Data: map[string]string{"text": text}}
		_, err := s.client.CoreV1().ConfigMaps(load).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}
