package writes

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Nobody asks for the record of an owner that is gone.
func TestRecordsThatHaveExpiredAreSwept(t *testing.T) {
	for name, test := range map[string]struct {
		record func(fixture)
		kept   bool
	}{
		"a version":           {func(f fixture) { f.Wrote(owner, podResource, "9") }, false},
		"WL-123: a later one": {func(f fixture) { f.Wrote(owner, podResource, "10") }, true},
		"an object":           {func(f fixture) { f.objects().Wrote(owner, pod("p", "1", "10")) }, false},
		"WL-97: a newer object": {func(f fixture) {
			f.clock.Step(1)
			f.objects().Wrote(owner, pod("p", "1", "10"))
		}, true},
		"a deletion":            {func(f fixture) { f.Deleting(owner, podResource, pod("p", "1", "10")) }, false},
		"a hold that has ended": {func(f fixture) { f.Hold(owner, Timeout) }, false},
		"a hold":                {func(f fixture) { f.Hold(owner, Timeout+1) }, true},
		"a status":              {func(f fixture) { f.WroteStatus(owner, "10") }, true},
		"a creation":            {func(f fixture) { f.CreateUncertain(owner, "", time.Time{}) }, false},
		"a creation of a name":  {func(f fixture) { f.CreateUncertain(owner, "p", f.clock.Now()) }, true},
		"a version, and a new deletion": {func(f fixture) {
			f.Wrote(owner, podResource, "10")
			f.clock.Step(1)
			f.Deleting(owner, podResource, owner)
		}, true},
		"a deletion, and a new version": {func(f fixture) {
			f.Deleting(owner, podResource, owner)
			f.clock.Step(1)
			f.Wrote(owner, podResource, "10")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.pods.Bookmark("9")
			began := f.clock.Now()
			test.record(f)
			f.clock.SetTime(began.Add(Timeout))
			for i := range 2 * minSweep {
				other := pod(fmt.Sprint("other-", i), types.UID(fmt.Sprint(i)), "1")
				f.Hold(other, time.Minute)
				f.Forget(other)
			}
			if _, kept := f.owners[reconcile.KeyOf(owner)]; kept != test.kept {
				t.Errorf("it is kept: %t", kept)
			}
		})
	}
}

// A sweep reads all records, and so is made as often as their number doubles.
func TestSweepsAreRare(t *testing.T) {
	f := newFixture()
	for i := range 4 * minSweep {
		f.Hold(pod(fmt.Sprint("held-", i), types.UID(fmt.Sprint(i)), "1"), Timeout)
	}
	if f.sweepAfter <= minSweep || len(f.owners) != 4*minSweep {
		t.Errorf("the next sweep is after %d more, %d are kept", f.sweepAfter, len(f.owners))
	}
}

// Pins WL-48.
func TestForget(t *testing.T) {
	for _, test := range []struct {
		name   string
		forget func(fixture)
		want   bool
	}{
		{"same owner", func(f fixture) { f.Forget(owner) }, true},
		{"another owner of that name", func(f fixture) { f.Forget(recreated) }, false},
		{"whatever owner", func(f fixture) { f.ForgetAll(reconcile.KeyOf(owner)) }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture()
			f.Hold(owner, Timeout)
			test.forget(f)
			if settled, _ := f.Settled(owner); settled != test.want || f.Knows(reconcile.KeyOf(owner)) == test.want {
				t.Errorf("forgotten: %v, known: %v", settled, f.Knows(reconcile.KeyOf(owner)))
			}
		})
	}
}
