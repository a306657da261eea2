package apis

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/test/await"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// server is a discovery client whose answers the test decides.
type server struct {
	*fakediscovery.FakeDiscovery
	down   error
	broken map[schema.GroupVersion]error
}

func (s *server) ServerGroups() (*metav1.APIGroupList, error) {
	if s.down != nil {
		return nil, s.down
	}
	return s.FakeDiscovery.ServerGroups()
}

func (s *server) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	parsed, err := schema.ParseGroupVersion(gv)
	if err != nil {
		return nil, err
	}
	if err := s.broken[parsed]; err != nil {
		return nil, err
	}
	return s.FakeDiscovery.ServerResourcesForGroupVersion(gv)
}

func (s *server) serve(resources ...schema.GroupVersionResource) {
	s.Resources = nil
	for _, r := range resources {
		s.Resources = append(s.Resources, &metav1.APIResourceList{
			GroupVersion: r.GroupVersion().String(),
			APIResources: []metav1.APIResource{{Name: r.Resource, Kind: "Kind", Verbs: metav1.Verbs{"list", "watch"}}},
		})
	}
}

func newServer(resources ...schema.GroupVersionResource) *server {
	s := &server{FakeDiscovery: &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{}}, broken: map[schema.GroupVersion]error{}}
	s.serve(resources...)
	return s
}

var _ discovery.DiscoveryInterface = (*server)(nil)

func changed(c *Catalog) bool {
	select {
	case <-c.Changed():
		return true
	default:
		return false
	}
}

// What is missing is news, and so is another reason why that is not known. Pins MGR-255.
func TestWhatIsMissing(t *testing.T) {
	s := newServer(deployments)
	c := New(s, clock.RealClock{})
	both := []schema.GroupVersionResource{deployments, widgets}
	if got := c.Missing(both); !strings.Contains(got, "has not completed yet") {
		t.Errorf("before discovery: %q", got)
	}
	if got := c.Missing(nil); got != "" {
		t.Errorf("a controller that needs nothing: %q", got)
	}

	s.down = errors.New("connection refused")
	if err := c.Refresh(t.Context()); err == nil {
		t.Error("the failure was not returned")
	}
	if got := c.Missing(both); !strings.Contains(got, "connection refused") || c.Complete() || !changed(c) {
		t.Errorf("server down: %q", got)
	}
	if err := c.Refresh(t.Context()); err == nil || changed(c) {
		t.Errorf("the same failure is news: %v", err)
	}
	// As client-go returns it, which does not decode the answer.
	s.down = apierrors.NewGenericServerResponse(http.StatusForbidden, "get", schema.GroupResource{}, "", "unknown", 0, false)
	if err := c.Refresh(t.Context()); err == nil || !changed(c) {
		t.Errorf("another failure is no news: %v", err)
	}
	if got, want := c.Missing(both), "API discovery failed: the API server answered 403 Forbidden"; got != want {
		t.Errorf("nothing may be read: %q, want %q", got, want)
	} else if got := c.Unreached(); got != want {
		t.Errorf("the API server was not reached: %q, want %q", got, want)
	}

	s.down = nil
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Unreached(); got != "" {
		t.Errorf("the API server was reached: %q", got)
	}
	if got := c.Missing(both); got != "the API server does not serve widgets in example.com/v1" || !c.Complete() || !changed(c) {
		t.Errorf("one is missing: %q", got)
	}

	if err := c.Refresh(t.Context()); err != nil || changed(c) {
		t.Errorf("nothing changed: %v", err)
	}
	s.serve(deployments, widgets)
	if err := c.Refresh(t.Context()); err != nil || c.Missing(both) != "" || !changed(c) {
		t.Errorf("both are served: %v %q", err, c.Missing(both))
	}
}

