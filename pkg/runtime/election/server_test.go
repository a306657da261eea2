package election

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/fakeclient"
)

const (
	namespace = "kube-system"
	leaseName = "kube-controller-manager"
)

var (
	leases   = coordinationv1.SchemeGroupVersion.WithResource("leases")
	errDown  = errors.New("connection refused")
	defaults = Timings{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
)

// server is what several candidates share: one Lease with optimistic concurrency and
// watches, which the plain fake clientset does not offer.
type server struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	watches map[*stream]*candidate
	latency time.Duration // of every request: a candidate that never waits costs time, too
	repeats bool          // writes are sent once more, as client-go does when it is asked to retry
}

// candidate is a client of a server with faults of its own.
type candidate struct {
	*fake.Clientset
	server *server
	name   string

	// Guarded by server.mu.
	down     bool                  // requests fail
	fails    error                 // what requests fail with, if they are answered at all
	noWatch  bool                  // watches fail
	deaf     bool                  // requests arrive, but answers are lost
	hang     chan struct{}         // requests hang until it is closed, whatever their context says
	replays  *coordinationv1.Lease // watches begin with this one, of a history that is lost
	requests map[string]int
}

func newServer() *server { return &server{watches: map[*stream]*candidate{}} }

func (s *server) candidate(name string) *candidate {
	c := &candidate{Clientset: fakeclient.New(), server: s, name: name, requests: map[string]int{}}
	c.PrependReactor("*", "leases", c.react)
	c.PrependWatchReactor("leases", c.reactToWatch)
	return c
}

func (c *candidate) leases() coordinationv1client.LeasesGetter { return c.CoordinationV1() }

func (c *candidate) react(a clienttesting.Action) (bool, runtime.Object, error) {
	s := c.server
	s.mu.Lock()
	c.requests[a.GetVerb()]++
	hang, latency := c.hang, s.latency
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if latency > 0 {
		pass(latency)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.down {
		return true, nil, errDown
	}
	if c.fails != nil {
		return true, nil, c.fails
	}
	lease, err := s.handle(a)
	if s.repeats && a.GetVerb() != "get" {
		lease, err = s.handle(a)
	}
	if c.deaf {
		return true, nil, context.DeadlineExceeded
	}
	if err != nil {
		return true, nil, err
	}
	return true, lease, nil
}

func (s *server) handle(a clienttesting.Action) (*coordinationv1.Lease, error) {
	switch a := a.(type) {
	case clienttesting.UpdateActionImpl: // has the methods of a create action, too
		in := a.GetObject().(*coordinationv1.Lease)
		if s.lease == nil {
			return nil, apierrors.NewNotFound(leases.GroupResource(), leaseName)
		}
		if in.ResourceVersion != s.lease.ResourceVersion {
			return nil, apierrors.NewConflict(leases.GroupResource(), leaseName, errors.New("stored version is newer"))
		}
		return s.store(in, watch.Modified), nil
	case clienttesting.CreateActionImpl:
		if s.lease != nil {
			return nil, apierrors.NewAlreadyExists(leases.GroupResource(), leaseName)
		}
		return s.store(a.GetObject().(*coordinationv1.Lease), watch.Added), nil
	case clienttesting.GetActionImpl:
		if s.lease == nil {
			return nil, apierrors.NewNotFound(leases.GroupResource(), leaseName)
		}
		return s.lease.DeepCopy(), nil
	}
	return nil, fmt.Errorf("unexpected %s", a.GetVerb())
}

func (s *server) store(in *coordinationv1.Lease, event watch.EventType) *coordinationv1.Lease {
	s.version++
	s.lease = in.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	s.tell(event)
	return s.lease.DeepCopy()
}

func (s *server) tell(event watch.EventType) {
	for w, c := range s.watches {
		if !c.down && s.version > w.from {
			w.send(watch.Event{Type: event, Object: s.lease.DeepCopy()})
		}
	}
}

func (c *candidate) reactToWatch(a clienttesting.Action) (bool, watch.Interface, error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	c.requests["watch"]++
	if c.down || c.noWatch {
		return true, nil, errDown
	}
	restrictions := a.(clienttesting.WatchActionImpl).GetWatchRestrictions()
	if got, want := restrictions.Fields.String(), "metadata.name="+leaseName; got != want {
		return true, nil, fmt.Errorf("watch with field selector %q, want %q", got, want)
	}
	w := &stream{events: make(chan watch.Event, 10000)}
	if restrictions.ResourceVersion != "" {
		from, err := strconv.Atoi(restrictions.ResourceVersion)
		if err != nil {
			return true, nil, err
		}
		w.from = from
	}
	s.watches[w] = c
	if c.replays != nil {
		w.send(watch.Event{Type: watch.Modified, Object: c.replays.DeepCopy()})
		return true, w, nil
	}
	if s.lease != nil && numberOf(s.lease) > w.from {
		w.send(watch.Event{Type: watch.Modified, Object: s.lease.DeepCopy()})
	}
	return true, w, nil
}

func numberOf(l *coordinationv1.Lease) int {
	n, err := strconv.Atoi(l.ResourceVersion)
	if err != nil {
		panic(err)
	}
	return n
}

// stream is a watch. It reports what is newer than the version it was opened from, which
// may be one that the server has not reached yet.
type stream struct {
	from    int
	mu      sync.Mutex
	events  chan watch.Event
	stopped bool
}

func (w *stream) ResultChan() <-chan watch.Event { return w.events }

func (w *stream) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.stopped = true
		close(w.events)
	}
}

