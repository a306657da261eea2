package endpoints

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// BenchmarkReconcile is of a Service with ten pods that needs no write. It must not grow
// with the size of the namespace.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		bench := newBench(b, defaults).begin(b)
		for i := range size {
			name := fmt.Sprintf("service-%d", i)
			bench.Cache(b, testService(func(s *corev1.Service) { s.Name, s.Spec.Selector = name, map[string]string{"app": name} }))
			bench.Cache(b, testPod(i, func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} }))
			bench.Cache(b, testEndpoints(nil, func(e *corev1.Endpoints) { e.Name = name }))
		}
		bench.Cache(b, testService())
		for i := range 10 {
			bench.Cache(b, testPod(size+i))
		}
		ctx := klog.NewContext(bench.Context(), logr.Discard())
		if err := bench.c.reconcile(ctx, web); err != nil {
			b.Fatal(err)
		}
		bench.observed(b)
		b.Run(fmt.Sprintf("objects=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.c.reconcile(ctx, web); err != nil {
					b.Fatal(err)
				}
			}
		})
		if got := bench.WriteVerbs(); len(got) != 1 {
			b.Fatalf("writes are %v, want the create", got)
		}
	}
}

// BenchmarkContents is of a Service with 1,000 pods.
func BenchmarkContents(b *testing.B) {
	service, all := testService(), pods(1000)
	current := testEndpoints(all)
	b.ReportAllocs()
	for b.Loop() {
		if !newContents(service, all).stored(current) {
			b.Fatal("they are not stored")
		}
	}
}
