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

// New returns a clientset whose API server holds the objects. It does not know who owns a field, which nobody here
// reads: fake.NewClientset does, but builds a mapper of all types for each write, most of the time of a test.
func New(objects ...runtime.Object) *fake.Clientset { return fake.NewSimpleClientset(objects...) }
