// Package informerstest opens scopes for unit tests, on fake clients.
package informerstest

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/informers"
)

// NewScope opens a scope on informers that list and watch through client, usually a
// k8s.io/client-go/kubernetes/fake one. Metadata informers are empty. Everything is ended
// with the test.
func NewScope(t testing.TB, client kubernetes.Interface) controller.Scope {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatalf("preparing metadata client: %v", err)
	}
	return NewScopeWithMetadata(t, client, metadatafake.NewSimpleMetadataClient(scheme))
}

// NewScopeWithMetadata is NewScope with a client for metadata informers.
func NewScopeWithMetadata(t testing.TB, client kubernetes.Interface, metadata metadata.Interface) controller.Scope {
	t.Helper()
	shared := informers.New(informers.Options{Client: client, Metadata: metadata})
	shared.Start(t.Context())
	scope := shared.NewScope(informers.ScopeOptions{
		Name:    t.Name(),
		OnPanic: func(err error) { t.Errorf("%v", err) },
	})
	t.Cleanup(func() {
		scope.Close()
		shared.Shutdown()
	})
	return scope
}
