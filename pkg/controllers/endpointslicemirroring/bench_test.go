package endpointslicemirroring

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/klog/v2"
)

// BenchmarkReconcile must not grow with the size of the namespace. Endpoints of a Service
// with selector are the most common ones that are queued.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		bench := newBench(b, defaults).begin(b)
		var ips []string
		for i := range 100 {
			ips = append(ips, fmt.Sprintf("10.0.0.%d", i))
		}
		endpoints := testEndpoints(subset(80, ips, nil))
		for i := range size {
			name := fmt.Sprintf("other-%d", i)
			other := oneAddress()
			other.Name = name
			bench.Cache(b, other)
			bench.Cache(b, sliceOf(name, other, func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = name }))
		}
		bench.Cache(b, endpoints)
		bench.Cache(b, sliceOf("web-1", endpoints))
		ctx := klog.NewContext(bench.Context(), logr.Discard())
		for name, selector := range map[string]map[string]string{"mirrored": nil, "selector": {"a": "b"}} {
			b.Run(fmt.Sprintf("objects=%d/%s", size, name), func(b *testing.B) {
				bench.Cache(b, testService(selector))
				if selector != nil {
					if err := bench.Informers.Discovery().V1().EndpointSlices().Informer().GetIndexer().Delete(sliceOf("web-1", endpoints)); err != nil {
						b.Fatal(err)
					}
				} else {
					bench.Cache(b, sliceOf("web-1", endpoints))
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := bench.c.reconcile(ctx, web); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if got := bench.WriteVerbs(); len(got) != 0 {
			b.Fatalf("writes are %v, want none", got)
		}
	}
}
