package election

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func TestAnnotationsAreWrittenWithTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.runWith(t, "a", defaults, func(o *Options) {
			o.Labels = map[string]string{"part-of": "test"}
			o.Annotations = map[string]string{"runs": "one", "gone": ""}
		})
		synctest.Wait()
		term := a.leading(t)
		if l := s.stored(); l.Annotations["runs"] != "one" || len(l.Annotations) != 1 || l.Labels["part-of"] != "test" {
			t.Fatalf("the lease was created with labels %v, annotations %v", l.Labels, l.Annotations)
		}
		if got := a.sent(); got["create"] != 1 || got["update"] != 0 {
			t.Fatalf("requests %v, want a create only", got)
		}

		s.edit(func(l *coordinationv1.Lease) { l.Annotations["theirs"] = "kept" })
		changed := time.Now()
		a.SetAnnotations(map[string]string{"runs": "one,two"})
		if err := a.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(changed) != 0 || a.leading(t) != term {
			t.Fatalf("written after %v, term %v", time.Since(changed), a.State().Term)
		}
		want := map[string]string{"runs": "one,two", "theirs": "kept"}
		if got := s.stored().Annotations; !maps.Equal(got, want) {
			t.Fatalf("annotations %v, want %v", got, want)
		}
		synctest.Wait()
		if got := a.State().Annotations; !maps.Equal(got, want) {
			t.Fatalf("the state tells of annotations %v, want %v", got, want)
		}
		a.sent()
		a.SetAnnotations(map[string]string{"runs": "one,two"})
		synctest.Wait()
		if got := a.sent(); len(got) != 0 {
			t.Fatalf("setting the same again sent %v", got)
		}

		a.SetAnnotations(map[string]string{"runs": ""})
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.stored(); holderOf(got) != "" || !maps.Equal(got.Annotations, map[string]string{"theirs": "kept"}) {
			t.Fatalf("released lease: %+v", got)
		}
		if got := a.sent(); got["update"] > 2 {
			t.Fatalf("requests %v", got)
		}
	})
}

func TestStandbySeesAnnotationsAndWritesItsOwnWhenItTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.runWith(t, "a", defaults, func(o *Options) { o.Annotations = map[string]string{"runs": "a"} })
		synctest.Wait()
		b := s.runWith(t, "b", defaults, func(o *Options) { o.Annotations = map[string]string{"runs": "b"} })
		pass(time.Minute)
		synctest.Wait()
		if got := b.seen(); len(got) != 1 || got[0].Holder != "a" || got[0].Annotations["runs"] != "a" {
			t.Fatalf("states of the standby: %+v, want one, renewals are none", got)
		}
		a.SetAnnotations(map[string]string{"runs": "a2"})
		synctest.Wait()
		if got := b.seen(); len(got) != 1 || got[0].Annotations["runs"] != "a2" {
			t.Fatalf("the standby was told of %+v", got)
		}
		b.SetAnnotations(map[string]string{"runs": "b2"})
		synctest.Wait()
		if got := s.stored().Annotations["runs"]; got != "a2" {
			t.Fatalf("a standby wrote %q", got)
		}
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.leading(t)
		if got := b.sent(); got["update"] != 1 || s.stored().Annotations["runs"] != "b2" {
			t.Fatalf("the takeover took %v, annotations %v", got, s.stored().Annotations)
		}
	})
}

func TestHolderIsToldOfAnnotationsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.runWith(t, "a", defaults, func(o *Options) { o.Annotations = map[string]string{"runs": "a"} })
		pass(time.Second)
		term := a.leading(t)
		a.seen()
		s.edit(func(l *coordinationv1.Lease) {
			l.Annotations = map[string]string{"wanted-by": "b"} // and ours are gone
		})
		pass(defaults.RetryPeriod)
		synctest.Wait()
		want := map[string]string{"runs": "a", "wanted-by": "b"}
		if got := a.seen(); len(got) != 1 || !maps.Equal(got[0].Annotations, want) || got[0].Term != term {
			t.Fatalf("told of %+v, want annotations %v", got, want)
		}
		if got := s.stored().Annotations; !maps.Equal(got, want) {
			t.Fatalf("stored %v, want %v", got, want)
		}
	})
}

func TestPublishFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		synctest.Wait()
		b := s.run(t, "b", defaults)
		pass(time.Second)
		if err := b.Publish(t.Context()); !errors.Is(err, ErrNotHeld) {
			t.Fatalf("a standby published: %v", err)
		}
		s.do(func() { a.down = true })
		a.SetAnnotations(map[string]string{"k": "v"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Publish(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without API server: %v", err)
		}
		if err := a.Publish(t.Context()); !errors.Is(err, ErrNotRenewed) {
			t.Fatalf("after the end of the term: %v", err)
		}
		pass(time.Minute)
		s.do(func() { a.down = false })
		if s.stored().Annotations["k"] != "" {
			t.Fatal("something was stored")
		}
	})
}

// TestPublishOutlivesLostAnswers: what counts is what is known to be stored.
func TestPublishOutlivesLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		a := s.run(t, "a", defaults)
		pass(time.Second)
		term := a.leading(t)
		s.do(func() { a.deaf = true })
		a.SetAnnotations(map[string]string{"k": "1"})
		synctest.Wait()
		published := make(chan error, 1)
		go func() { published <- a.Publish(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-published:
			t.Fatalf("published without an answer: %v", err)
		default:
		}
		a.SetAnnotations(map[string]string{"k": "2"})
		s.do(func() { a.deaf = false })
		pass(2 * defaults.RetryPeriod)
		if err := <-published; err != nil || s.stored().Annotations["k"] != "2" || a.leading(t) != term {
			t.Fatalf("published %v: %v", s.stored().Annotations, err)
		}
	})
}
