package controller

import "sync"

// HandsOver is implemented by controllers whose successor needs what only memory holds:
// writes that the informer caches may not show yet, or a graph that is expensive to build.
type HandsOver[T any] interface {
	Controller
	// HandOver is called once, after Run has returned, and is to answer at once. The result
	// must not depend on the instance that made it. It may be five minutes old when the
	// successor begins, which may then wait for its caches, and another process may have held
	// the lease before that.
	HandOver() T
}

// TakeOver returns what the predecessor of an instance in this process handed over. It is
// false if there was no predecessor, if that talked to another API server, if it ended more
// than five minutes before this instance began, or if what it handed over is of another type.
// From then on it is c that hands over to its successor.
//
// It is to be called in Run: while New runs, the previous instance is still at work. If an
// instance ends before it has taken over, what its predecessor left is passed on to its
// successor.
func TakeOver[T any](env Env, c HandsOver[T]) (T, bool) {
	left, ok := env.Succession.take(func() any { return c.HandOver() }).(T)
	return left, ok
}

// Succession passes on what the instances of a controller hand over to one another. The zero
// value is that of an instance without a predecessor.
type Succession struct {
	mu       sync.Mutex
	left     any
	handOver func() any // nil before the instance has taken over
}

// Leave sets what the predecessor handed over. It is to be called before Run.
func (s *Succession) Leave(left any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = left
}

// HandOver returns what the instance leaves to its successor, nil if that is nothing. It is to
// be called once, after Run has returned.
func (s *Succession) HandOver() any {
	s.mu.Lock()
	left, handOver := s.left, s.handOver
	s.mu.Unlock()
	if handOver == nil {
		return left
	}
	return handOver()
}

// TookOver reports whether the instance has taken over. If not, it leaves what its predecessor has left.
func (s *Succession) TookOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handOver != nil
}

func (s *Succession) take(handOver func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left
	s.left, s.handOver = nil, handOver
	return left
}
