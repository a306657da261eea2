// Package storage tests the controllers of volumes and claims: what keeps them from being deleted
// while they are in use, what makes claims for pods, what attaches volumes to nodes, what has
// volumes expanded, and what warns about pods that cannot share a volume.
//
// Nodes are simulated, and do not care whether volumes exist. What the binder does to volumes the
// tests do themselves.
//
// What a mistake of these controllers destroys is data. Tests of what they conclude from caches that
// lag behind, of restarts and of takeovers have managers of their own: see harness.Replica.
package storage

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
)

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{
			Nodes:                     1,
			Scheduler:                 true,
			NoServiceAccountAdmission: true,
			APIServerArgs:             []string{"--feature-gates=PersistentVolumeClaimUnusedSinceTime=true"},
		},
		Configure: harness.All(harness.Only(enabled), harness.WithoutLease),
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.EphemeralVolume.Enabled,
		&c.Controllers.PersistentVolumeAttachDetach.Enabled,
		&c.Controllers.PersistentVolumeClaimProtection.Enabled,
		&c.Controllers.PersistentVolumeExpander.Enabled,
		&c.Controllers.PersistentVolumeProtection.Enabled,
		&c.Controllers.SELinuxWarning.Enabled,
		&c.Controllers.VolumeAttributesClassProtection.Enabled,
	}
}

// only enables one controller.
func only(controller func(*manager.Config) **bool) func(*manager.Config) {
	return harness.Only(func(c *manager.Config) []**bool { return []**bool{controller(c)} })
}

// rest has the shared manager do nothing until the end of the test, which has one of its own.
func rest(t *testing.T) {
	t.Helper()
	cluster.Rest(t, enabled)
}

// createClaim creates a claim that nobody binds.
func createClaim(t *testing.T, namespace, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	return must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": namespace}},
		Spec:       claimSpec(),
	}, metav1.CreateOptions{}))(t)
}

func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		StorageClassName: ptr.To("none"),
	}
}

func deleteClaim(t *testing.T, namespace, name string) {
	t.Helper()
	must.Succeed(t, admin.CoreV1().PersistentVolumeClaims(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// getClaim fails if there is no such claim.
func getClaim(t *testing.T, namespace, name string) *corev1.PersistentVolumeClaim {
	t.Helper()
	return must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
}

func awaitClaimGone(t *testing.T, namespace, name string) {
	t.Helper()
	awaitGone(t, admin.CoreV1().PersistentVolumeClaims(namespace), name)
}

// isHeld fails unless a claim is being deleted and has its finalizer.
func isHeld(t *testing.T, namespace, name string) {
	t.Helper()
	claim := getClaim(t, namespace, name)
	if claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, claimFinalizer) {
		t.Fatalf("claim %s: deleted at %v, finalizers %q", name, claim.DeletionTimestamp, claim.Finalizers)
	}
}

// using makes a pod refer to a claim.
func using(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
}

// createPod creates a pod that is bound to a node unless an edit undoes it.
func createPod(t *testing.T, namespace, name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	return cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
		harness.OnNode(0)(p)
		for _, edit := range edits {
			edit(p)
		}
	})
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = "", "nobody" }
