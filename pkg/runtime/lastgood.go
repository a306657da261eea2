package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/runtime/lastgood"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/status"
)

// remindEvery is how often it is repeated that the last good configuration is in force, and how
// often what could not be kept is written again, and what was rejected is tried again.
const remindEvery = 10 * time.Minute

// keeping is what the loop knows about the last good configuration. The rules:
//
//  1. The text of the file is kept when it has come into force: at the start, and after each
//     reload. It is written beside the loop, which waits for no disk; one text at a time, and
//     only the newest waits. That it cannot be written stops nothing, and is shown.
//  2. A process that cannot start with its file, for whatever reason, starts with what is kept,
//     if that is valid for this version of the program and with the files that it names. If that
//     is not possible either, the error has both reasons.
//  3. From then on the file is one that was rejected, like any other: it is followed, and what
//     comes into force next ends it.
//  4. Without the option, nothing of this exists.
type keeping struct {
	store   *lastgood.Store // nil without the option
	writing bool
	next    *lastgood.Kept // still to be written
	alarm   clock.Timer    // nil if nothing is to be repeated
}

// openLastGood returns the store that the options name, nil if they name none.
func openLastGood(o Options) (*lastgood.Store, error) {
	if o.LastGood == "" {
		return nil, nil
	}
	store, err := lastgood.Open(o.LastGood, o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("keeping the last good configuration: %w", err)
	}
	return store, nil
}

// startWithLastGood brings the process up with what is kept, after starting with the file, which
// has the given content if it could be read, has failed.
func (r *Runtime) startWithLastGood(ctx context.Context, content string, failed error) error {
	if r.keeping.store == nil {
		return failed
	}
	start, err := r.loadLastGood(content)
	if err == nil {
		start.instead = failed.Error()
		err = r.startWith(ctx, start)
	}
	if err != nil {
		return errors.Join(failed, fmt.Errorf("starting with the last good configuration instead: %w", err))
	}
	r.reloads.Rejected(true)
	r.reloads.LastGood(true)
	r.remind(ctx)
	return nil
}

// errSameContent means that what is kept fails as the file does.
var errSameContent = errors.New("it has the content of the file")

// loadLastGood reads and checks what is kept. Problems are reported with their positions in the
// file in which it is.
func (r *Runtime) loadLastGood(content string) (candidate, error) {
	kept, err := r.keeping.store.Read()
	if err != nil {
		return candidate{}, err
	}
	hash := source.Hash(kept.Text)
	if hash == content {
		return candidate{}, errSameContent
	}
	path := r.keeping.store.Path()
	document, err := check(path, kept.Text)
	if err != nil {
		return candidate{}, fmt.Errorf("checking what %s kept at %s: %w", kept.Program, kept.At.Format(time.RFC3339), err)
	}
	return candidate{
		text: kept.Text, content: hash, document: document,
		kept: &status.LastGood{File: path, At: kept.At, Program: kept.Program},
	}, nil
}

// remind says in the log and by an event that the last good configuration is in force, and does
// so again later.
func (r *Runtime) remind(ctx context.Context) {
	g := r.lastGood
	klog.FromContext(ctx).Error(nil, "The last good configuration is in force, because the file cannot be used",
		"file", r.options.ConfigFile, "kept", g.File, "at", g.At, "by", g.Program, "hash", r.hash, "generation", r.generation, "problems", r.rejected)
	r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeWarning, reasonLastGood,
		short(fmt.Sprintf("Generation %d is the last good configuration, which came into force at %s, because the file cannot be used. %s",
			r.generation, g.At.Format(time.RFC3339), r.rejected)))
	r.setReminder()
}

// endLastGood records that the file is in force. was is what was in force instead, nil for the
// file itself.
func (r *Runtime) endLastGood(ctx context.Context, was *status.LastGood) {
	if was == nil {
		return
	}
	r.reloads.LastGood(false)
	r.leadership.SetLastGood("")
	r.leadership.Settle(ctx)
	r.setReminder()
	klog.FromContext(ctx).Info("The file is in force, and no longer the last good configuration", "file", r.options.ConfigFile, "generation", r.generation)
}

// due receives a value when something is to be repeated.
func (k *keeping) due() <-chan time.Time {
	if k.alarm == nil {
		return nil
	}
	return k.alarm.C()
}

// setReminder makes the loop repeat what is to be repeated, after remindEvery.
func (r *Runtime) setReminder() {
	k := &r.keeping
	if k.alarm != nil {
		k.alarm.Stop()
		k.alarm = nil
	}
	if r.lastGood != nil || k.next != nil || r.rotation.rejected != nil {
		k.alarm = r.options.Clock.NewTimer(remindEvery)
	}
}

// repeat is called by the loop when something is due.
func (r *Runtime) repeat(ctx context.Context) {
	if waiting := r.rotation.rejected; waiting != nil {
		r.try(ctx, waiting.change, failuresThatDiffer)
	}
	if r.keeping.next != nil && !r.keeping.writing {
		r.writeNext(ctx)
	}
	if r.lastGood != nil {
		r.remind(ctx)
		return
	}
	r.setReminder()
}

// keep has the text of the file kept, which has come into force.
func (r *Runtime) keep(ctx context.Context, text []byte) {
	k := &r.keeping
	if k.store == nil {
		return
	}
	k.next = &lastgood.Kept{Text: text, Hash: r.hash, Program: version.Get().GitVersion, At: r.options.Clock.Now()}
	if !k.writing {
		r.writeNext(ctx)
	}
}

// writeNext writes what is to be written, beside the loop.
func (r *Runtime) writeNext(ctx context.Context) {
	k := &r.keeping
	kept := k.next
	k.next, k.writing = nil, true
	r.tasks.Do(func(context.Context) func() {
		err := k.store.Keep(*kept)
		return func() {
			k.writing = false
			r.noteKept(ctx, kept, err)
		}
	})
}

// noteKept records whether a configuration was written. One that was not is tried again later,
// unless another has come into force.
func (r *Runtime) noteKept(ctx context.Context, kept *lastgood.Kept, err error) {
	if r.keeping.next != nil {
		r.writeNext(ctx)
		return
	}
	reason := ""
	if err != nil {
		klog.FromContext(ctx).Error(err, "The configuration in force could not be kept as the last good one", "again", remindEvery)
		reason, r.keeping.next = err.Error(), kept
	}
	r.mu.Lock()
	was := r.notKept
	r.notKept = reason
	r.mu.Unlock()
	r.reloads.NotKept(err != nil)
	if err == nil && was != "" {
		klog.FromContext(ctx).Info("The configuration in force is kept as the last good one again", "in", r.keeping.store.Path())
	}
	r.setReminder()
}

// keepRest writes what is still to be written when the tasks of the process have ended.
func (r *Runtime) keepRest(ctx context.Context) {
	if r.keeping.next == nil {
		return
	}
	if err := r.keeping.store.Keep(*r.keeping.next); err != nil {
		klog.FromContext(ctx).Error(err, "The configuration in force could not be kept as the last good one")
	}
}
