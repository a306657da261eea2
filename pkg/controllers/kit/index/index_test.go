package index

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func objectMeta(namespace, name string, uid types.UID, refs ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, OwnerReferences: refs}
}

func controller(kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}
}

// informerOf is an informer of the kind of an object, whose cache the test fills.
func informerOf(kind runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

func podInformer(t *testing.T, pods ...*corev1.Pod) cache.SharedIndexInformer {
	informer := informerOf(&corev1.Pod{})
	for _, pod := range pods {
		if err := informer.GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return informer
}

func keysOf[T metav1.Object](objects []T) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetNamespace()+"/"+o.GetName())
	}
	slices.Sort(out)
	return out
}

// Pins WL-8 and WL-12.
func TestKeys(t *testing.T) {
	plain := metav1.OwnerReference{Kind: "X", Name: "x", UID: "x"}
	notController := metav1.OwnerReference{Kind: "X", Name: "x", UID: "x", Controller: ptr.To(false)}
	for _, test := range []struct {
		name     string
		object   runtime.Object
		key, uid string
	}{
		{"orphan", &corev1.Pod{ObjectMeta: objectMeta("ns", "p", "1")}, "ns", "ns/"},
		{"owned without controller", &corev1.Pod{ObjectMeta: objectMeta("ns", "p", "1", plain, notController)}, "ns", "ns/"},
		{"controlled", &corev1.Pod{ObjectMeta: objectMeta("ns", "p", "1", plain, controller("ReplicaSet", "rs", "o"))}, "ns/ReplicaSet/rs/o", "o"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if keys, err := controllerKeys(test.object); err != nil || !slices.Equal(keys, []string{test.key}) {
				t.Errorf("controllerKeys: %v, %v", keys, err)
			}
			if keys, err := controllerUIDKeys(test.object); err != nil || !slices.Equal(keys, []string{test.uid}) {
				t.Errorf("controllerUIDKeys: %v, %v", keys, err)
			}
		})
	}
	if _, err := controllerKeys("no object"); err == nil {
		t.Error("controllerKeys takes anything")
	}
	if _, err := controllerUIDKeys("no object"); err == nil {
		t.Error("controllerUIDKeys takes anything")
	}
}

// Pins WL-13.
func TestPods(t *testing.T) {
	pods := NewPods(podInformer(t,
		&corev1.Pod{ObjectMeta: objectMeta("ns", "mine", "1", controller("ReplicaSet", "rs", "o"))},
		&corev1.Pod{ObjectMeta: objectMeta("ns", "of-predecessor", "2", controller("ReplicaSet", "rs", "old"))},
		&corev1.Pod{ObjectMeta: objectMeta("ns", "of-namesake", "3", controller("ReplicationController", "rs", "o"))},
		&corev1.Pod{ObjectMeta: objectMeta("ns", "orphan", "4")},
		&corev1.Pod{ObjectMeta: objectMeta("other", "elsewhere", "5")},
	))
	owner := &appsv1.ReplicaSet{ObjectMeta: objectMeta("ns", "rs", "o")}
	owned, err := pods.OwnedBy("ReplicaSet", owner)
	if got := keysOf(owned); err != nil || !slices.Equal(got, []string{"ns/mine"}) {
		t.Errorf("owned: %v, %v", got, err)
	}
	orphans, err := pods.Orphans("ns")
	if got := keysOf(orphans); err != nil || !slices.Equal(got, []string{"ns/orphan"}) {
		t.Errorf("orphans: %v, %v", got, err)
	}
	both, err := pods.OwnedByOrOrphans("ReplicaSet", owner)
	if got := keysOf(both); err != nil || !slices.Equal(got, []string{"ns/mine", "ns/orphan"}) {
		t.Errorf("both: %v, %v", got, err)
	}
}

// Pins WL-13.
func TestPodsOfAnIncompleteOwnerAreAnError(t *testing.T) {
	pods := NewPods(podInformer(t))
	for _, test := range []struct {
		name, kind string
		owner      metav1.ObjectMeta
	}{
		{"kind", "", objectMeta("ns", "rs", "o")},
		{"namespace", "ReplicaSet", objectMeta("", "rs", "o")},
		{"name", "ReplicaSet", objectMeta("ns", "", "o")},
		{"uid", "ReplicaSet", objectMeta("ns", "rs", "")},
	} {
		owner := &appsv1.ReplicaSet{ObjectMeta: test.owner}
		if _, err := pods.OwnedBy(test.kind, owner); err == nil {
			t.Errorf("without %s: no error", test.name)
		}
		if _, err := pods.OwnedByOrOrphans(test.kind, owner); err == nil {
			t.Errorf("without %s: no error", test.name)
		}
	}
}

