package slowstart

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// calls records how many calls were made and how many ran at the same time.
type calls struct {
	mu      sync.Mutex
	numbers []int
}

func (c *calls) add(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.numbers = append(c.numbers, i)
}

// Pins WL-67.
func TestDoStopsAfterTheBatchThatFails(t *testing.T) {
	for _, test := range []struct {
		name      string
		count     int
		maxBatch  int
		failing   []int
		calls     int
		succeeded int
		errs      int
	}{
		{"nothing", 0, 0, nil, 0, 0, 0},
		{"one", 1, 0, nil, 1, 1, 0},
		{"all succeed", 10, 0, nil, 10, 10, 0},
		{"first fails", 100, 0, []int{0}, 1, 0, 1},
		{"one of the second batch fails", 100, 0, []int{1}, 3, 2, 1},
		{"all of the third batch fail", 100, 0, []int{3, 4, 5, 6}, 7, 3, 4},
		{"the last batch is what is left", 5, 0, []int{4}, 5, 4, 1},
		{"capped batches", 100, 2, []int{5}, 7, 6, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var made calls
			succeeded, errs := Do(t.Context(), test.count, test.maxBatch, func(_ context.Context, i int) error {
				made.add(i)
				if slices.Contains(test.failing, i) {
					return errors.New("boom")
				}
				return nil
			})
			if len(made.numbers) != test.calls || succeeded != test.succeeded || len(errs) != test.errs {
				t.Errorf("%d calls, %d succeeded, %d errors, want %d, %d, %d",
					len(made.numbers), succeeded, len(errs), test.calls, test.succeeded, test.errs)
			}
			slices.Sort(made.numbers)
			for i, number := range made.numbers {
				if i != number {
					t.Fatalf("calls were made for %v", made.numbers)
				}
			}
		})
	}
}

// Pins WL-67.
func TestDoMakesTheCallsOfABatchConcurrently(t *testing.T) {
	// The calls of a batch wait for each other: run one by one they would never end.
	var first, second, third sync.WaitGroup
	first.Add(1)
	second.Add(2)
	third.Add(4)
	succeeded, errs := Do(t.Context(), 7, 0, func(_ context.Context, i int) error {
		batch := &first
		if i >= 3 {
			batch = &third
		} else if i >= 1 {
			batch = &second
		}
		batch.Done()
		batch.Wait()
		return nil
	})
	if succeeded != 7 || errs != nil {
		t.Errorf("got %d, %v", succeeded, errs)
	}
}

func TestDoBeginsNoBatchAfterTheContextEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("fenced")
	succeeded, errs := Do(ctx, 10, 0, func(context.Context, int) error {
		cancel(cause)
		return nil
	})
	if succeeded != 1 || len(errs) != 1 || !errors.Is(errs[0], cause) {
		t.Errorf("got %d, %v", succeeded, errs)
	}
}

func TestAllMakesEveryCallAndReturnsTheErrorsInTheOrderOfArrival(t *testing.T) {
	failed := make(chan struct{})
	var made calls
	errs := All(t.Context(), 2, 5, func(_ context.Context, i int) error {
		made.add(i)
		switch i {
		case 3:
			<-failed
			return errors.New("late")
		case 4:
			defer close(failed)
		}
		return nil
	})
	slices.Sort(made.numbers)
	if !slices.Equal(made.numbers, []int{2, 3, 4}) || len(errs) != 1 || errs[0].Error() != "late" {
		t.Errorf("made %v, got %v", made.numbers, errs)
	}
}

// A panic in a goroutine that nobody guards would end the process.
func TestThePanicOfACallIsRaisedInTheCaller(t *testing.T) {
	boom := errors.New("boom")
	var made calls
	defer func() {
		if raised, ok := recover().(error); !ok || !errors.Is(raised, boom) {
			t.Errorf("raised %v", raised)
		}
		if len(made.numbers) != 3 {
			t.Errorf("%d calls were made, want 3", len(made.numbers))
		}
	}()
	All(t.Context(), 0, 3, func(_ context.Context, i int) error {
		made.add(i)
		if i == 1 {
			panic(boom)
		}
		return nil
	})
}
