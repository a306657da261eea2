package clients

import (
	"io"
	"sync"
)

// batchSize is how much of a watch is read at once at most.
const batchSize = 64 << 10

// batches are buffers for watches from which much is read.
var batches = sync.Pool{New: func() any { return new([batchSize]byte) }}

// batchedBody is the body of a watch, of which as much is read at once as has arrived. A decoder reads each event
// in two parts. HTTP/2 answers every 4 KiB that are read with a frame by which the API server may send more, and so
// with a system call: that was an eighth of the CPU of a start with 50,000 pods.
//
// A watch that waits for an event has no buffer: the first part of an event is read without.
type batchedBody struct {
	io.ReadCloser
	buffer *[batchSize]byte // nil while there is nothing in it
	rest   []byte           // of the buffer
	err    error            // what follows the rest
	more   bool             // there may be more of an event that was read in part
}

// Read implements io.Reader.
func (b *batchedBody) Read(p []byte) (int, error) {
	switch {
	case len(b.rest) > 0 || len(p) == 0:
	case b.err != nil:
		return 0, b.err
	case !b.more || len(p) >= batchSize:
		n, err := b.ReadCloser.Read(p)
		b.more = n == len(p)
		return n, err
	default:
		b.fill()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if len(b.rest) > 0 {
		return n, nil
	}
	b.release()
	return n, b.err
}

// fill reads what has arrived, and waits until something has.
func (b *batchedBody) fill() {
	b.buffer = batches.Get().(*[batchSize]byte)
	var n int
	n, b.err = b.ReadCloser.Read(b.buffer[:])
	b.rest = b.buffer[:n]
	b.more = n == batchSize
}

// release gives back a buffer that was read.
func (b *batchedBody) release() {
	if b.buffer != nil {
		batches.Put(b.buffer)
		b.buffer, b.rest = nil, nil
	}
}
