package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestReleasedLeaseIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		term := a.leading(t)
		b := s.run(t, "b", defaults)
		pass(time.Minute + time.Second)
		a.sent()
		released := time.Now()
		if err := a.Release(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := a.sent(); got["update"] != 1 || len(got) != 1 {
			t.Fatalf("requests of a release: %v, want one update", got)
		}
		if !errors.Is(term.Err(), ErrReleased) {
			t.Fatalf("the term ended with %v", term.Err())
		}
		synctest.Wait()
		b.leading(t)
		if took := time.Since(released); took != 0 {
			t.Fatalf("taken after %v", took)
		}
		a.stop() // returns: Run has ended
		a.events.expect(t, "a became leader", "a stopped leading")
	})
}

func TestReleasedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Minute)
		a.stop()
		s.edit(func(l *coordinationv1.Lease) { // the version Release knows is not the stored one
			l.Labels = map[string]string{"k": "v"}
			*l.Spec.LeaseTransitions = 7
		})
		if err := a.Release(context.Background()); err != nil { // after Run has returned
			t.Fatal(err)
		}
		l := s.stored()
		holder, seconds, transitions, acquired, renewed := deref(l)
		if holder != "" || seconds != 1 || transitions != 7 || !acquired.Equal(&renewed) || !renewed.Time.Equal(time.Now()) || l.Labels["k"] != "v" {
			t.Fatalf("released lease: %+v", l)
		}
		before := l.ResourceVersion
		if err := a.Release(context.Background()); err != nil || s.stored().ResourceVersion != before {
			t.Fatalf("a second release: %v, version %s, want %s", err, s.stored().ResourceVersion, before)
		}
	})
}

func TestReleaseLeavesTheLeaseOfOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Minute)
		b.sent()
		if err := b.Release(context.Background()); err != nil || len(b.sent()) != 0 {
			t.Fatalf("releasing a lease of another: %v", err)
		}
		b.stop()
		if holderOf(s.stored()) != "a" {
			t.Fatal("the lease of another was released")
		}
	})
}

func TestReleaseFailsIfTheServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		s.do(func() { a.down = true })
		if err := a.Release(context.Background()); !errors.Is(err, errDown) {
			t.Fatalf("got %v", err)
		}
	})
}