func (w *stream) send(e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.events <- e
	}
}

// do changes faults or the lease.
func (s *server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// endWatches ends the watches of a candidate, as a restart of the API server does.
func (s *server) endWatches(c *candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, owner := range s.watches {
		if owner == c {
			w.Stop()
			delete(s.watches, w)
		}
	}
}

// edit changes the lease behind the backs of the candidates.
func (s *server) edit(f func(*coordinationv1.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lease.DeepCopy()
	f(l)
	s.store(l, watch.Modified)
}

// remove deletes the lease.
func (s *server) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	s.tell(watch.Deleted)
	s.lease = nil
}

// restore puts back what was stored once, with its version, as a restore of etcd does.
func (s *server) restore(l *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease, s.version = l.DeepCopy(), numberOf(l)
}

func (s *server) stored() *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease.DeepCopy()
}

// total is the number of requests of any kind.
func total(sent map[string]int) int {
	n := 0
	for _, count := range sent {
		n += count
	}
	return n
}

// sent returns and resets how many requests a candidate has sent.
func (c *candidate) sent() map[string]int {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	sent := c.requests
	c.requests = map[string]int{}
	return sent
}

// events collects what is recorded.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) Event(o runtime.Object, eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := o.(*coordinationv1.Lease)
	e.list = append(e.list, fmt.Sprintf("%s %s/%s %s %s %s", l.Kind, l.Namespace, l.Name, eventType, reason, message))
}

func (e *events) Eventf(o runtime.Object, eventType, reason, format string, args ...any) {
	e.Event(o, eventType, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(o runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	e.Eventf(o, eventType, reason, format, args...)
}

func (e *events) expect(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range want {
		want[i] = "Lease " + namespace + "/" + leaseName + " " + corev1.EventTypeNormal + " LeaderElection " + want[i]
	}
	if fmt.Sprint(e.list) != fmt.Sprint(want) {
		t.Errorf("events\n%q, want\n%q", e.list, want)
	}
	e.list = nil
}

// countingMetrics records what it receives.
type countingMetrics struct {
	mu      sync.Mutex
	leading bool
	slow    int
}

func (m *countingMetrics) SetLeading(_ string, leading bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leading = leading
}

func (m *countingMetrics) Forget(lease string) { m.SetLeading(lease, false) }

func (m *countingMetrics) SlowPath(string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slow++
}

func (m *countingMetrics) slowPaths() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slow
}

// process is an elector that runs.
type process struct {
	*Elector
	*candidate
	events  *events
	metrics *countingMetrics
	stop    func() // ends Run and waits for it

	mu     sync.Mutex
	states []State
}

func (s *server) run(t *testing.T, name string, timings Timings) *process {
	t.Helper()
	return s.runWith(t, name, timings, func(*Options) {})
}

// runWith runs an elector with further options.
func (s *server) runWith(t *testing.T, name string, timings Timings, edit func(*Options)) *process {
	t.Helper()
	p := &process{candidate: s.candidate(name), events: &events{}, metrics: &countingMetrics{}}
	o := Options{
		Leases: p.leases(), Namespace: namespace, Name: leaseName, Identity: name,
		Timings: timings, Events: p.events, Metrics: p.metrics,
		OnChange: func(s State) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.states = append(p.states, s)
		},
	}
	edit(&o)
	o.Coordinated = withClient(o.Coordinated, p.Clientset)
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p.Elector = e
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	p.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(p.stop)
	return p
}

// withClient completes the options of coordinated leader election.
func withClient(c *Coordination, client kubernetes.Interface) *Coordination {
	if c != nil {
		c.Client = client
	}
	return c
}

// seen returns the States that OnChange was told of, and forgets them.
func (p *process) seen() []State {
	p.mu.Lock()
	defer p.mu.Unlock()
	states := p.states
	p.states = nil
	return states
}

// leading returns the Term of a process that leads.
func (p *process) leading(t *testing.T) *Term {
	t.Helper()
	term := p.State().Term
	if term == nil || !term.Valid() {
		t.Fatalf("%s does not lead: %+v", p.name, p.Status())
	}
	p.metrics.mu.Lock()
	defer p.metrics.mu.Unlock()
	if !p.metrics.leading {
		t.Fatalf("%s leads, its metric says it does not", p.name)
	}
	return term
}

func (p *process) standingBy(t *testing.T) {
	t.Helper()
	if term := p.State().Term; term != nil {
		t.Fatalf("%s leads: %+v", p.name, p.Status())
	}
	p.metrics.mu.Lock()
	defer p.metrics.mu.Unlock()
	if p.metrics.leading {
		t.Fatalf("%s stands by, its metric says it leads", p.name)
	}
}

// pass lets the fake time of the test go on.
func pass(d time.Duration) { <-time.After(d) }

func deref(l *coordinationv1.Lease) (holder string, seconds, transitions int32, acquired, renewed metav1.MicroTime) {
	return holderOf(l), secondsOf(l), *l.Spec.LeaseTransitions, *l.Spec.AcquireTime, *l.Spec.RenewTime
}
