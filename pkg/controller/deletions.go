package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Breaker limits how much controllers delete. It is used by several goroutines.
type Breaker interface {
	// On reports whether deletions are counted at all.
	On() bool
	// Ask counts what a controller is about to delete, and returns how many objects that are: one
	// with a name, or all in a namespace. Objects that are being deleted already do not count. The
	// error is a *StoppedError if it may not delete them.
	Ask(ctx context.Context, by string, of schema.GroupResource, namespace, name string) (counted int, err error)
	// GiveBack takes back what was counted and not deleted.
	GiveBack(of schema.GroupResource, counted int)
	// Stopped reports whether no object of a kind may be deleted.
	Stopped(of schema.GroupResource) bool
	// Follow calls a function when a kind is no longer stopped, until end is called. The function
	// must not block.
	Follow(resumed func()) (end func())
}

// Deletions are those of one controller. The zero value counts and stops nothing, and so does
// nil.
type Deletions struct {
	breaker Breaker
	by      string
}

// DeletionsBy returns the deletions of the controller of that name, which a breaker limits.
func DeletionsBy(name string, b Breaker) *Deletions { return &Deletions{breaker: b, by: name} }

// On reports whether deletions are counted.
func (d *Deletions) On() bool { return d != nil && d.breaker != nil && d.breaker.On() }

// Deletion is what was counted before it is sent. Nil is one that does not count.
type Deletion struct {
	of              *Deletions
	resource        schema.GroupResource
	namespace, name string
	counted         int
	kept            bool
	asked           *Deletion // by the controller, before its client; nil if this is it
}

// deletionKey is the key of a context under which a Deletion is.
type deletionKey struct{}

// Ask asks whether an object may be deleted, or everything of a kind in a namespace if there is no
// name. The clients of a controller ask by themselves when it deletes. A controller that writes
// something else before, such as a condition that announces the deletion, asks first, and deletes
// under the context that is returned: then the clients do not ask again. Whoever asks ends the
// Deletion when the request is done, however it ended.
func (d *Deletions) Ask(
	ctx context.Context, of schema.GroupResource, namespace, name string,
) (context.Context, *Deletion, error) {
	if !d.On() {
		return ctx, nil, nil
	}
	if asked, ok := ctx.Value(deletionKey{}).(*Deletion); ok && asked.isOf(of, namespace, name) {
		return ctx, &Deletion{asked: asked}, nil
	}
	counted, err := d.breaker.Ask(ctx, d.by, of, namespace, name)
	if err != nil {
		return ctx, nil, err
	}
	asked := &Deletion{of: d, resource: of, namespace: namespace, name: name, counted: counted}
	return context.WithValue(ctx, deletionKey{}, asked), asked, nil
}

func (d *Deletion) isOf(resource schema.GroupResource, namespace, name string) bool {
	return d.resource == resource && d.namespace == namespace && d.name == name
}

// Keep records that the deletion was carried out, or may have been.
func (d *Deletion) Keep() {
	if d != nil {
		d.kept = true
		d.asked.Keep()
	}
}

// End takes back what was counted for a deletion that was not carried out.
func (d *Deletion) End() {
	if d == nil || d.kept || d.counted == 0 {
		return
	}
	d.of.breaker.GiveBack(d.resource, d.counted)
	d.counted = 0
}

// Stopped reports whether no object of a kind may be deleted.
func (d *Deletions) Stopped(of schema.GroupResource) bool { return d.On() && d.breaker.Stopped(of) }

// Follow is Breaker.Follow.
func (d *Deletions) Follow(resumed func()) (end func()) {
	if d == nil || d.breaker == nil {
		return func() {}
	}
	return d.breaker.Follow(resumed)
}

// StoppedError is the error of a deletion that the breaker has stopped. It was not sent, so the
// error says nothing about any object.
type StoppedError struct {
	Resource schema.GroupResource
	// Why is a sentence that stays the same while the kind is stopped.
	Why string
}

// Error implements error.
func (e *StoppedError) Error() string {
	return fmt.Sprintf("deletion of %s refused: %s", e.Resource, e.Why)
}

// StoppedIn returns the kinds that the breaker has stopped and that are why something failed, and
// whether it had no other cause.
func StoppedIn(err error) (kinds []schema.GroupResource, only bool) {
	var all []schema.GroupResource
	only = collectStops(err, &all)
	slices.SortFunc(all, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), only && len(all) > 0
}

// collectStops walks the tree of wrapped and joined errors, and reports whether all that it ends in
// are stops.
func collectStops(err error, to *[]schema.GroupResource) bool {
	if stop, ok := err.(*StoppedError); ok { //nolint:errorlint // the tree is walked here
		*to = append(*to, stop.Resource)
		return true
	}
	causes := Causes(err)
	only := len(causes) > 0
	for _, cause := range causes {
		only = collectStops(cause, to) && only
	}
	return only
}
