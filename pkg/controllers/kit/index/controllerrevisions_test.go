package index

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func TestControllerRevisions(t *testing.T) {
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Apps().V1().ControllerRevisions().Informer()
	for _, meta := range []metav1.ObjectMeta{
		objectMeta("ns", "mine", "1", controller("DaemonSet", "ds", "o")),
		objectMeta("ns", "of-predecessor", "2", controller("DaemonSet", "ds", "old")),
		objectMeta("ns", "of-namesake", "3", controller("StatefulSet", "ds", "o")),
		objectMeta("ns", "orphan", "4"),
		objectMeta("other", "elsewhere", "5"),
	} {
		if err := informer.GetStore().Add(&appsv1.ControllerRevision{ObjectMeta: meta}); err != nil {
			t.Fatal(err)
		}
	}
	revisions, err := NewControllerRevisions(informer)
	if err != nil {
		t.Fatal(err)
	}
	owner := &appsv1.DaemonSet{ObjectMeta: objectMeta("ns", "ds", "o")}
	if got, err := revisions.OwnedByOrOrphans("DaemonSet", owner); err != nil || !slices.Equal(keysOf(got), []string{"ns/mine", "ns/orphan"}) {
		t.Errorf("got %v, %v", keysOf(got), err)
	}
	owner.UID = ""
	if _, err := revisions.OwnedByOrOrphans("DaemonSet", owner); err == nil {
		t.Error("an owner without a UID is no error")
	}
}
