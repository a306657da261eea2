package benchmark

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	provisionedClaims = 1000
	attachedVolumes   = 2000
	storageNodes      = 100
	idleClaims        = 10000
)

// runStorage has volumes provisioned, attached and detached, and then watches many claims of which none changes.
func runStorage(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Provisioner: driverName}
	if _, err := s.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a class: %w", err)
	}
	f := &fleet{stage: s, leases: make([]renewals, scaled(storageNodes, s.options.Scale))}
	if err := each(ctx, len(f.leases), f.createStorageNode); err != nil {
		return err
	}
	defer f.beat(ctx)()
	d, stop, err := s.serve(ctx)
	defer stop()
	if err != nil {
		return fmt.Errorf("starting the driver: %w", err)
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := d.measureProvisioning(ctx); err != nil {
		return err
	}
	if err := d.measureAttaching(ctx, len(f.leases)); err != nil {
		return err
	}
	return d.measureIdle(ctx)
}

// createStorageNode creates a node whose volumes the manager attaches. Its kubelet never mounts any.
func (f *fleet) createStorageNode(ctx context.Context, i int) error {
	if err := f.createNode(ctx, i); err != nil {
		return fmt.Errorf("creating a node: %w", err)
	}
	patch := []byte(`{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}`)
	_, err := f.client.CoreV1().Nodes().Patch(ctx, nodeName(i), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (d *driver) measureProvisioning(ctx context.Context) error {
	n := scaled(provisionedClaims, d.options.Scale)
	return d.measure(ctx, phase{
		name: "storage-provision", size: fmt.Sprintf("%d claims provisioned and bound", n), units: float64(n), unit: "claim",
		work:  func(ctx context.Context, _ map[string]float64) error { return d.createClaims(ctx, 0, n) },
		check: d.describe,
	})
}

// measureAttaching has volumes attached to nodes by creating pods, and detached by deleting them.
func (d *driver) measureAttaching(ctx context.Context, nodes int) error {
	n := scaled(attachedVolumes, d.options.Scale)
	if err := d.createClaims(ctx, scaled(provisionedClaims, d.options.Scale), n); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	pods := d.client.CoreV1().Pods(load)
	err := d.measure(ctx, phase{
		name: "storage-attach", size: fmt.Sprintf("%d volumes attached to %d nodes", n, nodes), units: float64(n), unit: "volume",
		work: func(ctx context.Context, _ map[string]float64) error {
			err := each(ctx, n, func(ctx context.Context, i int) error {
				_, err := pods.Create(ctx, newUser(i, nodeName(i%nodes)), metav1.CreateOptions{})
				return err
			})
			if err != nil {
				return err
			}
			return d.until(ctx, "the volumes are attached", d.attached(n))
		},
		check: d.describe,
	})
	if err != nil {
		return err
	}
	return d.measure(ctx, phase{
		name: "storage-detach", size: fmt.Sprintf("%d volumes detached from %d nodes", n, nodes), units: float64(n), unit: "volume",
		work: func(ctx context.Context, _ map[string]float64) error {
			err := each(ctx, n, func(ctx context.Context, i int) error {
				return pods.Delete(ctx, numbered("user", i), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
			})
			if err != nil {
				return err
			}
			return d.until(ctx, "the volumes are detached", d.attached(0))
		},
		check: d.describe,
	})
}

// measureIdle stores more bound claims while no manager runs.
func (d *driver) measureIdle(ctx context.Context) error {
	from, n := scaled(attachedVolumes, d.options.Scale), scaled(idleClaims, d.options.Scale)
	if err := d.retire(); err != nil {
		return err
	}
	if err := each(ctx, n-from, func(ctx context.Context, i int) error { return d.storeBound(ctx, from+i) }); err != nil {
		return err
	}
	if err := d.startAgain(ctx, settings{mode: d.mode}); err != nil {
		return err
	}
	return d.measure(ctx, phase{
		name: "storage-idle", size: fmt.Sprintf("%d bound claims for %s", n, d.options.Idle), units: d.options.Idle.Minutes(), unit: "minute",
		work:  func(ctx context.Context, figures map[string]float64) error { return idle(ctx, d.options.Idle, figures) },
		check: d.describe,
	})
}

// createClaims creates claims and waits until these and those before them are bound.
func (d *driver) createClaims(ctx context.Context, from, to int) error {
	err := each(ctx, to-from, func(ctx context.Context, i int) error {
		_, err := d.client.CoreV1().PersistentVolumeClaims(load).Create(ctx, newClaim(from+i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return d.until(ctx, "the claims are bound", d.bound(to))
}

func newClaim(i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: numbered("claim", i)}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		StorageClassName: ptr.To(driverName),
	}}
}

// newUser makes a pod on a node that uses the i-th claim.
func newUser(i int, node string) *corev1.Pod {
	template := podTemplate(map[string]string{"app": "user"}, corev1.RestartPolicyAlways)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Spec.NodeName = numbered("user", i), node
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: numbered("claim", i)},
	}})
	return pod
}

