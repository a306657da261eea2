package source

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Defaults of Options.
const (
	defaultSettle  = 100 * time.Millisecond
	defaultPoll    = 30 * time.Second
	defaultMaxSize = 4 << 20
)

// fallbackPoll is the period of reading where there are no notifications.
const fallbackPoll = time.Second

// Options configure a Watcher.
type Options struct {
	// Settle is how long a file must be quiet before it is read. Default 100ms; a file
	// that is never quiet is read after 10×Settle. Changes live, see SetTiming.
	Settle time.Duration
	// Poll is the period of reading a file without an event. Default 30s. Changes live.
	Poll time.Duration
	// MaxSize is the largest file that is read, in bytes. Default 4 MiB. MaxSizes are those of paths
	// that have another limit.
	MaxSize  int64
	MaxSizes map[string]int64
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Logger reports when notifications fail and when they work again. The zero Logger is
	// silent.
	Logger klog.Logger
}

// Change is the newest state of a file.
type Change struct {
	// Path is the path as it was given to Set.
	Path string
	// Content is what the file holds; nil with Err.
	Content []byte
	// Hash is the SHA-256 of Content in hexadecimal; empty with Err.
	Hash string
	// Err is why the file cannot be read, see Read.
	Err error
	// At is when the first event of the burst was seen that led to this change. Without
	// an event it is when the read began.
	At time.Time
}

// state identifies what was seen of a file.
func (c *Change) state() string {
	if c.Err != nil {
		return "error: " + c.Err.Error()
	}
	return c.Hash
}

// Watcher watches files. Use New.
type Watcher struct {
	maxSize int64
	limits  map[string]int64 // of paths that have another one
	clock   clock.WithTicker
	logger  klog.Logger
	openFS  func() (*fsnotify.Watcher, error)
	changes chan Change
	wake    chan struct{}

	mu      sync.Mutex
	settle  time.Duration
	poll    time.Duration
	desired []string
	files   map[string]*file
	polling error
}

// file is a watched path.
type file struct {
	path string

	// Guarded by Watcher.mu.
	names   map[string]struct{} // events under these names concern the file
	burst   burst
	pending *Change // not delivered yet
	// delivered is the state that was delivered last, empty if the next one is delivered whatever it is.
	delivered string
	// elsewhere is the hash of what the receiver has read by other means since this file was last considered for
	// delivery, empty if it has not.
	elsewhere string

	// Owned by Run.
	lastRead  time.Time
	state     string // what was read last
	unseen    bool   // that it has changed was found without an event, and it has not been the same twice since
	notifyErr error  // why the file is polled
}

// New returns a Watcher that watches nothing. Nothing happens before Run.
func New(o Options) *Watcher {
	w := &Watcher{
		maxSize: o.MaxSize,
		limits:  o.MaxSizes,
		clock:   o.Clock,
		logger:  o.Logger,
		openFS:  fsnotify.NewWatcher,
		changes: make(chan Change),
		wake:    make(chan struct{}, 1),
		files:   map[string]*file{},
	}
	if w.maxSize <= 0 {
		w.maxSize = defaultMaxSize
	}
	if w.clock == nil {
		w.clock = clock.RealClock{}
	}
	w.SetTiming(o.Settle, o.Poll)
	return w
}

// Changes delivers the first state of every path and each change of it. It is closed when
// Run returns.
func (w *Watcher) Changes() <-chan Change { return w.changes }

// Set replaces the watched paths. A path that was watched before is not delivered again
// unless it changed. A change of a removed path that is under way may still arrive.
func (w *Watcher) Set(paths ...string) {
	var desired []string
	for _, p := range paths {
		if !slices.Contains(desired, p) {
			desired = append(desired, p)
		}
	}
	w.mu.Lock()
	w.desired = desired
	w.mu.Unlock()
	w.signal()
}

// ReadElsewhere tells the Watcher that its receiver has read a watched file by other means, and the hash of what it read.
// Unless that state was delivered last, the next state of the file is delivered even if it equals the last one.
func (w *Watcher) ReadElsewhere(path, hash string) {
	now := w.clock.Now()
	w.mu.Lock()
	if f := w.files[path]; f != nil {
		f.readElsewhere(hash, now)
	}
	w.mu.Unlock()
	w.signal()
}

func (f *file) readElsewhere(hash string, now time.Time) {
	f.elsewhere = hash
	if f.delivered != hash {
		f.delivered = ""
		f.burst.add(now)
	}
}

// SetTiming changes Settle and Poll, effective at once. Values that are not positive mean
// the default.
func (w *Watcher) SetTiming(settle, poll time.Duration) {
	if settle <= 0 {
		settle = defaultSettle
	}
	if poll <= 0 {
		poll = defaultPoll
	}
	w.mu.Lock()
	w.settle, w.poll = settle, poll
	w.mu.Unlock()
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// touched records an event for every file with this name on its trail; without a name, for
// all.
func (w *Watcher) touched(name string) {
	now := w.clock.Now()
	w.mu.Lock()
	concerned := false
	for _, f := range w.files {
		if _, ok := f.names[name]; ok || name == "" {
			f.burst.add(now)
			concerned = true
		}
	}
	w.mu.Unlock()
	if concerned {
		w.signal()
	}
}

// Run watches until ctx ends and every goroutine it started has returned. It may be called
// once.
func (w *Watcher) Run(ctx context.Context) error {
	defer close(w.changes)
	n := newNotifier(w.openFS, w.touched)
	for ctx.Err() == nil {
		w.adopt(n)
		for _, f := range w.due() {
			w.check(f, n)
		}
		w.reportPolling()
		w.wait(ctx)
	}
	if err := n.close(); err != nil {
		return fmt.Errorf("closing file notifications: %w", err)
	}
	return nil
}

// wait returns when there may be something to do.
func (w *Watcher) wait(ctx context.Context) {
	timer := w.clock.NewTimer(w.untilDue())
	defer timer.Stop()
	var out chan<- Change
	f, next := w.firstPending()
	if f != nil {
		out = w.changes
	}
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-timer.C():
	case out <- next:
		now := w.clock.Now()
		w.mu.Lock()
		f.pending, f.delivered = nil, next.state()
		if f.elsewhere != "" { // the receiver may have gone on before it is noted here what it was given
			f.readElsewhere(f.elsewhere, now)
		}
		w.mu.Unlock()
	}
}
