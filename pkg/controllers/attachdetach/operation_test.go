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
	running := func(key string) *operation { return &operation{key: key, name: attaching, running: true} }
	failed := func(key, name string) *operation {
		return &operation{key: key, name: name, failed: now.Add(-time.Second), backoff: 2 * time.Second}
	}
	over := func(key, name string) *operation {
		return &operation{key: key, name: name, failed: now.Add(-time.Second), backoff: time.Second - 1}
	}
	for name, tc := range map[string]struct {
		there   []*operation
		key     string
		starts  bool
		name    string        // of the entry
		backoff time.Duration // after the next failure
	}{
		"nothing":                                      {nil, "a", true, detaching, firstBackoff},
		"one runs on the node":                         {[]*operation{running("a")}, "a", false, "", 0},
		"one runs on another node":                     {[]*operation{running("b")}, "a", true, detaching, firstBackoff},
		"one runs on all nodes":                        {[]*operation{running("")}, "a", false, "", 0},
		"for all nodes, one runs on one":               {[]*operation{running("b")}, "", false, "", 0},
		"it has failed":                                {[]*operation{failed("a", detaching)}, "a", false, "", 0},
		"it has failed some time ago":                  {[]*operation{over("a", detaching)}, "a", true, detaching, 2*time.Second - 2},
		"another one has failed":                       {[]*operation{failed("a", attaching)}, "a", true, detaching, firstBackoff},
		"another one has failed some time ago":         {[]*operation{over("a", attaching)}, "a", true, attaching, 2*time.Second - 2},
		"one runs, and one of just the key has failed": {[]*operation{failed("a", attaching), running("")}, "a", false, "", 0},
		"two have failed, one of just the key":         {[]*operation{failed("", detaching), over("a", detaching)}, "a", true, detaching, 2*time.Second - 2},
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
			v.end(o, errors.New("no"), now)
			if o.name != tc.name || o.backoff != tc.backoff || o.running || o.key != tc.key {
				t.Errorf("%+v, want name %s, backoff %v", o, tc.name, tc.backoff)
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
		if o.backoff != want || !o.isBackingOff(now.Add(want)) || o.isBackingOff(now.Add(want+1)) {
			t.Fatalf("backoff is %v, want %v", o.backoff, want)
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
