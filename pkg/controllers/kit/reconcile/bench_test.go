package reconcile_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// BenchmarkLoop measures what the loop itself needs for one key: to queue it, to take it and to
// conclude it.
func BenchmarkLoop(b *testing.B) {
	env := controllertest.New(b)
	ctx, stop := context.WithCancel(env.Context())
	defer stop()
	keys := make([]types.NamespacedName, 1000)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)}
	}
	worked := make(chan struct{}, len(keys))
	l := reconcile.New(env.Env, reconcile.Options[types.NamespacedName]{Queue: "q", Workers: 1}, func(context.Context, types.NamespacedName) error {
		worked <- struct{}{}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		batch := keys[:min(len(keys), b.N-done)]
		for _, key := range batch {
			l.Enqueue(reconcile.Fresh, key)
		}
		for range batch {
			<-worked
		}
		done += len(batch)
	}
	b.StopTimer()
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