// Whether the API server could be asked is known at all times, whatever it served before. Pins MGR-258.
func TestWhetherTheServerIsReached(t *testing.T) {
	s := newServer(deployments)
	c := New(s, clock.RealClock{})
	refused := errors.New("connection refused")
	for n, down := range []error{refused, nil, nil, refused, nil, refused} {
		s.down = down
		if err := c.Refresh(t.Context()); (err == nil) != (down == nil) {
			t.Fatal(err)
		}
		want := ""
		if down != nil {
			want = "API discovery failed: connection refused"
		}
		if got := c.Unreached(); got != want {
			t.Errorf("attempt %d: %q, want %q", n, got, want)
		}
		if missing := c.Missing([]schema.GroupVersionResource{deployments}); n > 0 && missing != "" {
			t.Errorf("attempt %d: %s", n, missing)
		}
	}
}

func TestWhatFailsKeepsItsLastAnswer(t *testing.T) {
	s := newServer(deployments, widgets)
	c := New(s, clock.RealClock{})
	if err := c.Refresh(t.Context()); err != nil || !changed(c) {
		t.Fatal(err)
	}
	s.broken[widgets.GroupVersion()] = errors.New("the aggregated server is down")
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Missing([]schema.GroupVersionResource{widgets}); got != "" || changed(c) {
		t.Errorf("a group that fails: %q", got)
	}
	s.down = errors.New("all is down")
	if err := c.Refresh(t.Context()); err == nil || c.Missing([]schema.GroupVersionResource{widgets}) != "" || !c.Complete() {
		t.Error("an outage made resources vanish")
	}
	delete(s.broken, widgets.GroupVersion())
	s.down = nil
	s.serve(deployments)
	if err := c.Refresh(t.Context()); err != nil || c.Missing([]schema.GroupVersionResource{widgets}) == "" || !changed(c) {
		t.Errorf("a group that is gone still counts: %v", err)
	}
}

// What was not answered is asked again in the middle of a refresh, which fails.
func TestWhatFailsInTheMiddleKeepsItsLastAnswer(t *testing.T) {
	down := errors.New("down")
	for name, test := range map[string]struct {
		fails func(*server)
		err   error
	}{
		"all of it": {func(s *server) { s.down = down }, down},
		"a group":   {func(s *server) { s.broken[widgets.GroupVersion()] = down }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(deployments, widgets)
			c := New(s, clock.RealClock{})
			if err := c.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			want, generation := len(c.Preferred()), c.Generation()
			c.newView = func() *view {
				v := viewOf(s)
				v.cached = &resetting{CachedDiscoveryInterface: v.cached, between: func() {
					v.mapper.Reset()
					test.fails(s)
				}}
				return v
			}
			if err := c.Refresh(t.Context()); !errors.Is(err, test.err) {
				t.Errorf("error is %v", err)
			}
			if got := len(c.Preferred()); got != want || c.Generation() != generation {
				t.Errorf("%d lists are preferred, in generation %d; %d were, in %d", got, c.Generation(), want, generation)
			}
		})
	}
}

// resetting calls a function when the resources were asked for, before the preferred ones are.
type resetting struct {
	discovery.CachedDiscoveryInterface
	between func()
}

func (r *resetting) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	r.between()
	return r.CachedDiscoveryInterface.ServerPreferredResources()
}

func TestDiscoveryIsQuickUntilItSucceeds(t *testing.T) {
	s := newServer(deployments)
	s.down = errors.New("down")
	fakeClock := clocktesting.NewFakeClock(time.Now())
	c := New(s, fakeClock)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	waiting := func() {
		t.Helper()
		await.That(t, "the catalog waits", func(context.Context) error {
			select {
			case <-done:
				return await.Final(errors.New("it has ended"))
			default:
			}
			if !fakeClock.HasWaiters() {
				return errors.New("it does not")
			}
			return nil
		})
	}
	waiting()
	s.down = nil
	fakeClock.Step(retryPeriod)
	select {
	case <-c.Changed():
	case <-time.After(time.Minute):
		t.Fatal("not retried after the short period")
	}
	waiting()
	cancel()
	<-done
}

