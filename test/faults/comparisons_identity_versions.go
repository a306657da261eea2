package faults

import (
	"context"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/utils/ptr"
)

// storedAs records how API servers store a resource, each in a version of its own: -a=v1.
func storedAs(name string, servers ...[2]string) Action {
	return func(ctx context.Context, w *world) error {
		client := w.admin.InternalV1alpha1().StorageVersions()
		sv, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			sv, err = client.Create(ctx, &apiserverinternalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}}}, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		sv.Status.StorageVersions = nil
		for _, server := range servers {
			sv.Status.StorageVersions = append(sv.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
				APIServerID: w.namespace + server[0], EncodingVersion: server[1], DecodableVersions: []string{"v1", "v2"}, ServedVersions: []string{"v1"},
			})
		}
		storageversion.SetCommonEncodingVersion(sv)
		_, err = client.UpdateStatus(ctx, sv, metav1.UpdateOptions{})
		return err
	}
}

// lease creates a Lease that is named after the run, with labels or without, in a namespace.
func lease(namespace, name string, labels map[string]string) Action {
	return func(ctx context.Context, w *world) error {
		_, err := w.admin.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: w.namespace + name, Labels: labels},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(w.namespace + name), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: time.Now()}},
		}, metav1.CreateOptions{})
		return err
	}
}

func storageVersionCorners() Scenario {
	versions := func(name, want string) Condition {
		return Has("storageversions", "faults.com."+name, "{.status.storageVersions[*].encodingVersion}", want)
	}
	common := func(name, status, version string) Condition {
		return Has("storageversions", "faults.com."+name, "{.status.conditions[?(@.type=='AllEncodingVersionsEqual')].status}", status, "{.status.commonEncodingVersion}", version)
	}
	a1, a2, b1, b2, c1 := [2]string{"-a", "v1"}, [2]string{"-a", "v2"}, [2]string{"-b", "v1"}, [2]string{"-b", "v2"}, [2]string{"-c", "v1"}
	gone := func(name string) Condition { return Gone("storageversions", "faults.com."+name) }
	sv := func(name string, servers ...[2]string) Action { return storedAs("faults.com."+name, servers...) }
	base := storageVersionGC()
	return Scenario{
		Name:        "storage-versions",
		Bare:        true,
		Controllers: base.Controllers,
		Configure:   base.Configure,
		Kinds:       []schema.GroupVersionResource{storageVersions},
		Steps: []Step{
			{
				"record versions, some of API servers that have no Lease, or another one",
				[]Action{
					apiServer("-a"), apiServer("-b"), lease("kube-system", "-plain", nil), lease("kube-system", "-other", map[string]string{"apiserver.kubernetes.io/identity": "other"}), lease("default", "-elsewhere", map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}),
					sv("equal", a1, b1), sv("differ", a1, b2), sv("three", a2, b1, c1), sv("unknown", c1), sv("plain", a1, [2]string{"-plain", "v2"}), sv("other", [2]string{"-other", "v1"}, b1), sv("elsewhere", [2]string{"-elsewhere", "v1"}), sv("only-b", b1), sv("both-unknown", c1, [2]string{"-d", "v1"}),
					Create("{apiVersion: internal.apiserver.k8s.io/v1alpha1, kind: StorageVersion, metadata: {name: faults.com.empty}, spec: {}}"),
					Create("{apiVersion: internal.apiserver.k8s.io/v1alpha1, kind: StorageVersion, metadata: {name: faults.com.kept, finalizers: [example.com/kept]}, spec: {}}"), sv("kept", c1),
				},
				[]Condition{versions("three", "v2 v1"), gone("unknown"), gone("elsewhere"), gone("both-unknown"), versions("plain", "v1"), versions("other", "v1"), common("plain", "True", "v1"), common("three", "False", "")},
			},
			{
				"lose an API server",
				[]Action{removeAPIServer("-a"), sv("equal-again", b1, c1)},
				[]Condition{common("equal", "True", "v1"), common("differ", "True", "v2"), common("three", "True", "v1"), gone("plain"), common("equal-again", "True", "v1")},
			},
			{
				"see it again, and lose it and the other one",
				[]Action{apiServer("-a"), sv("equal", a2, b1), sv("new", a1), removeAPIServer("-b"), removeAPIServer("-plain"), removeAPIServer("-other")},
				[]Condition{common("equal", "True", "v2"), gone("differ"), gone("three"), gone("other"), gone("only-b"), gone("equal-again")},
			},
			{"lose the last one", []Action{removeAPIServer("-a"), Patch("storageversions", "faults.com.kept", `{"metadata":{"finalizers":null}}`)}, []Condition{gone("equal"), gone("new"), gone("kept")}},
		},
	}
}
