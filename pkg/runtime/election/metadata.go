package election

import (
	"context"
	"errors"
	"fmt"
	"maps"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"
)

// ErrNotHeld means that this process does not hold the lease.
var ErrNotHeld = errors.New("this process does not hold the lease")

// metadata is what this process puts on the lease besides the record.
type metadata struct {
	labels      map[string]string
	annotations map[string]string
	edition     uint64 // counts changes
}

// putOn changes a lease. An empty value removes a key; keys that are not mentioned, those
// of others, stay.
func (m metadata) putOn(l *coordinationv1.Lease) *coordinationv1.Lease {
	l.Labels = merged(l.Labels, m.labels)
	l.Annotations = merged(l.Annotations, m.annotations)
	return l
}

func merged(stored, ours map[string]string) map[string]string {
	for k, v := range ours {
		if v == "" {
			delete(stored, k)
			continue
		}
		if stored == nil {
			stored = map[string]string{}
		}
		stored[k] = v
	}
	return stored
}

// SetAnnotations replaces Options.Annotations. The holder writes them at once, without
// giving up its Term; Publish waits for that. A standby writes them when it takes the
// lease. A key that was set before and is not mentioned any more stays as it is on the
// lease: give it an empty value to remove it.
func (e *Elector) SetAnnotations(annotations map[string]string) {
	e.mu.Lock()
	if !maps.Equal(e.metadata.annotations, annotations) {
		e.metadata.annotations = maps.Clone(annotations)
		e.metadata.edition++
		e.view.renewNow = true
	}
	e.mu.Unlock()
	e.signal()
}

// Publish returns when the annotations, as they are set at the time of the call, are stored
// on the lease under the current Term. It fails with ErrNotHeld if there is none, with the
// cause of its end if it ends, and with the end of ctx. It must not be called by OnChange.
func (e *Elector) Publish(ctx context.Context) error {
	e.mu.Lock()
	term, edition := e.term, e.metadata.edition
	e.mu.Unlock()
	if err := e.awaitStored(ctx, term, edition); err != nil {
		return fmt.Errorf("storing annotations on lease %s: %w", klog.KRef(e.opts.Namespace, e.opts.Name), err)
	}
	return nil
}

func (e *Elector) awaitStored(ctx context.Context, term *Term, edition uint64) error {
	if term == nil {
		return ErrNotHeld
	}
	for {
		e.mu.Lock()
		stored, changed := e.stored, e.storedChanged
		e.mu.Unlock()
		switch err := term.Err(); {
		case err != nil:
			return err
		case stored >= edition:
			return nil
		}
		select {
		case <-changed:
		case <-term.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// setStored records the edition of the metadata that is on the lease. The caller holds mu.
func (e *Elector) setStored(edition uint64) {
	if e.stored == edition {
		return
	}
	e.stored = edition
	close(e.storedChanged)
	e.storedChanged = make(chan struct{})
}
