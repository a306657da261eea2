package ttl

import "sync"

// size is the number of nodes, and the interval that follows from it.
type size struct {
	mu       sync.Mutex
	count    int
	interval int
	began    bool
}

// begin chooses the interval for the nodes counted so far. Until then, they are only counted.
func (s *size) begin(shown map[int]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interval, s.began = firstInterval(s.count, shown), true
}

func (s *size) added() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if s.began {
		s.interval = grown(s.interval, s.count)
	}
}

func (s *size) removed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count--
	if s.began {
		s.interval = shrunk(s.interval, s.count)
	}
}

// seconds returns what nodes are to be annotated with, and false if that is not known yet.
func (s *size) seconds() (seconds int, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return intervals[s.interval].seconds, s.began
}