// counting counts the times that all groups are asked for.
type counting struct {
	*server
	asked chan struct{}
}

func (s *counting) ServerGroups() (*metav1.APIGroupList, error) {
	s.asked <- struct{}{}
	return s.server.ServerGroups()
}

// followed is a catalog that runs on a fake clock, until the end of the test.
type followed struct {
	*Catalog
	t      *testing.T
	server *counting
	clock  *clocktesting.FakeClock
}

func follow(t *testing.T) *followed {
	t.Helper()
	f := &followed{t: t, server: &counting{newServer(deployments), make(chan struct{})}, clock: clocktesting.NewFakeClock(time.Now())}
	f.Catalog = New(f.server, f.clock)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

// asks waits until the API server is asked.
func (f *followed) asks() {
	f.t.Helper()
	select {
	case <-f.server.asked:
	case <-time.After(time.Minute):
		f.t.Fatal("the API server is not asked")
	}
}

// step moves the clock on once the catalog waits for it.
func (f *followed) step(d time.Duration) {
	f.t.Helper()
	await.True(f.t, "the catalog waits", f.clock.HasWaiters)
	f.clock.Step(d)
}

// A watch that fails is a reason to ask again before the period is over, but not at once.
func TestSuspicionIsFollowedUp(t *testing.T) {
	f := follow(t)
	f.asks()
	for range 5 {
		f.Suspect()
	}
	f.step(suspectPause)
	f.asks() // once for all of them
	f.step(suspectPause)
	f.step(refreshPeriod - suspectPause)
	f.asks()
}

func TestWhatIsMissingIsLookedForMoreOften(t *testing.T) {
	s := newServer(deployments)
	c := New(s, clock.RealClock{})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.nextRefresh(); got != refreshPeriod {
		t.Errorf("nothing is missing, and the next refresh is in %v", got)
	}
	if c.Missing([]schema.GroupVersionResource{widgets}) == "" {
		t.Fatal("widgets are served")
	}
	for _, want := range []time.Duration{4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		if got := c.nextRefresh(); got != want {
			t.Errorf("the next refresh is in %v, want %v", got, want)
		}
	}
	s.serve(deployments, widgets)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.nextRefresh(); got != refreshPeriod {
		t.Errorf("nothing is missing any more, and the next refresh is in %v", got)
	}
}

// The generation is for those who depend on all that is served, in the version preferred.
func TestGeneration(t *testing.T) {
	s := newServer(deployments, widgets)
	c := New(s, clock.RealClock{})
	beta := schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}
	preferred := func(r schema.GroupVersionResource) bool {
		_, found := verbsOf(c.Preferred())[r]
		return found
	}
	for _, step := range []struct {
		name   string
		change func()
		grows  bool
		want   schema.GroupVersionResource
	}{
		{"first", func() {}, true, widgets},
		{"no change", func() {}, false, widgets},
		{"a version more, not preferred", func() { s.serve(deployments, widgets, beta) }, true, widgets},
		{"another version preferred", func() { s.serve(deployments, beta, widgets) }, true, beta},
		{"another verb", func() { s.Resources[1].APIResources[0].Verbs = metav1.Verbs{"list"} }, true, beta},
		{"a group fails", func() {
			s.broken[beta.GroupVersion()], s.broken[widgets.GroupVersion()] = errors.New("down"), errors.New("down")
		}, false, beta},
		{"it is back", func() { clear(s.broken) }, false, beta},
		{"all is down", func() { s.down = errors.New("down") }, false, beta},
	} {
		before := c.Generation()
		step.change()
		if err := c.Refresh(t.Context()); (err != nil) != (s.down != nil) {
			t.Fatalf("%s: %v", step.name, err)
		}
		if grown := c.Generation() > before; grown != step.grows || changed(c) != step.grows {
			t.Errorf("%s: the generation was %d and is %d", step.name, before, c.Generation())
		}
		if !preferred(step.want) {
			t.Errorf("%s: %s is not preferred", step.name, step.want)
		}
	}
}
