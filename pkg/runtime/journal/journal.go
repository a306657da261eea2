package journal

import (
	"context"
	"sync"
	"sync/atomic"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/clients"
)

const (
	// MaxBytes is the most memory that records take, about 4 MB. A record has 100 to 300 bytes.
	MaxBytes = maxSegments*segmentSize + maxWords*maxWord

	segmentSize = 64 << 10
	maxSegments = 60
)

// Record is a write of a controller.
type Record struct {
	clients.Write
	// Controller made the write, for the key of a queue that was there because of the trigger; see
	// controller.Task.
	Controller string
	controller.Task
	// Generation is that of the configuration in force, Term the number of the term of the
	// lease, 0 for a controller that runs without one.
	Generation, Term uint64
}

// Journal is the last writes of a process. It is safe for concurrent use.
type Journal struct {
	generation atomic.Uint64
	counts     counts

	mu       sync.Mutex
	words    words
	segments [][]byte // in the order in which they were begun, from the position of first on
	first    uint64   // the number of the oldest segment
	scratch  []byte
}

// New makes an empty journal.
func New() *Journal { return &Journal{scratch: make([]byte, 0, maxRecord)} }

// SetGeneration sets the generation of the configuration for the records to come.
func (j *Journal) SetGeneration(n uint64) { j.generation.Store(n) }

// Of returns the observer for the writes that a controller makes in a term.
func (j *Journal) Of(name string, term uint64) clients.Observer {
	return observer{journal: j, results: j.counts.of(name), controller: name, term: term}
}

type observer struct {
	journal    *Journal
	results    *results
	controller string
	term       uint64
}

// Observe implements clients.Observer.
func (o observer) Observe(ctx context.Context, w clients.Write) {
	o.results.add(&w)
	o.journal.Add(Record{
		Write:      w,
		Controller: o.controller,
		Task:       controller.WorkOf(ctx),
		Generation: o.journal.generation.Load(),
		Term:       o.term,
	})
}

// Add records a write.
func (j *Journal) Add(r Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.scratch = j.words.encode(j.scratch[:0], &r)
	last := len(j.segments) - 1
	if last < 0 || len(j.segments[last])+len(j.scratch) > segmentSize {
		j.begin()
		last = len(j.segments) - 1
	}
	j.segments[last] = append(j.segments[last], j.scratch...)
}

// begin begins a segment, with the memory of the oldest one if there are enough.
func (j *Journal) begin() {
	if len(j.segments) < maxSegments {
		j.segments = append(j.segments, make([]byte, 0, segmentSize))
		return
	}
	oldest := j.segments[0]
	copy(j.segments, j.segments[1:])
	j.segments[maxSegments-1] = oldest[:0]
	j.first++
}

// Each calls visit with the records, the oldest first. What is recorded meanwhile may be missing,
// and so may be the oldest if many are.
func (j *Journal) Each(visit func(Record)) {
	copied := make([]byte, 0, segmentSize)
	var words []string
	for n := uint64(0); ; n++ {
		j.mu.Lock()
		n = max(n, j.first)
		if n-j.first >= uint64(len(j.segments)) {
			j.mu.Unlock()
			return
		}
		copied = append(copied[:0], j.segments[n-j.first]...)
		words = j.words.all()
		j.mu.Unlock()
		for d := (decoder{words: words, rest: copied}); len(d.rest) > 0; {
			visit(d.record())
		}
	}
}
