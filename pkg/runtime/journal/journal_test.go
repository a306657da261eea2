package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/clients"
)

// sample is the n-th write.
func sample(n int) Record {
	return Record{
		Write: clients.Write{
			Verb:        "create",
			Target:      clients.Target{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "shop", Name: fmt.Sprint("web-5d4f7c9b6-", n)},
			Subresource: "status",
			Owner:       clients.Target{Resource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, Namespace: "shop", Name: "web-5d4f7c9b6"},
			Began:       time.Unix(1_700_000_000, int64(n)),
			Took:        7 * time.Millisecond,
			Code:        403,
			Message:     "exceeded quota",
		},
		Controller: "replicaset-controller",
		Task:       controller.Task{Queue: "replicaset", Key: "shop/web-5d4f7c9b6", Trigger: "ReplicaSet shop/web-5d4f7c9b6 added"},
		Generation: 3,
		Term:       2,
	}
}

func all(j *Journal) []Record {
	var list []Record
	j.Each(func(r Record) { list = append(list, r) })
	return list
}

func TestWhatIsRecordedIsReadAsItWas(t *testing.T) {
	j := New()
	if got := all(j); len(got) != 0 {
		t.Errorf("an empty journal has %+v", got)
	}
	want := []Record{
		sample(1),
		{Write: clients.Write{Began: time.Unix(0, 1)}},
		{Write: clients.Write{Began: time.Unix(5, 0), Code: 200, Target: clients.Target{Name: "ünïcode"}}, Controller: "a"},
		sample(2),
	}
	for _, r := range want {
		j.Add(r)
	}
	got := all(j)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("record %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

// Texts that are too long lose their end, and words that do not fit the table are stored with the
// record.
func TestLimitsOfARecord(t *testing.T) {
	j := New()
	long := strings.Repeat("ä", 2000)
	r := sample(1)
	r.Controller, r.Queue, r.Key, r.Trigger, r.Message, r.Subresource, r.Verb = long, long, long, long, long, long, long
	r.Target = clients.Target{Resource: schema.GroupResource{Group: long, Resource: long}, Namespace: long, Name: long}
	r.Owner = r.Target
	j.Add(r)
	got := all(j)[0]
	if len(got.Message) != maxText || len(got.Name) != maxName || len(got.Controller) != maxName || !strings.HasPrefix(long, got.Message) {
		t.Errorf("the record is %+v", got)
	}
	if cap(j.scratch) != maxRecord {
		t.Errorf("a record took %d bytes, more than maxRecord", cap(j.scratch))
	}
	for n := range maxWords + 10 {
		r := sample(n)
		r.Resource.Resource = fmt.Sprint("resource", n)
		j.Add(r)
	}
	for n, r := range all(j)[1:] {
		if want := fmt.Sprint("resource", n); r.Resource.Resource != want || r.Controller != "replicaset-controller" {
			t.Fatalf("record %d is of %s, want %s", n, r.Resource.Resource, want)
		}
	}
	if len(j.words.texts) != maxWords {
		t.Errorf("%d words, want %d", len(j.words.texts), maxWords)
	}
}

// The oldest records make room, and memory stays within the limit.
func TestTheJournalIsBounded(t *testing.T) {
	if MaxBytes > 4<<20 {
		t.Errorf("records take up to %d bytes", MaxBytes)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	j := New()
	const records = 60_000
	for n := range records {
		j.Add(sample(n))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the journal takes %d bytes, want at most 4 MiB", grown)
	}
	got := all(j)
	if len(got) < 15_000 || len(got) == records {
		t.Errorf("%d of %d records are left", len(got), records)
	}
	for i, r := range got {
		if want := sample(records - len(got) + i); r != want {
			t.Fatalf("record %d is\n%+v, want\n%+v", i, r, want)
		}
	}
	t.Logf("%d records of %d bytes", len(got), MaxBytes/len(got))
}

func TestReadersAndWritersDoNotDisturbEachOther(t *testing.T) {
	j := New()
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for n := range 20_000 {
				j.Add(sample(n))
			}
		})
	}
	for range 5 {
		j.Each(func(r Record) {
			if r.Controller != "replicaset-controller" || r.Message != "exceeded quota" {
				t.Errorf("read %+v", r)
			}
		})
	}
	writers.Wait()
}

// work is a context with work.
type work struct{ context.Context }

func (w work) Value(key any) any {
	if _, ok := key.(controller.WorkKey); ok {
		return w
	}
	return w.Context.Value(key)
}

func (work) Describe() controller.Task {
	return controller.Task{Queue: "q", Key: "ns/a", Trigger: "resync"}
}

func TestAnObserverAddsWhoWroteAndWhy(t *testing.T) {
	j := New()
	o := j.Of("a-controller", 7)
	o.Observe(t.Context(), clients.Write{Verb: "delete", Code: 200})
	j.SetGeneration(2)
	ctx, cancel := context.WithCancelCause(work{t.Context()})
	cancel(errors.New("over"))
	o.Observe(ctx, clients.Write{Verb: "patch", Message: "refused"})
	got := all(j)
	if r := got[0]; r.Controller != "a-controller" || r.Term != 7 || r.Generation != 0 || r.Key != "" || r.Code != 200 {
		t.Errorf("without work it is %+v", r)
	}
	if r := got[1]; r.Generation != 2 || r.Queue != "q" || r.Key != "ns/a" || r.Trigger != "resync" || r.Code != 0 {
		t.Errorf("with work it is %+v", r)
	}
}

// BenchmarkAdd measures what a record costs: CPU and garbage.
func BenchmarkAdd(b *testing.B) {
	j := New()
	r := sample(1)
	b.ReportAllocs()
	for b.Loop() {
		j.Add(r)
	}
}

// BenchmarkEach measures a question to a full journal.
func BenchmarkEach(b *testing.B) {
	j := New()
	for n := range 60_000 {
		j.Add(sample(n))
	}
	b.ReportAllocs()
	for b.Loop() {
		j.Each(func(Record) {})
	}
}
