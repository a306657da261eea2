package storage

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

func classes() protection[*storagev1.VolumeAttributesClass] {
	return protection[*storagev1.VolumeAttributesClass]{
		client:       admin.StorageV1().VolumeAttributesClasses(),
		resource:     storagev1.Resource("volumeattributesclasses"),
		finalizer:    "kubernetes.io/vac-protection",
		enabled:      func(c *manager.Config) **bool { return &c.Controllers.VolumeAttributesClassProtection.Enabled },
		createUnused: func(t *testing.T, name string) { t.Helper(); createClass(t, name) },
	}
}

// createClass creates a class, until the end of the test.
func createClass(t *testing.T, name string) *storagev1.VolumeAttributesClass {
	t.Helper()
	return classes().create(t, &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "example.com", Parameters: map[string]string{"iops": "1"},
	})
}

// createClaimOf creates a claim of a class.
func createClaimOf(t *testing.T, namespace, class string) {
	t.Helper()
	spec := claimSpec()
	spec.VolumeAttributesClassName = &class
	must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: spec}, metav1.CreateOptions{}))(t)
}

// Pins VAC-2, VAC-3, VAC-12, VAC-22, VAC-23 and VAC-24.
func TestAClassStaysWhileSomethingRefersToIt(t *testing.T) {
	t.Parallel()
	name := cluster.Namespace(t)
	if created := createClass(t, name); !slices.Contains(created.Finalizers, classes().finalizer) {
		t.Fatalf("the API server did not protect the class: %q", created.Finalizers)
	}
	createVolume(t, name, corev1.VolumeReleased, func(v *corev1.PersistentVolume) {
		v.Spec.VolumeAttributesClassName = &name
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: name}}
	})
	createClaimOf(t, name, name)
	classes().delete(t, name)
	classes().stays(t, name)
	deleteClaim(t, name, "claim")
	awaitClaimGone(t, name, "claim")
	classes().stays(t, name)
	volumes().delete(t, name)
	classes().awaitGone(t, name)
}

// Pins VAC-16.
func TestAClassIsProtectedAgain(t *testing.T) {
	t.Parallel()
	name := cluster.Namespace(t)
	createClass(t, name)
	isProtectedAgain(t, classes().client, name, classes().finalizer)
}

// The write that releases a class is on its way while the class goes and another one of its name is
// created, used and deleted. A restart and a takeover make no difference.
//
// Pins VAC-12.
func TestAnotherClassOfTheNameIsNotReleased(t *testing.T) {
	name, leader, letGo := classes().releasing(t)
	end(t, classes().client, name)
	classes().awaitGone(t, name)
	createClass(t, name)
	createClaimOf(t, name, name)
	classes().delete(t, name)
	letGo()
	classes().staysUnderOthers(t, leader, name)

	endClaim(t, name)
	classes().awaitGone(t, name)
}

// The controller sees neither that a class is gone nor the one that has its name now, but that nothing refers
// to the first one any more. It does not help to start it again, or another one.
//
// Pins VAC-12 and VAC-32.
func TestAClassThatTheCacheDoesNotShowIsNotReleased(t *testing.T) {
	rest(t)
	name := cluster.Namespace(t)
	createClass(t, name)
	createClaimOf(t, name, name)
	leader := cluster.Behind(t, only(classes().enabled)) // later than the claim, which it has to know
	leader.Works(t)
	classes().delete(t, name)
	classes().stays(t, name) // so its deletion was seen

	leader.HoldEvents(faultproxy.Requests{Resource: classes().resource, Verbs: []string{"watch"}})
	end(t, classes().client, name)
	classes().awaitGone(t, name)
	second := createClass(t, name)
	endClaim(t, name)
	reads := faultproxy.Requests{Resource: classes().resource, Verbs: []string{"get"}} // once its write was refused
	leader.Asked(t, reads, 0)
	leader.Restart(t, classes().enabled, func() {})
	leader.Asked(t, reads, 1)
	awaitFinalizers(t, classes().client, name, classes().finalizer)

	createClaimOf(t, name, name)
	successor := cluster.Behind(t, only(classes().enabled))
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	classes().delete(t, name)
	classes().stays(t, name)
	if live := must.Get(classes().Get(t.Context(), name, metav1.GetOptions{}))(t); live.UID != second.UID {
		t.Errorf("the class is %s, want %s", live.UID, second.UID)
	}
	endClaim(t, name)
	classes().awaitGone(t, name)
}

// endClaim deletes the claim of a class, which nobody protects.
func endClaim(t *testing.T, namespace string) {
	t.Helper()
	deleteClaim(t, namespace, "claim")
	end(t, admin.CoreV1().PersistentVolumeClaims(namespace), "claim")
}
