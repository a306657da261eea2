// Package slowstart makes many API calls in batches that grow while they succeed.
//
// The model, in rules:
//
//  1. Batches hold 1, 2, 4, 8, … calls, never more than are left or than the cap. The
//     calls of a batch run concurrently.
//  2. If a call of a batch fails, the batch is finished and no further one begins. So a
//     call that is bound to fail, for example over quota, is made once and not a
//     thousand times.
//  3. No batch begins once the context has ended.
//  4. If a call panics, the calls made with it are finished and the panic is raised in the
//     caller.
//
// See specs/workload-common.md, section 11.
package slowstart

import (
	"context"
	"sync"

	"kcmd.dev/pkg/controllers/kit/concurrent"
)

// Do calls do with the numbers 0 to count-1 until all succeeded or a batch failed.
// maxBatch caps a batch; 0 means no cap. It returns the number of calls that succeeded
// and the errors of those that failed, in the order in which they came in. A context
// that ended between batches is an error too.
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

// All calls do with the numbers from first up to, not including, end, all at once. It
// returns the errors in the order in which they came in.
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
