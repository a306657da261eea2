package cost

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/informers/wire"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// What fills caches is decoded in parts: two pods of one template have one spec, and no metadata has managedFields.
// Decoded whole, as after a change of what the API server sends, everything would work as before and cost more.
func TestCachesAreFilledWithoutDecodingAllOfIt(t *testing.T) {
	namespace := harness.NamespaceForPods(t, plane)
	config := plane.AdminConfig()
	config.ContentType = runtime.ContentTypeProtobuf
	client := must.Get(kubernetes.NewForConfig(config))(t)
	caches, _, err := informers.ForCaches(client, config)
	must.Succeed(t, err)
	partial := must.Get(wire.MetadataClient(must.Get(metadata.NewForConfig(config))(t), config))(t)
	for range 2 {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image", Command: []string{"dropped"}}}},
		}
		created := must.Get(client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		if len(created.ManagedFields) == 0 || informers.Shrunk(created) {
			t.Fatalf("the answer has the managedFields %v", created.ManagedFields)
		}
	}
	all := metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	var pods []*corev1.Pod
	for _, object := range initial(t, func(ctx context.Context) (watch.Interface, error) {
		return caches.CoreV1().Pods(namespace).Watch(ctx, all)
	}) {
		pods = append(pods, object.(*corev1.Pod))
	}
	if len(pods) != 2 || !informers.Shrunk(pods[0]) || &pods[0].Spec.Containers[0] != &pods[1].Spec.Containers[0] || pods[0].Spec.Containers[0].Command != nil {
		t.Errorf("the pods are %v", pods)
	}
	objects := initial(t, func(ctx context.Context) (watch.Interface, error) {
		return partial.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace).Watch(ctx, all)
	})
	for _, object := range objects {
		if m := object.(*metav1.PartialObjectMetadata); m.ManagedFields != nil || m.Labels["app"] != "web" || m.UID == "" {
			t.Errorf("the metadata is %v", m)
		}
	}
	if len(objects) != 2 {
		t.Errorf("the metadata of %d pods is sent", len(objects))
	}
}

// The answer to a write has no more than the metadata if no more is read. Sent and decoded whole, everything would
// work as before and cost more.
func TestAnswersAreSentWithoutAllOfThem(t *testing.T) {
	namespace := harness.NamespaceForPods(t, plane)
	all := must.Get(clients.New(clients.Options{Base: plane.AdminConfig()}))(t)
	t.Cleanup(all.Close)
	pods := must.Get(all.For(clients.Identity{Name: "test"}, clients.NewFence()))(t).Kubernetes.CoreV1().Pods(namespace)
	wanted := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	brief := controller.OnlyMetadata(t.Context())
	created := must.Get(pods.Create(brief, wanted, metav1.CreateOptions{}))(t)
	stored := must.Get(pods.Get(brief, created.Name, metav1.GetOptions{}))(t)
	patched := must.Get(pods.Patch(brief, created.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{}))(t)
	if created.UID != stored.UID || created.Labels["app"] != "web" || created.Spec.Containers != nil || len(stored.Spec.Containers) != 1 {
		t.Errorf("created %v\nstored %v", created, stored)
	}
	if patched.Labels["app"] != "other" || patched.ResourceVersion == "" || patched.Spec.Containers != nil {
		t.Errorf("patched %v", patched)
	}
	must.Succeed(t, pods.Delete(brief, created.Name, metav1.DeleteOptions{}))
}

// initial returns the objects that a watch begins with.
func initial(t *testing.T, begin func(context.Context) (watch.Interface, error)) []runtime.Object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := must.Get(begin(ctx))(t)
	defer w.Stop()
	var all []runtime.Object
	for event := range w.ResultChan() {
		if event.Type == watch.Bookmark {
			return all
		}
		all = append(all, event.Object)
	}
	t.Fatal("the watch ended before all objects were sent")
	return nil
}
