package apimachinery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

const (
	identityLabel = "apiserver.kubernetes.io/identity"
	identityValue = "kube-apiserver"
)

// identity publishes an API server until the end of the test.
func identity(t *testing.T, name string) {
	t.Helper()
	leases := admin.CoordinationV1().Leases("kube-system")
	must.Get(leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{identityLabel: identityValue}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = leases.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// stored records how API servers store a resource: pairs of an ID and a version.
func stored(t *testing.T, name string, servers ...[2]string) *apiserverinternalv1alpha1.StorageVersion {
	t.Helper()
	storageVersions := admin.InternalV1alpha1().StorageVersions()
	sv := must.Get(storageVersions.Create(t.Context(), &apiserverinternalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = storageVersions.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	for _, s := range servers {
		sv.Status.StorageVersions = append(sv.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
			APIServerID: s[0], EncodingVersion: s[1], DecodableVersions: []string{"v1", "v2"},
		})
	}
	storageversion.SetCommonEncodingVersion(sv)
	return must.Get(storageVersions.UpdateStatus(t.Context(), sv, metav1.UpdateOptions{}))(t)
}

func awaitDeleted(t *testing.T, name string) {
	t.Helper()
	await.That(t, "the StorageVersion is deleted", func(ctx context.Context) error {
		_, err := admin.InternalV1alpha1().StorageVersions().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is not"), err)
	})
}

// Pins SVGC-7, SVGC-11, SVGC-12, SVGC-36 and SVGC-22.
func TestAStorageVersionOfAnUnknownAPIServerIsDeleted(t *testing.T) {
	t.Parallel()
	stored(t, "example.com.unknowns", [2]string{"nobody", "v1"})
	awaitDeleted(t, "example.com.unknowns")
}

// Pins SVGC-7, SVGC-9 and SVGC-21.
func TestTheEntriesOfAPIServersThatExistStay(t *testing.T) {
	t.Parallel()
	leases := must.Get(admin.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: identityLabel + "=" + identityValue}))(t)
	var running string
	for i := range leases.Items {
		if holder := leases.Items[i].Spec.HolderIdentity; holder != nil && *holder != leases.Items[i].Name {
			running = leases.Items[i].Name // those of tests hold their own
		}
	}
	if running == "" {
		t.Fatalf("no API server has a lease: %v", leases.Items)
	}
	kept := stored(t, "example.com.kept", [2]string{running, "v1"})
	reduced := stored(t, "example.com.reduced", [2]string{"nobody", "v2"}, [2]string{running, "v1"})
	awaitReduced(t, reduced.Name, running, "v1")
	stored(t, "example.com.later", [2]string{"nobody", "v1"})
	awaitDeleted(t, "example.com.later")
	if is := must.Get(admin.InternalV1alpha1().StorageVersions().Get(t.Context(), kept.Name, metav1.GetOptions{}))(t); is.ResourceVersion != kept.ResourceVersion {
		t.Errorf("it changed to %+v", is.Status)
	}
}

// awaitReduced waits until one API server is left.
func awaitReduced(t *testing.T, name, server, version string) {
	t.Helper()
	await.That(t, "one API server is left", func(ctx context.Context) error {
		sv, err := admin.InternalV1alpha1().StorageVersions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := sv.Status
		if len(s.StorageVersions) != 1 || s.StorageVersions[0].APIServerID != server || s.CommonEncodingVersion == nil || *s.CommonEncodingVersion != version ||
			!slices.ContainsFunc(s.Conditions, func(c apiserverinternalv1alpha1.StorageVersionCondition) bool {
				return c.Type == apiserverinternalv1alpha1.AllEncodingVersionsEqual && c.Status == apiserverinternalv1alpha1.ConditionTrue && c.Reason == "CommonEncodingVersionSet"
			}) {
			return fmt.Errorf("status is %+v", s)
		}
		return nil
	})
}

// Pins SVGC-35, SVGC-8, SVGC-10, SVGC-12, SVGC-17 and SVGC-23.
func TestALostAPIServerIsRemoved(t *testing.T) {
	t.Parallel()
	identity(t, "lost-a")
	identity(t, "lost-b")
	sv := stored(t, "example.com.lost", [2]string{"lost-a", "v1"}, [2]string{"lost-b", "v2"})
	if sv.Status.CommonEncodingVersion != nil {
		t.Fatalf("status is %+v", sv.Status)
	}
	leases := admin.CoordinationV1().Leases("kube-system")
	must.Succeed(t, leases.Delete(t.Context(), "lost-a", metav1.DeleteOptions{}))
	awaitReduced(t, sv.Name, "lost-b", "v2")
	must.Succeed(t, leases.Delete(t.Context(), "lost-b", metav1.DeleteOptions{}))
	awaitDeleted(t, sv.Name)
}
