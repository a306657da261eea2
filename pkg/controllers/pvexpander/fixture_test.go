package pvexpander

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

const (
	namespace   = "ns"
	driver      = "example.com/flex"
	getVolume   = "get persistentvolumes volume"
	patchVolume = "patch persistentvolumes volume"
	patchClaim  = "patch persistentvolumeclaims/status claim"
)

var key = types.NamespacedName{Namespace: namespace, Name: "claim"}

// claim returns a bound claim that has 1Gi and requests 2Gi.
func claim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return controllertest.Changed(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim", UID: "claim-uid", ResourceVersion: "7"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "volume", Resources: corev1.VolumeResourceRequirements{Requests: size("2Gi")}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size("1Gi")},
	}, changes...)
}

type claimChange = func(*corev1.PersistentVolumeClaim)

func requesting(q string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = size(q) }
}

func having(q string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = size(q) }
}

func allocated(q string) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = size(q) }
}

func progress(status corev1.ClaimResourceStatus) claimChange {
	return func(c *corev1.PersistentVolumeClaim) { setProgress(&c.Status, status) }
}

// volume returns a volume of 1Gi that is bound to the claim.
func volume(changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	return controllertest.Changed(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume", UID: "volume-uid", ResourceVersion: "8"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               size("1Gi"),
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: "claim", UID: "claim-uid"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "handle"}},
		},
	}, changes...)
}

type volumeChange = func(*corev1.PersistentVolume)

func source(s corev1.PersistentVolumeSource) volumeChange {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeSource = s }
}

func flex(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: driver}}
}

func ebs(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
}

func block(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }

func ofSize(q string) volumeChange {
	return func(v *corev1.PersistentVolume) { v.Spec.Capacity = size(q) }
}

func marked(v *corev1.PersistentVolume) { setMark(v, resource.MustParse("1Gi")) }

func size(q string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(q)}
}

type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	c *expander
	// patches are the bodies of the patches that were sent.
	patches []string
}

func begun(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key, objects...)}
	f.Fake.PrependReactor("patch", "*", f.patch)
	c := must.Get(newController(f.Env.Env))(t)
	f.c, f.Work, f.Kinds = c, c.reconcile, []runtime.Object{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}}
	f.CatchUp(t)
	return f
}

// patch applies a patch as the API server does: one of another object, or of another version of it,
// is a conflict.
func (f *fixture) patch(a clienttesting.Action) (bool, runtime.Object, error) {
	action, resource := a.(clienttesting.PatchAction), a.GetResource()
	f.patches = append(f.patches, string(action.GetPatch()))
	stored, err := f.Fake.Tracker().Get(resource, action.GetNamespace(), action.GetName())
	if err != nil {
		return true, nil, err
	}
	conflict := apierrors.NewConflict(resource.GroupResource(), action.GetName(), errors.New("the object has been modified"))
	was, err := meta.Accessor(stored)
	if err != nil {
		return true, nil, err
	}
	var condition metav1.PartialObjectMetadata
	if err := json.Unmarshal(action.GetPatch(), &condition); err != nil {
		return true, nil, err
	}
	if condition.UID != was.GetUID() || condition.ResourceVersion != was.GetResourceVersion() {
		return true, nil, conflict
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return true, nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, action.GetPatch(), stored)
	if err != nil {
		return true, nil, err
	}
	patched := stored.DeepCopyObject()
	switch object := patched.(type) {
	case *corev1.PersistentVolume:
		*object = corev1.PersistentVolume{}
	case *corev1.PersistentVolumeClaim:
		*object = corev1.PersistentVolumeClaim{}
	}
	if err := json.Unmarshal(after, patched); err != nil {
		return true, nil, err
	}
	is, err := meta.Accessor(patched)
	if err != nil {
		return true, nil, err
	}
	is.SetResourceVersion(f.NextVersion())
	return true, patched, f.Fake.Tracker().Update(resource, patched, action.GetNamespace())
}

func (f *fixture) claim(t testing.TB) *corev1.PersistentVolumeClaim {
	t.Helper()
	return controllertest.MustStored[*corev1.PersistentVolumeClaim](t, f.Env, namespace, "claim")
}

func (f *fixture) volume(t testing.TB) *corev1.PersistentVolume {
	t.Helper()
	return controllertest.MustStored[*corev1.PersistentVolume](t, f.Env, "", "volume")
}

// wantObserved checks how many expansions ended with a status, each as "success 1".
func (f *fixture) wantObserved(t testing.TB, want ...string) {
	t.Helper()
	var series []string
	for _, observed := range want {
		status, n, _ := strings.Cut(observed, " ")
		series = append(series, fmt.Sprintf("migrated=false operation_name=expand_volume status=%s volume_plugin=%s %s", status, driver, n))
	}
	if got := f.Series(t, "storage_operation_duration_seconds"); !slices.Equal(got, series) {
		t.Errorf("observed %q, want %q", got, series)
	}
}
