package benchmark

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/benchmark/report"
)

const (
	ballastObjects  = 2000
	configMapBytes  = 64 << 10
	secretBytes     = 16 << 10
	changePods      = 2000
	memoryHold      = 8 * time.Second // so that the garbage of the start is collected
	ballastTemplate = "0123456789abcdefghijklmnopqrstuvwxyz\n"
)

// runBallast starts a manager on a cluster full of objects that no controller reads.
func runBallast(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	n := scaled(ballastObjects, s.options.Scale)
	if err := each(ctx, n, s.createBallast); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: "ballast", size: fmt.Sprintf("start with %d ConfigMaps of %d KiB and %d Secrets of %d KiB", n, configMapBytes>>10, n, secretBytes>>10), units: 1, unit: "start",
		work: s.startAndHold,
	})
}

func (s *stage) createBallast(ctx context.Context, i int) error {
	text := bytes.Repeat([]byte(ballastTemplate), configMapBytes/len(ballastTemplate))
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: numbered("ballast", i)}, Data: map[string]string{"text": string(text)}}
	if _, err := s.client.CoreV1().ConfigMaps(load).Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
		return err
	}
	noise := make([]byte, secretBytes)
	for j := range noise {
		noise[j] = byte(rand.Uint32())
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: numbered("ballast", i)}, Data: map[string][]byte{"noise": noise}}
	_, err := s.client.CoreV1().Secrets(load).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// startAndHold starts the manager and leaves it alone for a while. The time it took is
// that until it worked.
func (s *stage) startAndHold(ctx context.Context, figures map[string]float64) error {
	return s.holdAfter(ctx, figures, s.start)
}

func (s *stage) holdAfter(ctx context.Context, figures map[string]float64, start func(context.Context) error) error {
	began := time.Now()
	if err := start(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	if err := idle(ctx, memoryHold, figures); err != nil {
		return err
	}
	figures[report.Wall] = took.Seconds()
	return nil
}