// Pins WL-10.
func TestReplicaSets(t *testing.T) {
	informer := informerOf(&appsv1.ReplicaSet{})
	sets := NewReplicaSets(informer)
	for _, m := range []metav1.ObjectMeta{
		objectMeta("ns", "mine", "1", controller("Deployment", "d", "o")),
		objectMeta("ns", "of-another", "2", controller("Deployment", "d", "x")),
		objectMeta("ns", "orphan", "3"),
		objectMeta("other", "forged", "4", controller("Deployment", "d", "o")),
		objectMeta("other", "orphan", "5"),
		objectMeta("o", "orphan", "6"), // its namespace is spelled like the UID of the owner
	} {
		if err := informer.GetStore().Add(&appsv1.ReplicaSet{ObjectMeta: m}); err != nil {
			t.Fatal(err)
		}
	}
	owned, err := sets.OwnedBy("ns", "o")
	if got := keysOf(owned); err != nil || !slices.Equal(got, []string{"ns/mine"}) {
		t.Errorf("owned: %v, %v", got, err)
	}
	orphans, err := sets.OwnedByOrOrphans(&appsv1.Deployment{ObjectMeta: objectMeta("o", "d", "y")})
	if got := keysOf(orphans); err != nil || !slices.Equal(got, []string{"o/orphan"}) {
		t.Errorf("orphans: %v, %v", got, err)
	}
	both, err := sets.OwnedByOrOrphans(&appsv1.Deployment{ObjectMeta: objectMeta("ns", "d", "o")})
	if got := keysOf(both); err != nil || !slices.Equal(got, []string{"ns/mine", "ns/orphan"}) {
		t.Errorf("both: %v, %v", got, err)
	}
}

// Pins WL-14.
func TestIndexesAreAddedOnce(t *testing.T) {
	informer := podInformer(t)
	for range 2 {
		NewPods(informer)
	}
	if _, ok := informer.GetIndexer().GetIndexers()[podsByController]; !ok {
		t.Error("there is no such index")
	}
}

func TestAnUnknownIndexOrTypeIsAnError(t *testing.T) {
	informer := podInformer(t, &corev1.Pod{ObjectMeta: objectMeta("ns", "p", "1")})
	if _, err := (Pods{indexer: informer.GetIndexer()}).Orphans("ns"); err == nil {
		t.Error("looked up pods without an index")
	}
	Ensure(informer, replicaSetsByController, controllerUIDKeys)
	if _, err := (ReplicaSets{informer.GetIndexer()}).OwnedByOrOrphans(&appsv1.Deployment{ObjectMeta: objectMeta("ns", "d", "o")}); err == nil {
		t.Error("took a pod for a ReplicaSet")
	}
}

// Pins WL-11.
func TestControllerRevisions(t *testing.T) {
	informer := informerOf(&appsv1.ControllerRevision{})
	revisions := NewControllerRevisions(informer)
	for _, m := range []metav1.ObjectMeta{
		objectMeta("ns", "mine", "1", controller("StatefulSet", "web", "o")),
		objectMeta("ns", "of-predecessor", "2", controller("StatefulSet", "web", "old")),
		objectMeta("ns", "of-namesake", "3", controller("DaemonSet", "web", "o")),
		objectMeta("ns", "orphan", "4"),
		objectMeta("other", "orphan", "5"),
	} {
		if err := informer.GetStore().Add(&appsv1.ControllerRevision{ObjectMeta: m}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := revisions.OwnedByOrOrphans("StatefulSet", &appsv1.StatefulSet{ObjectMeta: objectMeta("ns", "web", "o")})
	if got := keysOf(found); err != nil || !slices.Equal(got, []string{"ns/mine", "ns/orphan"}) {
		t.Errorf("found: %v, %v", got, err)
	}
	if _, err := revisions.OwnedByOrOrphans("StatefulSet", &appsv1.StatefulSet{ObjectMeta: objectMeta("ns", "web", "")}); err == nil {
		t.Error("an owner without UID finds orphans")
	}
}
