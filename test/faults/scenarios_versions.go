package faults

import (
	"context"
	"fmt"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storageversion"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

var (
	storageVersions = apiserverinternalv1alpha1.SchemeGroupVersion.WithResource("storageversions")
	migrations      = migrationv1beta1.SchemeGroupVersion.WithResource("storageversionmigrations")
)

// apiServer publishes an API server, which is named after the run, or removes it.
func apiServer(name string) Action {
	return func(ctx context.Context, w *world) error {
		_, err := w.admin.CoordinationV1().Leases("kube-system").Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: w.namespace + name, Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(w.namespace + name), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: &metav1.MicroTime{Time: time.Now()},
			},
		}, metav1.CreateOptions{})
		return err
	}
}

func removeAPIServer(name string) Action {
	return func(ctx context.Context, w *world) error {
		err := w.admin.CoordinationV1().Leases("kube-system").Delete(ctx, w.namespace+name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// stored records how API servers store a resource: in v1.
func stored(name string, servers ...string) Action {
	return func(ctx context.Context, w *world) error {
		client := w.admin.InternalV1alpha1().StorageVersions()
		sv, err := client.Create(ctx, &apiserverinternalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for _, server := range servers {
			sv.Status.StorageVersions = append(sv.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{
				APIServerID: w.namespace + server, EncodingVersion: "v1", DecodableVersions: []string{"v1", "v2"},
			})
		}
		storageversion.SetCommonEncodingVersion(sv)
		_, err = client.UpdateStatus(ctx, sv, metav1.UpdateOptions{})
		return err
	}
}

func storageVersionGC() Scenario {
	servers := func(name string, want ...string) Condition {
		return func(ctx context.Context, w *world) error {
			list := ""
			for i, server := range want {
				if i > 0 {
					list += " "
				}
				list += w.namespace + server
			}
			return Has("storageversions", name, "{.status.storageVersions[*].apiServerID}", list)(ctx, w)
		}
	}
	return Scenario{
		Name: "storageversion-garbage-collector",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.StorageVersionGarbageCollector.Enabled}
		},
		Configure: func(c *manager.Config) { c.FeatureGates = map[string]bool{"StorageVersionAPI": true} },
		Kinds:     []schema.GroupVersionResource{storageVersions},
		Steps: []Step{
			{
				"record the versions of API servers that exist",
				[]Action{apiServer("-a"), apiServer("-b"), stored("example.com.both", "-a", "-b"), stored("example.com.one", "-a")},
				[]Condition{servers("example.com.both", "-a", "-b"), servers("example.com.one", "-a")},
			},
			{
				"lose an API server, and see one that nobody knows",
				[]Action{removeAPIServer("-a"), stored("example.com.unknown", "-c")},
				[]Condition{servers("example.com.both", "-b"), Gone("storageversions", "example.com.one"), Gone("storageversions", "example.com.unknown")},
			},
			{"lose the other one", []Action{removeAPIServer("-b")}, []Condition{Gone("storageversions", "example.com.both")}},
		},
	}
}

// migrated is that a migration of Secrets has ended well. Until then a Secret is written now and then: a migration
// waits for a cache that is newer than it.
func migrated(name string) Condition {
	return func(ctx context.Context, w *world) error {
		secrets := w.admin.CoreV1().Secrets(w.namespace)
		if touched, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "touch-"}}, metav1.CreateOptions{}); err == nil {
			_ = secrets.Delete(ctx, touched.Name, metav1.DeleteOptions{})
		}
		list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "kept"})
		if err != nil {
			return err
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("%d secrets are left", len(list.Items))
		}
		return Has("storageversionmigrations", name, "{.status.conditions[?(@.type=='Succeeded')].status}", "True")(ctx, w)
	}
}

func storageVersionMigrator() Scenario {
	migrate := func(name string) Action {
		return Create("{apiVersion: storagemigration.k8s.io/v1beta1, kind: StorageVersionMigration, metadata: {name: " + name + "}, spec: {resource: {resource: secrets}}}")
	}
	return Scenario{
		Name: "storage-version-migrator",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.StorageVersionMigrator.Enabled, &c.Controllers.GarbageCollector.Enabled}
		},
		Configure: func(c *manager.Config) { c.FeatureGates = map[string]bool{"StorageVersionMigrator": true} },
		Kinds:     []schema.GroupVersionResource{migrations},
		Final:     []string{"patch secrets"}, // SVM-34c
		Steps: []Step{
			{
				"migrate Secrets",
				[]Action{
					Create("{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {kept: yes-it-is}}}"),
					Create("{apiVersion: v1, kind: Secret, metadata: {name: b, labels: {kept: yes-it-is}}}"),
					migrate("first"),
				},
				[]Condition{migrated("first")},
			},
			{"migrate them again", []Action{migrate("second")}, []Condition{migrated("second")}},
		},
	}
}