// storeBound creates a claim and its volume as they are when a manager has bound them.
func (d *driver) storeBound(ctx context.Context, i int) error {
	const boundByController = "pv.kubernetes.io/bound-by-controller"
	claim, volume := newClaim(i), numbered("volume", i)
	claim.Spec.VolumeName = volume
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", boundByController: "yes", provisionerAnnotation: driverName}
	claim, err := d.client.CoreV1().PersistentVolumeClaims(load).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a claim: %w", err)
	}
	created, err := d.client.CoreV1().PersistentVolumes().Create(ctx, newVolume(volume, claim), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating a volume: %w", err)
	}
	created.Status.Phase = corev1.VolumeBound
	if _, err := d.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("binding a volume: %w", err)
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests}
	if _, err := d.client.CoreV1().PersistentVolumeClaims(load).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("binding a claim: %w", err)
	}
	return nil
}

// bound returns nil when n claims and volumes are bound, as far as the driver has seen.
func (d *driver) bound(n int) func(context.Context) error {
	return func(context.Context) error {
		t, err := d.tally()
		if err == nil && (t[claimsBound] != n || t[volumesBound] != n) {
			err = fmt.Errorf("there are %s", t)
		}
		return err
	}
}

// attached returns nil when just n volumes are attached, and nodes show them.
func (d *driver) attached(n int) func(context.Context) error {
	return func(context.Context) error {
		t, err := d.tally()
		if err == nil && (t[attachmentsDone] != n || t[attachmentsShown] != n || t[attachmentsOpen] != 0) {
			err = fmt.Errorf("there are %s", t)
		}
		return err
	}
}

// Descriptions of what there is.
const (
	claimsBound      = "claims Bound"
	volumesBound     = "volumes Bound"
	attachmentsDone  = "VolumeAttachments, attached"
	attachmentsOpen  = "VolumeAttachments, not attached"
	attachmentsShown = "volumes shown by nodes"
)

// tally counts what the driver has seen.
func (d *driver) tally() (tally, error) {
	core, everything := d.informers.Core().V1(), labels.Everything()
	claims, claimsErr := core.PersistentVolumeClaims().Lister().List(everything)
	volumes, volumesErr := core.PersistentVolumes().Lister().List(everything)
	attachments, attachmentsErr := d.informers.Storage().V1().VolumeAttachments().Lister().List(everything)
	nodes, nodesErr := core.Nodes().Lister().List(everything)
	t := tally{}
	for _, claim := range claims {
		t.add("claims %s", claim.Status.Phase)
	}
	for _, volume := range volumes {
		t.add("volumes %s", volume.Status.Phase)
	}
	for _, va := range attachments {
		t.add("%s", map[bool]string{true: attachmentsDone, false: attachmentsOpen}[va.Status.Attached])
	}
	for _, node := range nodes {
		for range node.Status.VolumesAttached {
			t.add("%s", attachmentsShown)
		}
	}
	return t, errors.Join(d.failed(), claimsErr, volumesErr, attachmentsErr, nodesErr)
}

func (d *driver) describe(context.Context) (string, error) {
	t, err := d.tally()
	return t.String(), err
}
