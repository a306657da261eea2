package runtime

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/runtime/instance"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/supervisor"
)

// controllers builds what is to run. What runs under a new lock is built as on a standby
// first. It runs once that is held.
func (t *transaction) controllers(ctx context.Context) (step, error) {
	t.process.builder.Use(t.was.connection, t.process.leadership.Terms(t.process.leadership.Locks()))
	committed := &atomic.Bool{}
	offer := instance.Offer{Connection: t.next.connection, Whole: t.process.wholeWith(t.next.document.Config, committed)}
	again := t.readAgain()
	wants, prepared, err := t.build(offer)
	discard := func() {
		prepared.Discard()
		t.process.builder.Offer(nil)
	}
	if err != nil && !t.canWait() {
		discard()
		return step{}, t.blameControllers(err)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", t.cause)
	}
	return step{discard: discard, halt: prepared.Halt, commit: func(context.Context) {
		committed.Store(true)
		for _, path := range again {
			delete(t.process.refused, path)
		}
		t.process.builder.Use(t.next.connection, t.process.leadership.Terms(t.next.locks))
		t.did.controllers = prepared.Commit()
		t.process.leadership.Started(termsOf(wants))
	}}, nil
}

// buildAttempts is how often controllers are built when the files that they read change meanwhile.
const buildAttempts = 3

// build builds what is to run, and builds it again if a file that controllers read has changed in the meantime.
func (t *transaction) build(offer instance.Offer) (wants map[string]supervisor.Want, prepared *supervisor.Prepared, err error) {
	for attempt := range buildAttempts {
		wants = t.wantsOf(t.next)
		offer.Specs = t.specsOfNew(wants)
		t.process.builder.Offer(&offer)
		prepared, err = t.process.supervisor.Prepare(wants, t.cause)
		if err != nil || attempt == buildAttempts-1 || !t.filesMoved(wants) {
			break
		}
		prepared.Discard()
	}
	return wants, prepared, err
}

// wantsOf returns what every controller should be doing on a basis.
func (t *transaction) wantsOf(b basis) map[string]supervisor.Want {
	return desiredState(t.process.inputs(b), t.process.options.Descriptors)
}

// wantsBefore returns what every controller should be doing until the change is made; none if nothing is in force.
func (t *transaction) wantsBefore() map[string]supervisor.Want {
	if t.starts() {
		return nil
	}
	return t.wantsOf(t.was)
}

// specsOfNew returns the specs that instances have only if the change is made.
func (t *transaction) specsOfNew(wants map[string]supervisor.Want) map[string]supervisor.Spec {
	old := t.wantsBefore()
	specs := map[string]supervisor.Spec{}
	for name, w := range wants {
		if t.starts() || old[name].Spec != w.Spec {
			specs[name] = w.Spec
		}
	}
	return specs
}

// filesMoved reports whether the files of the controllers that were built differ from those of the next basis, and updates
// the basis. A controller may have read the old content or the new one. Without a second build, it could keep using a
// content that the file had only for a moment.
func (t *transaction) filesMoved(wants map[string]supervisor.Want) bool {
	old := t.wantsBefore()
	moved := map[string]string{}
	for d, spec := range enabled(t.next.document.Config, t.process.options.Descriptors) {
		if old[d.Name].Spec == wants[d.Name].Spec {
			continue
		}
		for _, path := range d.Files(spec.Value) {
			if _, hash, err := source.Read(path, named.MaxFileBytes); err == nil && hash != t.next.files[path] {
				moved[path] = hash
			}
		}
	}
	if len(moved) == 0 {
		return false
	}
	t.next.files = maps.Clone(t.next.files)
	maps.Copy(t.next.files, moved)
	return true
}

// tellWatcher tells the watcher which files are used with new content. Some of them were read by a controller, or again,
// before the watcher noticed the change.
func (t *transaction) tellWatcher() {
	for path, hash := range t.next.files {
		if t.was.files[path] != hash {
			t.process.watcher.ReadElsewhere(path, hash)
		}
	}
}

// readAgain finds the files that controllers have refused and will read again: those whose readers are
// all built again, for whatever reason. The next basis has what these contain now.
func (t *transaction) readAgain() (paths []string) {
	if t.starts() || len(t.process.refused) == 0 {
		return nil
	}
	old, next := t.wantsBefore(), t.wantsOf(t.next)
	kept := map[string]bool{}
	for d, spec := range enabled(t.next.document.Config, t.process.options.Descriptors) {
		if old[d.Name].Spec == next[d.Name].Spec {
			for _, path := range d.Files(spec.Value) {
				kept[path] = true
			}
		}
	}
	t.next.files = maps.Clone(t.next.files)
	for path := range t.process.refused {
		if _, read := t.next.files[path]; !read || kept[path] {
			continue
		}
		if _, hash, err := source.Read(path, named.MaxFileBytes); err == nil {
			t.next.files[path] = hash
			paths = append(paths, path)
		}
	}
	return paths
}

// filesFor returns the hashes of the files that the controllers of a configuration read. A
// file in use keeps its hash if it cannot be read now, has become invalid, or was refused by
// controllers: they continue with its earlier content.
func (r *Runtime) filesFor(paths, bad []string) map[string]string {
	hashes := map[string]string{}
	for _, p := range paths {
		was, known := r.files[p]
		_, hash, err := source.Read(p, named.MaxFileBytes)
		if err != nil || known && (slices.Contains(bad, p) || hash == r.refused[p]) {
			hash = was
		}
		hashes[p] = hash
	}
	return hashes
}
