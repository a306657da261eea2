// Package vacprotection keeps a VolumeAttributesClass from being deleted while a volume or a claim
// refers to it.
//
// The model, in rules:
//
//  1. The API server adds a finalizer to each class on creation. If it is missing, the controller
//     adds it.
//  2. The controller removes the finalizer from a class that is being deleted once no volume or
//     claim refers to the class, in any state. A claim refers to its requested class, its current
//     class and its target class.
//  3. If an update removes a reference to a class, or the object that refers to it is deleted, the
//     controller enqueues the class.
//  4. The controller looks up references only in indexes of its caches, because deleting a class
//     loses no data. The caches may lack a claim that was created just before the deletion.
//
// Behaviour: docs/specs/volumeattributesclass-protection-controller.md.
package vacprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// finalizer is set by the admission plugin StorageObjectInUseProtection.
	finalizer protection.Finalizer = "kubernetes.io/vac-protection"

	// classIndex indexes volumes and claims by the names of the classes that they refer to.
	classIndex = "volumeAttributesClassName"
)

// Descriptor describes volumeattributesclass-protection-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "volumeattributesclass-protection-controller",
		ServiceAccount: "volumeattributesclass-protection-controller",
		ClusterScoped:  true,
		Gate:           gates.VolumeAttributesClass,
		Requires: []schema.GroupVersionResource{
			storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumes"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		},
	}, newController)
}

type protectionController struct {
	controller.Env
	classes storagelisters.VolumeAttributesClassLister
	volumes cache.Indexer
	claims  cache.Indexer
	queue   reconcile.Queue[string] // the loop, except in tests
	loop    *reconcile.Loop[string]
}

func newController(env controller.Env) (*protectionController, error) {
	classes, core := env.Informers.Storage().V1().VolumeAttributesClasses(), env.Informers.Core().V1()
	volumes, claims := core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer()
	index.Ensure(volumes, classIndex, classKeys)
	index.Ensure(claims, classIndex, classKeys)
	c := &protectionController{
		Env:     env,
		classes: classes.Lister(),
		volumes: volumes.GetIndexer(),
		claims:  claims.GetIndexer(),
	}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "vacprotection", Workers: 1}, c.reconcile)
	c.queue = c.loop
	c.watch(classes.Informer(), volumes, claims)
	return c, nil
}

// Run implements controller.Controller.
func (c *protectionController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
