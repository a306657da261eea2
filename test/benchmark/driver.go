package benchmark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	driverName        = "csi.example.com"
	attacherFinalizer = "external-attacher/csi-example-com"
	// provisionerAnnotation is how the manager asks for a volume for a claim.
	provisionerAnnotation = "volume.kubernetes.io/storage-provisioner"
)

// driver does at once what the external provisioner and the external attacher of a CSI driver do, with the
// requests that they send: it creates volumes for claims, and reports VolumeAttachments as attached. It is the
// same for both subjects.
type driver struct {
	*stage
	informers informers.SharedInformerFactory
	work      workqueue.TypedInterface[task]

	mu  sync.Mutex
	err error // why it does not work
}

// task is an object that the driver has something to do for.
type task struct {
	kind, name string
}

const (
	provision = "claim"
	attach    = "attachment"
)

// serve runs a driver until stop is called.
func (s *stage) serve(ctx context.Context) (d *driver, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	d = &driver{stage: s, informers: informers.NewSharedInformerFactory(s.client, 0), work: workqueue.NewTyped[task]()}
	core, storage := d.informers.Core().V1(), d.informers.Storage().V1()
	core.PersistentVolumes().Informer()
	core.Nodes().Informer()
	err = errors.Join(
		d.watch(core.PersistentVolumeClaims().Informer(), provision),
		d.watch(storage.VolumeAttachments().Informer(), attach),
	)
	d.informers.Start(ctx.Done())
	for kind, synced := range d.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			err = errors.Join(err, fmt.Errorf("the cache of %s is not filled", kind))
		}
	}
	var working sync.WaitGroup
	for range parallelism {
		working.Go(func() { d.workOff(ctx) })
	}
	return d, func() {
		cancel()
		d.work.ShutDown()
		working.Wait()
		d.informers.Shutdown()
	}, err
}

// watch gives the driver work for what is created or changed.
func (d *driver) watch(informer cache.SharedIndexInformer, kind string) error {
	add := func(object any) {
		if o, ok := object.(metav1.Object); ok {
			d.work.Add(task{kind, o.GetName()})
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }})
	return err
}

func (d *driver) workOff(ctx context.Context) {
	for {
		t, ended := d.work.Get()
		if ended {
			return
		}
		do := map[string]func(context.Context, string) error{provision: d.provision, attach: d.attach}[t.kind]
		if err := do(ctx, t.name); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			d.fail(fmt.Errorf("serving %s %s: %w", t.kind, t.name, err))
		}
		d.work.Done(t)
	}
}

func (d *driver) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = errors.Join(d.err, err)
}

func (d *driver) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// provision creates the volume of a claim once the manager asks for it.
func (d *driver) provision(ctx context.Context, name string) error {
	claim, err := d.informers.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(load).Get(name)
	if err != nil || claim.Spec.VolumeName != "" || claim.Annotations[provisionerAnnotation] != driverName {
		return err
	}
	_, err = d.client.CoreV1().PersistentVolumes().Create(ctx, newVolume("pvc-"+string(claim.UID), claim), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the claim changed while the manager bound it
	}
	return err
}

// attach does what a VolumeAttachment asks for.
func (d *driver) attach(ctx context.Context, name string) error {
	va, err := d.informers.Storage().V1().VolumeAttachments().Lister().Get(name)
	if err != nil {
		return err
	}
	patch := func(patch string, subresources ...string) error {
		_, err := d.client.StorageV1().VolumeAttachments().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
		return err
	}
	protected := slices.Contains(va.Finalizers, attacherFinalizer)
	switch {
	case va.DeletionTimestamp != nil && protected:
		return patch(`{"metadata":{"finalizers":null}}`)
	case va.DeletionTimestamp != nil:
		return nil
	case !protected:
		return patch(`{"metadata":{"finalizers":["` + attacherFinalizer + `"]}}`)
	case !va.Status.Attached:
		return patch(`{"status":{"attached":true}}`, "status")
	}
	return nil
}

// newVolume makes the volume of a claim.
func newVolume(name string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": driverName}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      claim.Spec.Resources.Requests,
			StorageClassName:              *claim.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driverName, VolumeHandle: name, FSType: "ext4", VolumeAttributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": driverName},
			}},
		},
	}
}
