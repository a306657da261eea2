package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// step is a part of the life of a volume: something happens, a controller begins an operation, one
// of the driver's programs carries it out, and the controller draws its conclusions.
type step struct {
	name string
	act  func(t *testing.T, namespace string)
	// begun is nil once an operation has begun that the driver has not answered.
	begun func(ctx context.Context, namespace string) error
	// answered is nil once the driver's program has done its part.
	answered func(ctx context.Context, namespace string) error
	// state is that of the volume after the step, see describe.
	state string
}

// The states between which a volume moves.
const (
	boundClaim = "claim Bound, has 1Gi, allocated 0 \"\", conditions []" + claimMarks
	claimMarks = ", finalizers [kubernetes.io/pvc-protection], annotations [pv.kubernetes.io/bind-completed " +
		"pv.kubernetes.io/bound-by-controller volume.beta.kubernetes.io/storage-provisioner volume.kubernetes.io/storage-provisioner]\n"
	provisionedVolume = "finalizers [external-provisioner.volume.kubernetes.io/finalizer kubernetes.io/pv-protection]\n"
	attachedOnce      = "finalizers [external-attacher/csi-kcmd-dev external-provisioner.volume.kubernetes.io/finalizer kubernetes.io/pv-protection]\n"
	expandedClaim     = "claim Bound, has 1Gi, allocated 2Gi \"NodeResizePending\", conditions [Resizing=True FileSystemResizePending=True]" + claimMarks
	nowhere           = "attached to [], reported by [], driver: %d bytes on []"
	onNode            = "attached to [node-0 attached], reported by [node-0], driver: %d bytes on [node-0]"
)

var (
	provisioned = step{
		name: "provisioned",
		act: func(t *testing.T, namespace string) {
			t.Helper()
			createClaim(t, namespace, namespace)
		},
		begun: func(ctx context.Context, namespace string) error {
			claim, err := getClaim(ctx, namespace)
			if err == nil && claim.Annotations["volume.kubernetes.io/storage-provisioner"] != controlplane.CSIDriver {
				err = fmt.Errorf("the claim has the annotations %v", claim.Annotations)
			}
			return err
		},
		answered: func(ctx context.Context, namespace string) error {
			_, err := volumeOf(ctx, namespace)
			return err
		},
		state: boundClaim + "volume Bound, 1Gi, Delete, " + provisionedVolume + fmt.Sprintf(nowhere, gi),
	}
	attached = step{
		name: "attached",
		act: func(t *testing.T, namespace string) {
			t.Helper()
			createPod(t, namespace, "pod", harness.OnNode(0))
		},
		begun:    attachmentsAre("node-0"),
		answered: attachmentsAre("node-0 attached"),
		state:    boundClaim + "volume Bound, 1Gi, Delete, " + attachedOnce + fmt.Sprintf(onNode, gi),
	}
	expanded = step{
		name:     "expanded",
		act:      grow,
		begun:    expansionIs(corev1.PersistentVolumeClaimControllerResizeInProgress),
		answered: expansionIs(corev1.PersistentVolumeClaimNodeResizePending),
		state:    expandedClaim + "volume Bound, 2Gi, Delete, " + attachedOnce + fmt.Sprintf(onNode, 2*gi),
	}
	detached = step{
		name: "detached",
		act: func(t *testing.T, namespace string) {
			t.Helper()
			cluster.DeletePodNow(t, namespace, "pod")
		},
		begun:    attachmentsAre("node-0 attached deleted"),
		answered: attachmentsAre(),
		state:    expandedClaim + "volume Bound, 2Gi, Delete, " + attachedOnce + fmt.Sprintf(nowhere, 2*gi),
	}
	deleted = step{
		name: "deleted",
		act:  deleteClaim,
		begun: func(ctx context.Context, namespace string) error {
			volume, err := volumeOf(ctx, namespace)
			if err == nil && volume.Status.Phase != corev1.VolumeReleased {
				err = fmt.Errorf("the volume is %s", volume.Status.Phase)
			}
			return err
		},
		// Without a manager, nobody takes the last finalizer off.
		answered: func(ctx context.Context, namespace string) error {
			volume, err := volumeOf(ctx, namespace)
			if err != nil {
				return err
			}
			volumes, err := cluster.CSIVolumes()
			if _, there := volumes[volume.Name]; there {
				return errors.New("the driver has it")
			}
			return err
		},
		state: "no claim, no volume",
	}
)

