package benchmark

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"kcmd.dev/test/benchmark/report"
)

// addHeap adds what is alive in the manager's heap after a collection. Go's runtime says it, in the same
// way for both: it is the only figure that is not the kernel's or the API server's.
func (s *stage) addHeap(ctx context.Context, figures map[string]float64) error {
	// The first collection still leaves what pools hold.
	for range 2 {
		profile, err := s.manager.Get(ctx, "/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			return fmt.Errorf("reading the size of the heap: %w", err)
		}
		if figures[report.Heap], err = parseHeap(profile); err != nil {
			return fmt.Errorf("reading the size of the heap: %w", err)
		}
	}
	return nil
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// parseHeap finds the size of the heap, in MiB, in a heap profile as text.
func parseHeap(profile []byte) (float64, error) {
	found := heapAlloc.FindSubmatch(profile)
	if found == nil {
		return 0, errors.New("the profile does not say it")
	}
	size, err := strconv.ParseUint(string(found[1]), 10, 64)
	return float64(size) / (1 << 20), err
}
