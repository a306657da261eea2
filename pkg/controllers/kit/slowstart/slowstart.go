// Package slowstart makes many API calls in batches that grow while they succeed.
//
// The model, in rules:
//
//  1. Batches consist of 1, 2, 4, 8, … calls, limited by the calls that remain and by the cap.
//     The calls of a batch run concurrently.
//  2. If a call of a batch fails, the batch is finished and no further one starts. So a call
//     that is bound to fail, for example because of a quota, is made once and not a thousand
//     times.
//  3. No batch starts after the context has ended.
//  4. If a call panics, the other calls of its batch are finished and the panic is re-raised in
//     the caller.
//
// See docs/specs/workload-common.md, section 11.
package slowstart

import (
	"context"
	"sync"

	"kcmd.dev/pkg/controller/concurrent"
)

// Do calls do with the numbers 0 to count-1 until all succeeded or a batch failed. maxBatch
// caps a batch; 0 means no cap. It returns the number of successful calls and the errors of the
// others, in the order in which they occurred. If the context ends between batches, its error
// is among them.
func Do(ctx context.Context, count, maxBatch int, do func(ctx context.Context, i int) error) (int, []error) {
	succeeded := 0
	for size := 1; succeeded < count; size *= 2 {
		if ctx.Err() != nil {
			return succeeded, []error{context.Cause(ctx)}
		}
		if maxBatch > 0 {
			size = min(size, maxBatch)
		}
		batch := min(size, count-succeeded)
		errs := All(ctx, succeeded, succeeded+batch, do)
		succeeded += batch - len(errs)
		if len(errs) > 0 {
			return succeeded, errs
		}
	}
	return succeeded, nil
}

// All calls do concurrently with the numbers from first up to, but not including, end. It
// returns the errors in the order in which they occurred.
func All(ctx context.Context, first, end int, do func(ctx context.Context, i int) error) []error {
	var mu sync.Mutex
	var errs []error
	concurrent.Each(end-first, 0, func(i int) {
		if err := do(ctx, first+i); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	})
	return errs
}
