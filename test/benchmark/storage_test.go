package benchmark

import (
	"context"
	"fmt"
	"slices"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/fakeclient"
	"kcmd.dev/test/must"
)

// The driver creates volumes for the claims that the manager asks it for, and does what VolumeAttachments ask for.
func TestDriverServesClaimsAndVolumeAttachments(t *testing.T) {
	client := fakeclient.New()
	asked, waiting, other := newClaim(0), newClaim(1), newClaim(2)
	asked.UID, other.UID = "asked", "other"
	asked.Annotations = map[string]string{provisionerAnnotation: driverName}
	other.Annotations = map[string]string{provisionerAnnotation: "other.example.com"}
	claims, volumes, attachments := client.CoreV1().PersistentVolumeClaims(load), client.CoreV1().PersistentVolumes(), client.StorageV1().VolumeAttachments()
	must.Get(claims.Create(t.Context(), asked, metav1.CreateOptions{}))(t)
	must.Get(claims.Create(t.Context(), waiting, metav1.CreateOptions{}))(t)
	must.Get(claims.Create(t.Context(), other, metav1.CreateOptions{}))(t)

	d, stop, err := (&stage{client: client}).serve(t.Context())
	must.Succeed(t, err)
	defer stop()
	awaitVolumes := func(want ...string) {
		t.Helper()
		await.That(t, fmt.Sprintf("the volumes are %q", want), func(ctx context.Context) error {
			list, err := volumes.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, v := range list.Items {
				got = append(got, v.Name+" of "+v.Spec.ClaimRef.Name)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("they are %q", got)
			}
			return nil
		})
	}
	awaitVolumes("pvc-asked of claim-0")
	waiting.UID, waiting.Annotations = "waiting", asked.Annotations
	must.Get(claims.Update(t.Context(), waiting, metav1.UpdateOptions{}))(t)
	awaitVolumes("pvc-asked of claim-0", "pvc-waiting of claim-1")

	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va"}}
	va.Spec = storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: nodeName(0), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pvc-asked")}}
	must.Get(attachments.Create(t.Context(), va, metav1.CreateOptions{}))(t)
	await.That(t, "the volume is attached, and its VolumeAttachment protected", func(ctx context.Context) error {
		got, err := attachments.Get(ctx, "va", metav1.GetOptions{})
		if err == nil && (!got.Status.Attached || !slices.Contains(got.Finalizers, attacherFinalizer)) {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	leaving := must.Get(attachments.Get(t.Context(), "va", metav1.GetOptions{}))(t)
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	must.Get(attachments.Update(t.Context(), leaving, metav1.UpdateOptions{}))(t)
	await.That(t, "the VolumeAttachment can go", func(ctx context.Context) error {
		got, err := attachments.Get(ctx, "va", metav1.GetOptions{})
		if err == nil && len(got.Finalizers) > 0 {
			err = fmt.Errorf("its finalizers are %q", got.Finalizers)
		}
		return err
	})
	must.Succeed(t, d.failed())
}
