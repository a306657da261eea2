package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// attacherFinalizer keeps a VolumeAttachment until its volume is detached.
const attacherFinalizer = "example.com/attacher"

// Attacher is a CSI driver with its external-attacher: it does what the VolumeAttachments of the driver ask for.
type Attacher struct {
	Driver string

	client kubernetes.Interface
	failed func(error) // is called with each error

	mu sync.Mutex
	// idle has it do nothing, broken has it report an error instead.
	idle   bool
	broken string
}

// NewAttacher makes an attacher that works while it runs. failed is called with the errors of requests.
func NewAttacher(client kubernetes.Interface, driver string, failed func(error)) *Attacher {
	return &Attacher{Driver: driver, client: client, failed: failed}
}

// Run works until ctx ends.
func (a *Attacher) Run(ctx context.Context) {
	for ctx.Err() == nil { // the API server ends watches of slow clients
		a.watch(ctx)
	}
}

// watch acts on what there is, and on what changes until the watch ends.
func (a *Attacher) watch(ctx context.Context) {
	events, err := a.client.StorageV1().VolumeAttachments().Watch(ctx, metav1.ListOptions{}) // begins with what there is
	if err != nil {
		return
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if va, ok := event.Object.(*storagev1.VolumeAttachment); ok {
			a.act(ctx, va)
		}
	}
}

// Stop has it do nothing, from now on and towards what there is.
func (a *Attacher) Stop() { a.set(true, "") }

// Fail has it report an error, from now on and towards what there is.
func (a *Attacher) Fail(text string) { a.set(false, text) }

// GoOn has it work again.
func (a *Attacher) GoOn() { a.set(false, "") }

func (a *Attacher) set(idle bool, broken string) {
	a.mu.Lock()
	a.idle, a.broken = idle, broken
	a.mu.Unlock()
	for _, va := range a.All() {
		a.act(context.Background(), &va)
	}
}

// All returns the VolumeAttachments of the driver.
func (a *Attacher) All() []storagev1.VolumeAttachment {
	list, err := a.client.StorageV1().VolumeAttachments().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		a.failed(err)
		return nil
	}
	return slices.DeleteFunc(list.Items, func(va storagev1.VolumeAttachment) bool { return va.Spec.Attacher != a.Driver })
}

// act does what a VolumeAttachment asks for.
func (a *Attacher) act(ctx context.Context, va *storagev1.VolumeAttachment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if va.Spec.Attacher != a.Driver {
		return
	}
	patch, status := a.answer(va)
	client := a.client.StorageV1().VolumeAttachments()
	var err error
	if patch != "" {
		_, err = client.Patch(ctx, va.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if status != "" {
		_, err = client.Patch(ctx, va.Name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		a.failed(fmt.Errorf("VolumeAttachment %s: %w", va.Name, err))
	}
}

// answer returns the patch of a VolumeAttachment that is due, or that of its status.
func (a *Attacher) answer(va *storagev1.VolumeAttachment) (patch, status string) {
	switch leaving := va.DeletionTimestamp != nil; {
	case !leaving && len(va.Finalizers) == 0:
		patch = `{"metadata":{"finalizers":["` + attacherFinalizer + `"]}}`
	case a.idle:
	case a.broken != "" && leaving && va.Status.DetachError == nil:
		status = `{"status":{"attached":true,"detachError":{"message":"` + a.broken + `"}}}`
	case a.broken != "" && !leaving && va.Status.AttachError == nil && !va.Status.Attached:
		status = `{"status":{"attached":false,"attachError":{"message":"` + a.broken + `"}}}`
	case a.broken != "":
	case leaving:
		patch = NoFinalizers
	case !va.Status.Attached:
		status = `{"status":{"attached":true,"attachError":null}}`
	}
	return patch, status
}
