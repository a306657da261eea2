package controller

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Pauses are the namespaces in which a controller is paused: it must not write there. They
// outlive the instances of the controller, and change while one runs. The zero value pauses
// nothing, and so does nil.
type Pauses struct {
	current atomic.Pointer[map[string]bool] // nil while there are none

	mu        sync.Mutex // serialises Set and guards followers
	followers map[*func()]bool
}

// Hold reports whether the controller is paused in a namespace. What has no namespace, which
// is the empty one, is never paused.
func (p *Pauses) Hold(namespace string) bool {
	if p == nil {
		return false
	}
	all := p.current.Load()
	return all != nil && (*all)[namespace]
}

// Any reports whether the controller is paused anywhere.
func (p *Pauses) Any() bool { return p != nil && p.current.Load() != nil }

// Namespaces are those in which the controller is paused, sorted.
func (p *Pauses) Namespaces() []string {
	if !p.Any() {
		return nil
	}
	return slices.Sorted(maps.Keys(*p.current.Load()))
}

// Set replaces the namespaces. When it returns, their followers have been notified.
func (p *Pauses) Set(namespaces []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next *map[string]bool
	if len(namespaces) > 0 {
		all := make(map[string]bool, len(namespaces))
		for _, namespace := range namespaces {
			all[namespace] = true
		}
		next = &all
	}
	p.current.Store(next)
	for changed := range p.followers {
		(*changed)()
	}
}

// Follow calls a function after each change until end is called. It must not block, and not
// call the methods Set and Follow.
func (p *Pauses) Follow(changed func()) (end func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.followers == nil {
		p.followers = map[*func()]bool{}
	}
	p.followers[&changed] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.followers, &changed)
	}
}

// PausedError is the error of a write into a namespace in which the controller is paused. The
// write was not sent, so it says nothing about any object.
type PausedError struct{ Namespace string }

// Error implements error.
func (e *PausedError) Error() string {
	return fmt.Sprintf("write refused: the controller is paused in namespace %s", e.Namespace)
}

// PausedIn returns the namespaces whose pause is why something failed, none if that had other
// causes only.
func PausedIn(err error) []string {
	var all []string
	collectPauses(err, &all)
	slices.Sort(all)
	return slices.Compact(all)
}

// IsPaused reports whether something failed because of a pause, whatever else the causes are.
func IsPaused(err error) bool { return len(PausedIn(err)) > 0 }

// collectPauses walks the tree of wrapped and joined errors.
func collectPauses(err error, to *[]string) {
	if pause, ok := err.(*PausedError); ok { //nolint:errorlint // the tree is walked here
		*to = append(*to, pause.Namespace)
		return
	}
	for _, cause := range Causes(err) {
		collectPauses(cause, to)
	}
}
