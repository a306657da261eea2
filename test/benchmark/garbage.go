package benchmark

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	owners     = 20
	dependents = 100 // of each
)

// runGarbage deletes owners; what is counted is the collection of their dependents.
func runGarbage(ctx context.Context, s *stage) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	n := scaled(owners, s.options.Scale)
	if err := each(ctx, n, s.createFamily); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	secrets := s.client.CoreV1().Secrets(load)
	return s.measure(ctx, phase{
		name: "garbage", size: fmt.Sprintf("%d dependents of %d deleted owners", n*dependents, n), units: float64(n * dependents), unit: "dependent",
		work: func(ctx context.Context, _ map[string]float64) error {
			err := each(ctx, n, func(ctx context.Context, i int) error {
				background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
				return s.client.CoreV1().ConfigMaps(load).Delete(ctx, numbered("owner", i), background)
			})
			if err != nil {
				return err
			}
			return s.until(ctx, "all dependents are gone", func(ctx context.Context) error {
				list, err := secrets.List(ctx, one)
				if err == nil && len(list.Items) > 0 {
					err = fmt.Errorf("%d are left", count(len(list.Items), list.ListMeta))
				}
				return err
			})
		},
	})
}

// createFamily creates a ConfigMap and the Secrets it owns.
func (s *stage) createFamily(ctx context.Context, i int) error {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: numbered("owner", i)}}
	owner, err := s.client.CoreV1().ConfigMaps(load).Create(ctx, owner, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for j := range dependents {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("dependent-%d-%d", i, j),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
		}}
		if _, err := s.client.CoreV1().Secrets(load).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
