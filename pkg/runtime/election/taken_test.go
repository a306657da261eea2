package election

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A lease that was taken at a version which somebody knows to be replaced, or of which a term is not known any more, is
// of another history. Pins MGR-225.
func TestWhatContradictsALeaseThatWasSeen(t *testing.T) {
	lease := func(version, taken string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			UID: "u", ResourceVersion: version, Annotations: map[string]string{TakenAnnotation: taken},
		}}
	}
	var many []string
	for i := range maxTaken {
		many = append(many, strconv.Itoa(2000+i))
	}
	for name, test := range map[string]struct {
		seen, now *coordinationv1.Lease
		want      bool
	}{
		"the same":                               {lease("1000", "280 700"), lease("1000", "280 700"), false},
		"renewed":                                {lease("1000", "280 700"), lease("1100", "280 700"), false},
		"taken at the version that was seen":     {lease("1000", "280 700"), lease("1100", "280 700 1000"), false},
		"taken later, twice":                     {lease("1000", "280 700"), lease("1100", "280 700 1003 1050"), false},
		"taken at an earlier version":            {lease("1000", "280 700"), lease("1100", "280 700 900"), true},
		"taken for the first time, earlier":      {lease("1000", ""), lease("1100", "900"), true},
		"a term is gone":                         {lease("1000", "280 700"), lease("1100", "280"), true},
		"a term is gone, and it was taken since": {lease("1000", "280 700"), lease("1100", "280 1050"), true},
		"another term instead":                   {lease("1000", "280 700"), lease("1100", "280 500"), true},
		"nothing is known of earlier terms":      {lease("1000", "280 700"), lease("1100", ""), false},
		"nor of any but later ones":              {lease("1000", "280 700"), lease("3000", strings.Join(many, " ")), false},
		"the oldest are dropped":                 {lease("1000", "1 2 280 700"), lease("1100", "280 700 1000"), false},
		"nothing was known":                      {lease("1000", ""), lease("1100", "1000"), false},
		"9 is before 10":                         {lease("10", "9"), lease("11", "9 10"), false},
		"another lease": {lease("1000", "280"), func() *coordinationv1.Lease {
			l := lease("1100", "900")
			l.UID = types.UID("v")
			return l
		}(), false},
		"what was seen is no list": {lease("1000", "x"), lease("1100", "280 700"), false},
		"no versions":              {lease("1000", "280"), lease("1100", "x"), false},
		"not in order":             {lease("1000", "280"), lease("1100", "900 500"), false},
		"of the future":            {lease("1000", "280"), lease("1100", "900 1200"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := contradicts(test.seen, test.now); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// Each term that begins is recorded, a renewal is not, and only the newest are kept. Pins MGR-225.
func TestALeaseSaysAtWhichVersionsItWasTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Minute)
		if taken := s.stored().Annotations[TakenAnnotation]; taken != "" {
			t.Fatalf("a lease that was made: %q", taken)
		}
		var want []string
		for range maxTaken + 2 {
			term := a.leading(t)
			if err := a.Yield(t.Context(), term, time.Second); err != nil {
				t.Fatal(err)
			}
			want = append(want, s.stored().ResourceVersion)
			pass(10 * time.Second)
		}
		if got := s.stored().Annotations[TakenAnnotation]; got != strings.Join(want[2:], " ") {
			t.Errorf("got  %s\nwant %s", got, strings.Join(want[2:], " "))
		}
	})
}

// A process that was cut off when etcd was restored, and until another one had written the lease at a later version
// than it knew, notices all the same. Pins MGR-225.
func TestAProcessThatWasAwayDuringARestoreNotices(t *testing.T) {
	for _, leads := range []bool{true, false} {
		for _, elsewhere := range []string{"free", "a", "x"} {
			t.Run(fmt.Sprintf("leads %t, recorded %s", leads, elsewhere), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					s.version = 100
					a := s.obeying(t, "a", Caution{})
					pass(time.Second)
					b := s.obeying(t, "b", Caution{})
					pass(10 * time.Second)
					snapshot := s.stored()
					snapshot.Spec.HolderIdentity = ptr.To(map[string]string{"free": "", "a": "a", "x": "x"}[elsewhere])
					pass(time.Minute)
					away, term := b, a.leading(t)
					if leads {
						away = a
						b.stop()
					} else {
						a.stop()
					}
					s.do(func() { away.down = true })
					s.endWatches(away.candidate)
					pass(time.Second)
					s.restore(snapshot)
					c := s.run(t, "c", defaults) // a new process: it has not seen what is lost
					pass(time.Minute)
					c.leading(t)
					s.do(func() { s.version += 1000 })
					pass(defaults.RetryPeriod)
					s.do(func() { away.down = false })
					pass(2 * defaults.RetryPeriod)
					synctest.Wait()
					if !away.Receded() || away.Status().LastError != ErrRestored.Error() {
						t.Errorf("it does not know: %+v", away.Status())
					}
					if leads && term.Valid() {
						t.Error("its term goes on")
					}
					if away.Caution().HoldOff.Before(time.Now()) {
						t.Error("it would not leave the lease to others")
					}
				})
			})
		}
	}
}

// What a watch says may come from a cache of before the restore: it is a reason to ask. Pins MGR-225.
func TestAWatchThatContradictsIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.version = 100
		a := s.obeying(t, "a", Caution{})
		pass(time.Second)
		b := s.obeying(t, "b", Caution{})
		pass(time.Minute)
		term := a.leading(t)
		b.sent()
		other := s.stored()
		version, err := strconv.Atoi(other.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		other.ResourceVersion = strconv.Itoa(version + 1000)
		other.Annotations = map[string]string{TakenAnnotation: strconv.Itoa(version - 1)}
		s.do(func() { b.replays = other })
		s.endWatches(b.candidate)
		pass(3 * defaults.RetryPeriod)
		synctest.Wait()
		if b.Receded() || !term.Valid() || errors.Is(term.Err(), ErrRestored) {
			t.Errorf("it was believed: %+v", b.Status())
		}
		if sent := b.sent(); sent["get"] == 0 {
			t.Errorf("nobody asked: %v", sent)
		}
		b.standingBy(t)
	})
}
