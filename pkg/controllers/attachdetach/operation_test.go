package attachdetach

import (
	"errors"
	"testing"
	"time"

	"kcmd.dev/test/controllertest"
)

// TestOperationsExcludeEachOther covers when an operation may begin. Pins ATT-26.
func TestOperationsExcludeEachOther(t *testing.T) {
	now := controllertest.Epoch
	recent, over := failure{now.Add(-time.Second), 2 * time.Second}, failure{now.Add(-time.Second), time.Second - 1}
	running := func(key string) *operation { return &operation{key: key, kind: attaching, running: true} }
	failed := func(key string, attach, detach failure) *operation {
		return &operation{key: key, attach: attach, detach: detach}
	}
	for name, tc := range map[string]struct {
		there   []*operation
		key     string
		starts  bool
		backoff time.Duration // after the next failure
	}{
		"no operation is there":                        {nil, "a", true, firstBackoff},
		"one runs on the node":                         {[]*operation{running("a")}, "a", false, 0},
		"one runs on another node":                     {[]*operation{running("b")}, "a", true, firstBackoff},
		"one runs on all nodes":                        {[]*operation{running("")}, "a", false, 0},
		"for all nodes, one runs on one":               {[]*operation{running("b")}, "", false, 0},
		"it has failed":                                {[]*operation{failed("a", failure{}, recent)}, "a", false, 0},
		"it has failed some time ago":                  {[]*operation{failed("a", failure{}, over)}, "a", true, 2*time.Second - 2},
		"another one has failed":                       {[]*operation{failed("a", recent, failure{})}, "a", true, firstBackoff},
		"ATT-91: another one has failed some time ago": {[]*operation{failed("a", over, failure{})}, "a", true, firstBackoff},
		"ATT-91: both have failed":                     {[]*operation{failed("a", over, recent)}, "a", false, 0},
		"ATT-91: both have failed, it some time ago":   {[]*operation{failed("a", recent, over)}, "a", true, 2*time.Second - 2},
		"one runs, and one of just the key has failed": {[]*operation{failed("a", recent, failure{}), running("")}, "a", false, 0},
		"two have failed, one of just the key":         {[]*operation{failed("", failure{}, recent), failed("a", failure{}, over)}, "a", true, 2*time.Second - 2},
	} {
		t.Run(name, func(t *testing.T) {
			v := &volume{operations: tc.there}
			o, ok := v.start(tc.key, detaching, now)
			if ok != tc.starts {
				t.Fatalf("starts: %v, want %v", ok, tc.starts)
			}
			if !ok {
				return
			}
			other := o.attach
			v.end(o, errors.New("no"), now)
			if o.detach != (failure{now, tc.backoff}) || o.attach != other || o.running || o.key != tc.key {
				t.Errorf("%+v, want backoff %v", o, tc.backoff)
			}
		})
	}
}

// Pins ATT-26 and ATT-55.
func TestTheBackoffDoubles(t *testing.T) {
	v, now := &volume{}, controllertest.Epoch
	for want := firstBackoff; ; want = min(2*want, lastBackoff) {
		o, ok := v.start("", attaching, now)
		if !ok {
			t.Fatal("it did not begin")
		}
		v.end(o, errors.New("no"), now)
		if o.attach.backoff != want || v.backoff("", attaching, now.Add(want)) != 1 || v.backoff("", attaching, now.Add(want+1)) != 0 {
			t.Fatalf("backoff is %v, want %v", o.attach.backoff, want)
		}
		now = now.Add(want + 1)
		if want == lastBackoff {
			break
		}
	}
	o, _ := v.start("", attaching, now)
	v.end(o, nil, now)
	if len(v.operations) > 0 {
		t.Errorf("left are %v", v.operations)
	}
}
