package pvcprotection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	namespace = "ns"
	other     = "example.com/other"
)

var key = types.NamespacedName{Namespace: namespace, Name: "claim"}

// claim returns a claim that has the finalizer and is not being deleted. Its UID equals its name.
func claim(name string, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return controllertest.Changed(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "7",
		Finalizers: []string{other, string(finalizer)},
	}}, changes...)
}

func deleted(c *corev1.PersistentVolumeClaim) {
	c.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch.Add(-time.Second)}
}

func unprotected(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{other} }

// madeFor turns a claim into the claim of a generic ephemeral volume of a pod.
func madeFor(pod *corev1.Pod) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
	}
}

// referring adds volumes to a pod that refer to claims.
func referring(claims ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
}

// ephemeral adds a generic ephemeral volume to a pod.
func ephemeral(volume string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
		}})
	}
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }

func shutDown(p *corev1.Pod) {
	controllertest.Terminating(p)
	p.DeletionGracePeriodSeconds = ptr.To[int64](0)
}

// pod returns a scheduled, running pod that refers to the claim.
func pod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	return controllertest.Pod(namespace, name, append([]func(*corev1.Pod){referring(key.Name)}, changes...)...)
}

type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	c *protectionController
}

// begin creates a controller whose caches match the API server.
func begin(t testing.TB, config config, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key, objects...)}
	f.CompleteWrites("persistentvolumeclaims")
	f.CheckWrites("persistentvolumeclaims")
	f.build(t, config)
	f.CatchUp(t)
	return f
}

// build creates an instance of the controller on the existing caches.
func (f *fixture) build(t testing.TB, config config) {
	t.Helper()
	c := must.Get(newController(f.Env.Env, config))(t)
	f.c, f.Work = c, c.reconcile
	f.Kinds = []runtime.Object{&corev1.PersistentVolumeClaim{}, &corev1.Pod{}}
}

// reconcile reconciles a claim without an error.
func (f *fixture) reconcile(t testing.TB, name string) {
	t.Helper()
	if err := f.c.reconcile(f.Context(), types.NamespacedName{Namespace: namespace, Name: name}); err != nil {
		t.Fatalf("reconciling %s: %v", name, err)
	}
}

// finalizers returns the finalizers of a claim on the API server.
func (f *fixture) finalizers(t testing.TB, name string) []string {
	t.Helper()
	return controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, namespace, name).Finalizers
}
