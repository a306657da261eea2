package informerstest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/test/fakeclient"
)

func TestNewScope(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	scope := NewScope(t, fakeclient.New(node))
	seen := 0
	if _, err := scope.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { seen++ },
	}); err != nil {
		t.Fatal(err)
	}
	metadata := scope.MetadataFor(corev1.SchemeGroupVersion.WithResource("nodes"))
	metadata.Informer()
	scope.StartWithContext(t.Context())
	if err := scope.WaitForCacheSyncWithContext(t.Context()).AsError(); err != nil {
		t.Fatal(err)
	}
	if !scope.WaitUntilReady(t.Context()) || seen != 1 {
		t.Errorf("handler saw %d nodes, want 1", seen)
	}
	if list, err := metadata.Lister().List(labels.Everything()); err != nil || len(list) != 0 {
		t.Errorf("metadata of nodes: %v, error %v", list, err)
	}
}
