package clients

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// arriving is a body of which parts arrive one after the other: a read returns no more than one of them.
type arriving struct {
	parts [][]byte
	err   error // after the last part
	reads int
	// waits is called by a read that finds nothing.
	waits func()
}

func (a *arriving) Read(p []byte) (int, error) {
	a.reads++
	if len(a.parts) == 0 {
		if a.waits != nil {
			a.waits()
		}
		return 0, a.err
	}
	n := copy(p, a.parts[0])
	if a.parts[0] = a.parts[0][n:]; len(a.parts[0]) == 0 {
		a.parts = a.parts[1:]
	}
	return n, nil
}

func (*arriving) Close() error { return nil }

func TestABatchedBodyReadsWhatArrives(t *testing.T) {
	errCut := errors.New("cut")
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		source := &arriving{err: errCut}
		var want []byte
		for range r.IntN(6) {
			part := make([]byte, r.IntN(3*batchSize)+1)
			for i := range part {
				part[i] = byte(r.Uint32())
			}
			source.parts = append(source.parts, part)
			want = append(want, part...)
		}
		body := &batchedBody{ReadCloser: source}
		var got []byte
		var err error
		for err == nil {
			p := make([]byte, r.IntN(2*batchSize))
			var n int
			n, err = body.Read(p)
			got = append(got, p[:n]...)
		}
		if !bytes.Equal(got, want) || !errors.Is(err, errCut) {
			t.Fatalf("seed %d: read %d bytes and %v, want %d", seed, len(got), err, len(want))
		}
		if n, again := body.Read(make([]byte, 1)); n != 0 || !errors.Is(again, errCut) {
			t.Fatalf("seed %d: after the end, read %d bytes and %v", seed, n, again)
		}
	}
}

func TestABatchedBodyIsAReader(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), batchSize/4)
	if err := iotest.TestReader(&batchedBody{ReadCloser: io.NopCloser(bytes.NewReader(content))}, content); err != nil {
		t.Error(err)
	}
}

// Each event is read in two parts, of which the first says how large it is.
func TestABatchedBodyReadsManyEventsAtOnce(t *testing.T) {
	const events, header, payload = 1000, 4, 3000
	source := &arriving{parts: [][]byte{make([]byte, events*(header+payload))}, err: io.EOF}
	body := &batchedBody{ReadCloser: source}
	source.waits = func() {
		if body.buffer != nil {
			t.Error("a body that waits has a buffer")
		}
	}
	for range events {
		for _, size := range []int{header, payload} {
			if _, err := io.ReadFull(body, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if most := 2 * (events*(header+payload)/batchSize + 1); source.reads > most {
		t.Errorf("%d reads of %d events, want at most %d", source.reads, events, most)
	}
	if n, err := body.Read(make([]byte, header)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("got %d bytes and %v at the end", n, err)
	}
}
