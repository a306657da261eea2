package garbage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const garbageCollector = "garbage-collector-controller"

// collections are tested side by side.
var collections = []struct {
	name string
	test func(*testing.T)
}{
	{"DeletesInBackground", testCollectorDeletesInBackground},
	{"DeletesInForeground", testCollectorDeletesInForeground},
	{"GC-54: Orphans", testCollectorOrphans},
	{"GC-45: BlockOwnerDeletion", testCollectorBlockOwnerDeletion},
	{"GC-44g: SolidOwner", testCollectorSolidOwner},
	{"GC-44h, GC-108: BreaksCycles", testCollectorBreaksCycles},
	{"GC-60, GC-66: RefusesOtherNamespaces", testCollectorRefusesOtherNamespaces},
	{"GC-43, GC-66: Scopes", testCollectorScopes},
	{"GC-48: ChecksUIDs", testCollectorChecksUIDs},
	{"GC-64: OldVersions", testCollectorOldVersions},
	{"GC-50: CustomKinds", testCollectorCustomKinds},
	{"NewVersion", testCollectorNewVersion},
	{"VanishedKind", testCollectorVanishedKind},
	{"GC-62: ShowsItsGraph", testCollectorShowsItsGraph},
}

func TestGarbageCollector(t *testing.T) {
	t.Parallel()
	for _, c := range collections {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

// ownedBy makes a reference to an object.
func ownedBy(apiVersion, kind string, owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}
}

func byConfigMap(owner *corev1.ConfigMap) metav1.OwnerReference {
	return ownedBy("v1", "ConfigMap", owner)
}

func blockingOwner(ref metav1.OwnerReference) metav1.OwnerReference {
	ref.BlockOwnerDeletion = ptr.To(true)
	return ref
}

// createOwned creates a config map with owners.
func createOwned(t *testing.T, namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	return must.Get(admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

func getConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return admin.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

func deleteConfigMap(t *testing.T, namespace, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := admin.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
}

func waitForConfigMapGone(t *testing.T, namespace, name string) {
	t.Helper()
	await.That(t, name+" is gone", func(ctx context.Context) error {
		_, err := getConfigMap(ctx, namespace, name)
		return await.Gone(err)
	})
}

// waitForOwners waits until a config map has just these owners and is not deleted.
func waitForOwners(t *testing.T, namespace, name string, owners ...types.UID) {
	t.Helper()
	await.That(t, name+" has its owners", func(ctx context.Context) error {
		object, err := getConfigMap(ctx, namespace, name)
		if err != nil {
			return await.Final(err)
		}
		got := []types.UID{}
		for _, ref := range object.OwnerReferences {
			got = append(got, ref.UID)
		}
		if fmt.Sprint(got) != fmt.Sprint(owners) {
			return fmt.Errorf("they are %v, want %v", got, owners)
		}
		return nil
	})
}

// waitForDeleting waits until a config map is being deleted.
func waitForDeleting(t *testing.T, namespace, name string) {
	t.Helper()
	await.That(t, name+" is being deleted", func(ctx context.Context) error {
		object, err := getConfigMap(ctx, namespace, name)
		if err != nil {
			return await.Final(err)
		}
		if object.DeletionTimestamp == nil {
			return errors.New("it is not")
		}
		return nil
	})
}

// passBy creates an owner with a dependent, deletes the owner and waits until the
// dependent is gone: all that came before has been looked at by then, or is at least
// no less due.
func passBy(t *testing.T, namespace string) {
	t.Helper()
	owner := createOwned(t, namespace, "passer-owner")
	createOwned(t, namespace, "passer", byConfigMap(owner))
	deleteConfigMap(t, namespace, owner.Name, metav1.DeletePropagationBackground)
	waitForConfigMapGone(t, namespace, "passer")
}

func createRolledOut(t *testing.T, namespace string) {
	t.Helper()
	cluster.CreateDeployment(t, namespace, 2, nil)
	cluster.WaitForRollout(t, namespace)
}

func deleteDeployment(t *testing.T, namespace string, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := admin.AppsV1().Deployments(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
}

func workloads(ctx context.Context, namespace string) (deployments, replicaSets, pods int, err error) {
	d, err1 := admin.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	r, err2 := admin.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	p, err3 := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return 0, 0, 0, err
	}
	return len(d.Items), len(r.Items), len(p.Items), nil
}

func waitForNoWorkloads(t *testing.T, namespace string) {
	t.Helper()
	await.That(t, "Deployment, ReplicaSet and pods are gone", func(ctx context.Context) error {
		d, r, p, err := workloads(ctx, namespace)
		if err == nil && d+r+p > 0 {
			err = fmt.Errorf("%d Deployments, %d ReplicaSets and %d pods are left", d, r, p)
		}
		return err
	})
}

func testCollectorDeletesInBackground(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createRolledOut(t, namespace)
	deleteDeployment(t, namespace, metav1.DeletePropagationBackground)
	if _, err := cluster.GetDeployment(t.Context(), namespace); await.Gone(err) != nil {
		t.Errorf("the Deployment waits for its dependents: %v", await.Gone(err))
	}
	waitForNoWorkloads(t, namespace)
}

// testCollectorDeletesInForeground follows the order in which things go.
func testCollectorDeletesInForeground(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createRolledOut(t, namespace)
	pods := must.Get(cluster.PodsOf(t.Context(), namespace, map[string]string{"app": "web"}))(t)
	cluster.PatchPod(t, namespace, pods[0].Name, `{"metadata":{"finalizers":["`+harness.Hold+`"]}}`)
	deleteDeployment(t, namespace, metav1.DeletePropagationForeground)
	await.That(t, "only the pod that is held is left of the pods", func(ctx context.Context) error {
		d, r, p, err := workloads(ctx, namespace)
		if err != nil {
			return err
		}
		if d != 1 || r != 1 {
			return await.Final(fmt.Errorf("the owners are gone before the pods: %d Deployments, %d ReplicaSets", d, r))
		}
		if p != 1 {
			return fmt.Errorf("there are %d pods", p)
		}
		return nil
	})
	passBy(t, namespace)
	if d, r, p, err := workloads(t.Context(), namespace); err != nil || d != 1 || r != 1 || p != 1 {
		t.Fatalf("%d Deployments, %d ReplicaSets, %d pods, %v", d, r, p, err)
	}
	cluster.PatchPod(t, namespace, pods[0].Name, harness.NoFinalizers)
	waitForNoWorkloads(t, namespace)
}

func testCollectorOrphans(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	createRolledOut(t, namespace)
	deleteDeployment(t, namespace, metav1.DeletePropagationOrphan)
	await.That(t, "the Deployment is gone and the ReplicaSet is nobody's", func(ctx context.Context) error {
		d, r, p, err := workloads(ctx, namespace)
		if err != nil {
			return err
		}
		if r != 1 || p != 2 {
			return await.Final(fmt.Errorf("there are %d ReplicaSets and %d pods", r, p))
		}
		if d != 0 {
			return errors.New("the Deployment exists")
		}
		list, err := admin.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items[0].OwnerReferences) > 0 {
			err = await.Final(errors.New("the Deployment went before its ReplicaSet was released"))
		}
		return err
	})
}

func testCollectorBlockOwnerDeletion(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	for name, blocks := range map[string]bool{"blocked": true, "free": false} {
		t.Run(name, func(t *testing.T) {
			owner := createOwned(t, namespace, name)
			ref := byConfigMap(owner)
			if blocks {
				ref = blockingOwner(ref)
			}
			dependent := createOwned(t, namespace, name+"-dependent", ref)
			cluster.PatchConfigMap(t, namespace, dependent.Name, `{"metadata":{"finalizers":["`+harness.Hold+`"]}}`)
			deleteConfigMap(t, namespace, owner.Name, metav1.DeletePropagationForeground)
			waitForDeleting(t, namespace, dependent.Name)
			if blocks {
				passBy(t, namespace)
				if _, err := getConfigMap(t.Context(), namespace, owner.Name); err != nil {
					t.Errorf("the owner does not wait: %v", err)
				}
			} else {
				waitForConfigMapGone(t, namespace, owner.Name)
			}
			cluster.PatchConfigMap(t, namespace, dependent.Name, harness.NoFinalizers)
			waitForConfigMapGone(t, namespace, owner.Name)
			waitForConfigMapGone(t, namespace, dependent.Name)
		})
	}
}

// testCollectorSolidOwner keeps an object that has another owner.
func testCollectorSolidOwner(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	stays, goes, waits := createOwned(t, namespace, "stays"), createOwned(t, namespace, "goes"), createOwned(t, namespace, "waits")
	createOwned(t, namespace, "shared", byConfigMap(stays), byConfigMap(goes), blockingOwner(byConfigMap(waits)))
	deleteConfigMap(t, namespace, "goes", metav1.DeletePropagationBackground)
	waitForOwners(t, namespace, "shared", stays.UID, waits.UID)
	deleteConfigMap(t, namespace, "waits", metav1.DeletePropagationForeground)
	waitForConfigMapGone(t, namespace, "waits")
	waitForOwners(t, namespace, "shared", stays.UID)
	deleteConfigMap(t, namespace, "stays", metav1.DeletePropagationBackground)
	waitForConfigMapGone(t, namespace, "shared")
}

func testCollectorBreaksCycles(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	one := createOwned(t, namespace, "one")
	two := createOwned(t, namespace, "two", blockingOwner(byConfigMap(one)))
	three := createOwned(t, namespace, "three", blockingOwner(byConfigMap(two)))
	ref := must.Get(json.Marshal([]metav1.OwnerReference{blockingOwner(byConfigMap(three))}))(t)
	cluster.PatchConfigMap(t, namespace, "one", `{"metadata":{"ownerReferences":`+string(ref)+`}}`)
	deleteConfigMap(t, namespace, "one", metav1.DeletePropagationForeground)
	for _, name := range []string{"one", "two", "three"} {
		waitForConfigMapGone(t, namespace, name)
	}
	own := createOwned(t, namespace, "own")
	ref = must.Get(json.Marshal([]metav1.OwnerReference{blockingOwner(byConfigMap(own))}))(t)
	cluster.PatchConfigMap(t, namespace, "own", `{"metadata":{"ownerReferences":`+string(ref)+`}}`)
	deleteConfigMap(t, namespace, "own", metav1.DeletePropagationForeground)
	waitForConfigMapGone(t, namespace, "own")
}

// testCollectorRefusesOtherNamespaces deletes an object whose owner is in
// another namespace, and says why.
func testCollectorRefusesOtherNamespaces(t *testing.T) {
	here, there := cluster.NamespaceForPods(t), cluster.NamespaceForPods(t)
	owner := createOwned(t, there, "owner")
	good := createOwned(t, there, "good", byConfigMap(owner))
	bad := createOwned(t, here, "bad", byConfigMap(owner))
	waitForConfigMapGone(t, here, "bad")
	cluster.WaitForEvents(t, here, bad.UID, fmt.Sprintf(
		"garbage-collector-controller Warning OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: %s, name: owner, uid: %s] does not exist in namespace %q",
		here, owner.UID, here))
	passBy(t, there)
	waitForOwners(t, there, good.Name, owner.UID)
}

// testCollectorScopes has owners and dependents of either scope.
func testCollectorScopes(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	create := func(name string, owners ...metav1.OwnerReference) *rbacv1.ClusterRole {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name, OwnerReferences: owners}}
		role = must.Get(admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			_ = admin.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{}) // most are gone
		})
		return role
	}
	remove := func(role *rbacv1.ClusterRole) {
		if err := admin.RbacV1().ClusterRoles().Delete(t.Context(), role.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const rbac = "rbac.authorization.k8s.io/v1"
	owner := create("owner")
	dependent := create("dependent", ownedBy(rbac, "ClusterRole", owner))
	createOwned(t, namespace, "namespaced", ownedBy(rbac, "ClusterRole", owner))
	settings := createOwned(t, namespace, "settings")
	invalid := create("invalid", byConfigMap(settings))
	cluster.WaitForEvents(t, "default", invalid.UID, fmt.Sprintf(
		"garbage-collector-controller Warning OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: , name: settings, uid: %s] does not exist in namespace \"\"", settings.UID))

	passBy(t, namespace)
	waitForOwners(t, namespace, "namespaced", owner.UID)
	remove(owner)
	waitForConfigMapGone(t, namespace, "namespaced")
	await.That(t, "the cluster-scoped dependent is gone", func(ctx context.Context) error {
		_, err := admin.RbacV1().ClusterRoles().Get(ctx, dependent.Name, metav1.GetOptions{})
		return await.Gone(err)
	})
	deleteConfigMap(t, namespace, "settings", metav1.DeletePropagationBackground)
	passBy(t, namespace)
	if _, err := admin.RbacV1().ClusterRoles().Get(t.Context(), invalid.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("a cluster-scoped object is deleted for the sake of a namespaced owner: %v", err)
	}
}

// testCollectorChecksUIDs has owners that never were or are not what they are
// said to be.
func testCollectorChecksUIDs(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	owner := createOwned(t, namespace, "owner")
	wrong := byConfigMap(owner)
	wrong.UID = "00000000-0000-0000-0000-000000000000"
	createOwned(t, namespace, "wrong-uid", wrong)
	waitForConfigMapGone(t, namespace, "wrong-uid")

	kind := byConfigMap(owner)
	kind.Kind = "Secret"
	createOwned(t, namespace, "wrong-kind", kind)
	waitForConfigMapGone(t, namespace, "wrong-kind")

	unknown := byConfigMap(owner)
	unknown.APIVersion, unknown.UID = "nobody.serves/v1", "11111111-1111-1111-1111-111111111111"
	createOwned(t, namespace, "unknown-kind", unknown)
	createOwned(t, namespace, "good", byConfigMap(owner))

	deleteConfigMap(t, namespace, "owner", metav1.DeletePropagationBackground)
	waitForConfigMapGone(t, namespace, "good")
	createOwned(t, namespace, "late", byConfigMap(owner))
	waitForConfigMapGone(t, namespace, "late")
	waitForOwners(t, namespace, "unknown-kind", unknown.UID)
}

// testCollectorOldVersions resolves an owner through a version that is served
// but not preferred.
func testCollectorOldVersions(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": "owner"},
		"spec": map[string]any{"maxReplicas": int64(1), "scaleTargetRef": map[string]any{"kind": "Deployment", "name": "none", "apiVersion": "apps/v1"}},
	}}
	client := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t).
		Resource(schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}).Namespace(namespace)
	created := must.Get(client.Create(t.Context(), owner, metav1.CreateOptions{}))(t)
	createOwned(t, namespace, "dependent", ownedBy("autoscaling/v1", "HorizontalPodAutoscaler", created))
	passBy(t, namespace)
	waitForOwners(t, namespace, "dependent", created.GetUID())
	if err := client.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForConfigMapGone(t, namespace, "dependent")
}
