package rootca

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (p *publisher) reconcile(ctx context.Context, namespace string) error {
	published, found, err := reconcile.Found(p.configMaps.ConfigMaps(namespace).Get(configMapName))
	switch {
	case err != nil:
		return err
	case !found:
		return p.create(ctx, namespace)
	case correct(published, p.bundle):
		return nil
	}
	_, err = p.Client.CoreV1().ConfigMaps(namespace).Update(controller.OnlyMetadata(ctx), corrected(published, p.bundle), metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating config map %s/%s: %w", namespace, configMapName, err)
	}
	return nil
}

func (p *publisher) create(ctx context.Context, namespace string) error {
	ns, found, err := reconcile.Found(p.namespaces.Get(namespace))
	if !found || leaving(ns) {
		return err
	}
	_, err = p.Client.CoreV1().ConfigMaps(namespace).Create(controller.OnlyMetadata(ctx), newConfigMap(namespace, p.bundle), metav1.CreateOptions{})
	return reconcile.AfterCreate(p.queue, namespace, fmt.Sprintf("config map %s/%s", namespace, configMapName), err)
}
