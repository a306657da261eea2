package endpointslice

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// fill puts Services, pods and slices into the caches, one pod for each Service, and ten
// for the one that is reconciled.
func fill(b *testing.B, bench *bench, size int) {
	b.Helper()
	app := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": name, "tier": "front"} }
	}
	bench.Cache(b, testNode("node-a", "zone-a"))
	for i := range size {
		name := fmt.Sprintf("service-%d", i)
		bench.Cache(b, testService(func(s *corev1.Service) {
			s.Name, s.Spec.Selector = name, map[string]string{"app": name, "tier": "front"}
		}))
		bench.Cache(b, testPod(i, app(name)))
		bench.Cache(b, testSlice(name, service(name)))
	}
	bench.Cache(b, testService())
	for i := range 10 {
		bench.Cache(b, testPod(size+i))
	}
}

// newFilled returns a controller whose Service web is reconciled, and a quiet context.
func newFilled(b *testing.B, size int) (*bench, context.Context) {
	b.Helper()
	bench := newBench(b, defaults).begin(b)
	fill(b, bench, size)
	ctx := klog.NewContext(bench.Context(), logr.Discard())
	if err := bench.c.reconcile(ctx, web); err != nil {
		b.Fatal(err)
	}
	bench.observed(b)
	return bench, ctx
}

// BenchmarkReconcile must not grow with the size of the namespace.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		bench, ctx := newFilled(b, size)
		for name, unchanged := range map[string]bool{"unchanged": true, "decided": false} {
			b.Run(fmt.Sprintf("objects=%d/%s", size, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !unchanged {
						bench.c.inputs.forget(web)
					}
					if err := bench.c.reconcile(ctx, web); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
