package faultproxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// lengthSize is what comes before an event in protobuf: its length, big-endian.
	lengthSize = 4
	// longestEvent bounds what is believed of it. No object is longer than a few MiB.
	longestEvent = 64 << 20
)

// stream is the answer to a watch on its way through the proxy. What comes from the API
// server is read at once, whatever waits here: the API server ends watches nobody reads from.
type stream struct {
	proxy      *Proxy
	ctx        context.Context // of the request
	attributes attributes
	encoding   encoding
	body       io.ReadCloser
	reading    sync.WaitGroup
	rest       []byte // of the event that is handed on

	mu     sync.Mutex
	queue  []frame
	failed error         // why nothing more will be queued
	more   chan struct{} // reports a change of the queue
}

// frame is one event and what it needs to be handed on.
type frame struct {
	data   []byte
	came   time.Time
	faults []*Fault // that delay it
}

// newStream begins to read the answer to a watch. The stream replaces its body.
func newStream(ctx context.Context, p *Proxy, a attributes, answer *http.Response) *stream {
	s := &stream{
		proxy:      p,
		ctx:        ctx,
		attributes: a,
		encoding:   encodingOf(answer.Header.Get("Content-Type")),
		body:       answer.Body,
		more:       make(chan struct{}, 1),
	}
	if answer.Header.Get("Content-Encoding") != "" {
		s.encoding = unknown
	}
	s.reading.Go(s.receive)
	return s
}

// receive queues events until there are no more.
func (s *stream) receive() {
	reader := bufio.NewReaderSize(s.body, 32<<10)
	for {
		data, err := s.encoding.next(reader)
		if len(data) > 0 {
			if faults, dropped := s.examine(data); !dropped {
				s.put(frame{data: data, came: time.Now(), faults: faults}, nil)
			}
		}
		if err != nil {
			s.put(frame{}, err)
			return
		}
	}
}

// next reads one event with its frame. What comes with an error is passed on as well.
func (e encoding) next(r *bufio.Reader) ([]byte, error) {
	switch e {
	case jsonText:
		return r.ReadBytes('\n')
	case protobuf:
		head, err := r.Peek(lengthSize)
		if err != nil {
			return head, err
		}
		length := binary.BigEndian.Uint32(head)
		if length > longestEvent {
			return nil, fmt.Errorf("an event of %d bytes", length)
		}
		data := make([]byte, lengthSize+length)
		n, err := io.ReadFull(r, data)
		return data[:n], err
	}
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	data := make([]byte, r.Buffered())
	n, err := r.Read(data)
	return data[:n], err
}

// examine finds the faults that delay an event, or that it is dropped. It is decoded once,
// and only for faults that ask for it.
func (s *stream) examine(data []byte) (delayedBy []*Fault, dropped bool) {
	var event Event
	var decoded, readable bool
	for _, f := range s.proxy.inForce() {
		if f.kind != delaysEvents && f.kind != dropsEvents || !f.requests.matchWatch(s.attributes) {
			continue
		}
		if needsEvent := f.drop != nil || f.requests.Namespace != "" || f.requests.Name != ""; needsEvent && !decoded {
			event, readable = s.encoding.decode(data)
			decoded = true
		}
		if !f.concerns(event, readable) {
			continue
		}
		f.hits.Add(1)
		if f.kind == dropsEvents {
			return nil, true
		}
		delayedBy = append(delayedBy, f)
	}
	return delayedBy, false
}

// concerns reports whether an event of a matching watch is among those of the fault. Nothing
// is known of an event that is not readable.
func (f *Fault) concerns(e Event, readable bool) bool {
	if f.requests.Namespace != "" && (!readable || f.requests.Namespace != e.Namespace) {
		return false
	}
	if f.requests.Name != "" && (!readable || f.requests.Name != e.Name) {
		return false
	}
	return f.kind != dropsEvents || readable && e.aboutObject() && f.drop(e)
}

func (s *stream) put(f frame, failed error) {
	s.mu.Lock()
	if failed != nil {
		s.failed = failed
	} else {
		s.queue = append(s.queue, f)
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take returns the next event, when there is one.
func (s *stream) take() (frame, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			f := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return f, nil
		}
		failed := s.failed
		s.mu.Unlock()
		if failed != nil {
			return frame{}, failed
		}
		select {
		case <-s.more:
		case <-s.ctx.Done():
			return frame{}, s.ctx.Err()
		}
	}
}

// Read hands on the next event, or what is left of it, once nothing delays it.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		next, err := s.take()
		if err != nil {
			return 0, err
		}
		for _, f := range next.faults {
			if err := f.wait(s.ctx, next.came); err != nil {
				return 0, err
			}
		}
		s.rest = next.data
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the watch and returns when nothing of it is left.
func (s *stream) Close() error {
	err := s.body.Close()
	s.reading.Wait()
	return err
}