// volumeOf returns the volume that is for the claim.
func volumeOf(ctx context.Context, namespace string) (*corev1.PersistentVolume, error) {
	all, err := admin.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Items, func(v corev1.PersistentVolume) bool {
		return v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == namespace
	})
	if i < 0 {
		return nil, errNoVolume
	}
	return &all.Items[i], nil
}

var errNoVolume = errors.New("there is no volume")

func attachmentsAre(want ...string) func(context.Context, string) error {
	return func(ctx context.Context, namespace string) error {
		volume, err := volumeOf(ctx, namespace)
		if err != nil {
			return err
		}
		got, err := attachments(ctx, volume.Name)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("the VolumeAttachments are %q", got)
		}
		return err
	}
}

func expansionIs(want corev1.ClaimResourceStatus) func(context.Context, string) error {
	return func(ctx context.Context, namespace string) error {
		claim, err := getClaim(ctx, namespace)
		if got := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; err == nil && got != want {
			err = fmt.Errorf("the expansion is %q", got)
		}
		return err
	}
}

// describe says all that there is of the volume of a namespace, but for names and times.
func describe(ctx context.Context, namespace string) (string, error) {
	claim, claimErr := getClaim(ctx, namespace)
	volume, err := volumeOf(ctx, namespace)
	switch {
	case apierrors.IsNotFound(claimErr) && errors.Is(err, errNoVolume):
		return deleted.state, nil
	case claimErr != nil || err != nil:
		return "", errors.Join(claimErr, err)
	}
	objects, err := attachments(ctx, volume.Name)
	if err != nil {
		return "", err
	}
	reported, err := reporting(ctx, volume.Name)
	if err != nil {
		return "", err
	}
	volumes, err := cluster.CSIVolumes()
	if err != nil {
		return "", err
	}
	has := volumes[volume.Name]
	return fmt.Sprintf("%s\nvolume %s, %s, %s, finalizers %v\nattached to %v, reported by %v, driver: %d bytes on %v",
		describeClaim(claim), volume.Status.Phase, size(volume.Spec.Capacity), volume.Spec.PersistentVolumeReclaimPolicy,
		slices.Sorted(slices.Values(volume.Finalizers)), objects, reported, has.CapacityBytes, has.Nodes), nil
}

func describeClaim(claim *corev1.PersistentVolumeClaim) string {
	var conditions []string
	for _, c := range claim.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return fmt.Sprintf("claim %s, has %s, allocated %s %q, conditions [%s], finalizers %v, annotations %v",
		claim.Status.Phase, size(claim.Status.Capacity), size(claim.Status.AllocatedResources),
		claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage], strings.Join(conditions, " "),
		slices.Sorted(slices.Values(claim.Finalizers)), slices.Sorted(maps.Keys(claim.Annotations)))
}

func size(all corev1.ResourceList) string {
	q := all[corev1.ResourceStorage]
	return q.String()
}

func awaitState(t *testing.T, namespace, want string) {
	t.Helper()
	await.That(t, "the volume is in the state that it ends in", func(ctx context.Context) error {
		got, err := describe(ctx, namespace)
		if err == nil && got != want {
			err = fmt.Errorf("got\n%s\nwant\n%s", got, want)
		}
		return err
	})
}

func awaitOf(t *testing.T, namespace, what string, check func(context.Context, string) error) {
	t.Helper()
	await.That(t, what, func(ctx context.Context) error { return check(ctx, namespace) })
}

// pauseDriver has the driver answer nothing until it is resumed, at the latest at the end of the test.
func pauseDriver(t *testing.T) (resume func()) {
	t.Helper()
	must.Succeed(t, cluster.PauseCSIDriver())
	t.Cleanup(func() { _ = cluster.ResumeCSIDriver() })
	return func() {
		t.Helper()
		must.Succeed(t, cluster.ResumeCSIDriver())
	}
}
