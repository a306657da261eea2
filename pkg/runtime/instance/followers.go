package instance

import (
	"slices"
	"sync"
)

// followers tell instances of changes of the files that they follow. The zero value has none.
type followers struct {
	mu    sync.Mutex
	files map[chan struct{}][]string
}

func (f *followers) add(changed chan struct{}, files []string) {
	if len(files) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[chan struct{}][]string{}
	}
	f.files[changed] = files
}

func (f *followers) remove(changed chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.files, changed)
}

// tell notifies the instances that follow a file. Notifications not yet received are coalesced.
func (f *followers) tell(file string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for changed, files := range f.files {
		if !slices.Contains(files, file) {
			continue
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// FileChanged tells the instances that follow a file that its content has changed.
func (b *Builder) FileChanged(file string) { b.followers.tell(file) }
