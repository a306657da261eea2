// Package fakeclient makes the fake clientset of unit tests.
package fakeclient

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
)

func init() {
	watch.DefaultChanSize = 2000 // the fake panics if a watch is more events behind
}

// New returns a clientset whose API server holds the objects. Unlike fake.NewClientset it does not track the owners of
// fields, which no test reads, and for which that one builds a mapper of all types for each write.
func New(objects ...runtime.Object) *fake.Clientset { return fake.NewSimpleClientset(objects...) }
