package reconcile

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// Pins WL-113.
func TestLooksAtACacheAreNeverFarApart(t *testing.T) {
	rechecks := newRechecks[string]()
	var got []time.Duration
	for range 20 {
		got = append(got, rechecks.When("a"))
	}
	if got[0] != firstRecheck || !slices.IsSorted(got) || got[len(got)-1] != RecheckAfter {
		t.Errorf("delays are %v", got)
	}
	for i := range 1000 {
		if other := rechecks.When(fmt.Sprint(i)); other != firstRecheck {
			t.Fatalf("the first delay of key %d is %v", i, other)
		}
	}
}

// However often other keys fail, a key waits for them no longer than maxTurn. Pins WL-114.
func TestRetriesOfOthersDelayAKeyForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bucket reads the clock
		retries := Backoff[string](time.Millisecond, time.Hour)
		for range 10_000 {
			retries.When("a")
		}
		if delay := retries.When("a"); delay != time.Hour {
			t.Errorf("the key that fails is retried after %v", delay)
		}
		delays := map[time.Duration]bool{}
		for i := range 100 {
			delay := retries.When(fmt.Sprint("b", i))
			if delay < maxTurn/2 || delay > maxTurn {
				t.Errorf("another key is retried after %v", delay)
			}
			delays[delay] = true
		}
		if len(delays) < 50 {
			t.Errorf("they come back together, after %v", delays)
		}
		time.Sleep(maxTurn)
		if delay := retries.When("c"); delay > 100*time.Millisecond {
			t.Errorf("once the bucket has paid what it owed, a key is retried after %v", delay)
		}
	})
}

// What is not taken is given back, also if keys fail at the same time.
func TestTheBucketNeverOwesMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retries := &turns[string]{bucket: rate.NewLimiter(10, 100)}
		var failing sync.WaitGroup
		for range 8 {
			failing.Go(func() {
				for range 1000 {
					retries.When("a")
				}
			})
		}
		failing.Wait()
		if owed := -retries.bucket.Tokens(); owed != 10*maxTurn.Seconds() {
			t.Errorf("the bucket owes %v tokens", owed)
		}
	})
}

// Pins WL-4.
func TestTheFirstRetriesOfManyKeysAreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retries := Backoff[string](firstRetry, lastRetry)
		for i := range 100 {
			if delay := retries.When(fmt.Sprint(i)); delay != firstRetry {
				t.Fatalf("key %d is retried after %v", i, delay)
			}
		}
		if delay := retries.When("next"); delay != 100*time.Millisecond {
			t.Errorf("the next key is retried after %v", delay)
		}
	})
}
