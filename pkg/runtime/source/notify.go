package source

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// notifier keeps the set of watched directories and files. Its methods are called by one
// goroutine; touched is called by another.
type notifier struct {
	open    func() (*fsnotify.Watcher, error)
	touched func(name string) // base name of what changed; empty: anything may have
	fsw     *fsnotify.Watcher
	trails  map[string][]string // path of a file → what is watched for it
	pump    sync.WaitGroup
}

func newNotifier(open func() (*fsnotify.Watcher, error), touched func(string)) *notifier {
	return &notifier{open: open, touched: touched, trails: map[string][]string{}}
}

// set replaces what is watched for one file. It watches as much as it can and returns
// why the rest cannot be; something that does not exist (any more) is not an error.
func (n *notifier) set(path string, watch []string) error {
	if err := n.start(); err != nil {
		return fmt.Errorf("starting file notifications: %w", err)
	}
	n.replace(path, watch)
	var errs []error
	for _, w := range watch {
		// Adding again is cheap, and needed if w was replaced since.
		if err := n.fsw.Add(w); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("watching %s: %w", w, err))
		}
	}
	return errors.Join(errs...)
}

// drop forgets a file.
func (n *notifier) drop(path string) {
	n.replace(path, nil)
	delete(n.trails, path)
}

// replace stores what is watched for a file and unwatches what nobody needs any more.
func (n *notifier) replace(path string, watch []string) {
	old := n.trails[path]
	n.trails[path] = watch
	if n.fsw == nil || len(old) == 0 {
		return
	}
	needed := map[string]struct{}{}
	for _, t := range n.trails {
		for _, w := range t {
			needed[w] = struct{}{}
		}
	}
	removed := false
	for _, w := range old {
		if _, ok := needed[w]; ok {
			continue
		}
		// The only errors are that the watch ended by itself.
		removed = n.fsw.Remove(w) == nil || removed
	}
	if !removed {
		return
	}
	// Two names of one directory (bind mounts) share a watch, which is gone now.
	for w := range needed {
		_ = n.fsw.Add(w) // failures are found by the next set of the file concerned
	}
}

func (n *notifier) start() error {
	if n.fsw != nil {
		return nil
	}
	fsw, err := n.open()
	if err != nil {
		return err
	}
	n.fsw = fsw
	n.pump.Go(func() { n.forward(fsw) })
	return nil
}

// forward passes events on. It never waits for the goroutine that changes watches:
// fsnotify can hold its lock while it waits for a receiver.
func (n *notifier) forward(fsw *fsnotify.Watcher) {
	events, errs := fsw.Events, fsw.Errors
	for events != nil || errs != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			n.touched(filepath.Base(e.Name))
		case _, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			n.touched("") // events were lost
		}
	}
}

// close ends notifications and waits for the goroutines behind them.
func (n *notifier) close() error {
	if n.fsw == nil {
		return nil
	}
	err := n.fsw.Close()
	n.pump.Wait()
	n.fsw = nil
	return err
}
