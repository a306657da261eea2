package takeover

import (
	"errors"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const testPatience = time.Minute

// server answers consistent reads with the objects given.
type server struct {
	*metadatafake.FakeMetadataClient
	reads chan string // the verbs
}

func newServer(t *testing.T, streams bool, version string, pods ...*corev1.Pod) server {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := server{metadatafake.NewSimpleMetadataClient(scheme), make(chan string, 100)}
	s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		s.reads <- a.GetVerb()
		if !streams {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
		}
		w := watch.NewFakeWithChanSize(len(pods)+1, false)
		for _, p := range pods {
			w.Add(metadataOf(p))
		}
		w.Action(watch.Bookmark, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
		return true, w, nil
	})
	s.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.reads <- a.GetVerb()
		list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: version}}
		for _, p := range pods {
			list.Items = append(list.Items, runtime.RawExtension{Object: metadataOf(p)})
		}
		return true, list, nil
	})
	return s
}

func metadataOf(p *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: p.ObjectMeta}
}

type fixture struct {
	*Barrier
	ledger *Ledger
	cache  Cache
	halted chan struct{}
}

func newFixture(t *testing.T, s server, left Versions, cached ...*corev1.Pod) fixture {
	t.Helper()
	halted := make(chan struct{})
	f := fixture{ledger: NewLedger(clock.RealClock{}), halted: halted, cache: Cache{
		Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Store:    storeOf(t, cached...),
		Halted:   halted,
		Started:  time.Now().Add(-time.Hour),
	}}
	f.ledger.Inherit(left, time.Now())
	f.Barrier = New(t.Context(), Options{Left: left, Ledger: f.ledger, Read: Reader{s}, Clock: clock.RealClock{}})
	t.Cleanup(f.End)
	return f
}

func (f fixture) wantPassed(t *testing.T, ledger string) {
	t.Helper()
	select {
	case <-f.Passed(f.cache):
	case <-time.After(testPatience):
		t.Fatalf("not passed, lacks %q", f.Lacking(f.cache))
	}
	if lacking := f.Lacking(f.cache); lacking != "" {
		t.Errorf("passed, and lacks %q", lacking)
	}
	if got := f.ledger.Versions().String(); got != ledger {
		t.Errorf("the ledger has %q, want %q", got, ledger)
	}
}

func (f fixture) wantWaiting(t *testing.T, want string) {
	t.Helper()
	passed := f.Passed(f.cache)
	deadline := time.After(testPatience)
	for !strings.Contains(f.Lacking(f.cache), want) {
		select {
		case <-passed:
			t.Fatal("passed")
		case <-deadline:
			t.Fatalf("lacks %q, want %q", f.Lacking(f.cache), want)
		case <-time.After(time.Millisecond):
		}
	}
}

func left(version string) Versions {
	return Versions{ByResource: map[schema.GroupResource]string{pods: version}, Rest: none}
}

func TestACacheThatIsNewEnoughPassesWithoutARequest(t *testing.T) {
	for name, test := range map[string]struct {
		left   Versions
		filled bool // after the term began
		ledger string
	}{
		"as new as what was written": {left("10"), false, "pods=10 *=0"},
		"newer":                      {left("9"), false, "pods=9 *=0"},
		"nothing was written":        {Versions{Rest: none}, false, "*=0"},
		"filled in this term":        {NothingLeft(), true, "pods=10 *=?"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, true, "10")
			f := newFixture(t, s, test.left, pod("a", "1", "10"))
			if test.filled {
				f.cache.Started = time.Now().Add(time.Hour)
			}
			f.wantPassed(t, test.ledger)
			if len(s.Actions()) > 0 {
				t.Errorf("sent %v", s.Actions())
			}
		})
	}
}

// The barrier is made a while after the term began: a cache that was filled in between passes.
func TestATermBeganBeforeItsBarrier(t *testing.T) {
	s := newServer(t, true, "10")
	f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"))
	began := f.cache.Started.Add(-time.Millisecond)
	f.ledger = NewLedger(clock.RealClock{})
	f.ledger.Inherit(NothingLeft(), began)
	f.Barrier = New(t.Context(), Options{Left: NothingLeft(), Began: began, Ledger: f.ledger, Read: Reader{s}, Clock: clock.RealClock{}})
	t.Cleanup(f.End)
	f.wantPassed(t, "pods=10 *=?")
	if len(s.Actions()) > 0 {
		t.Errorf("sent %v", s.Actions())
	}
}

// Pins MGR-175.
func TestAVersionThatComesIsWaitedForWithoutARequest(t *testing.T) {
	s := newServer(t, true, "12")
	f := newFixture(t, s, left("12"), pod("a", "1", "10"))
	f.wantWaiting(t, "older than resource version 12")
	f.cache.Store.Bookmark("12")
	f.wantPassed(t, "pods=12 *=0")
	if len(s.Actions()) > 0 {
		t.Errorf("sent %v", s.Actions())
	}
}

// Pins MGR-175.
func TestWithoutVersionsTheObjectsAreCompared(t *testing.T) {
	for _, streams := range []bool{true, false} {
		s := newServer(t, streams, "12", pod("a", "1", "10"), pod("b", "2", "11"))
		f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"), pod("c", "3", "9"))
		f.wantWaiting(t, "ns/b at version 11, the deletion of ns/c")
		if err := f.cache.Store.Add(pod("b", "2", "11")); err != nil {
			t.Fatal(err)
		}
		f.wantWaiting(t, "the deletion of ns/c")
		if err := f.cache.Store.Delete(pod("c", "3", "12")); err != nil {
			t.Fatal(err)
		}
		f.wantPassed(t, "pods=12 *=?")
	}
}

// The versions of an etcd that was restored since never come.
func TestAVersionThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	s := newServer(t, true, "5", pod("a", "1", "4"))
	f := newFixture(t, s, left("1000"), pod("a", "1", "4"))
	f.wantPassed(t, "pods=1000 *=0")
	if verb := <-s.reads; verb != "watch" {
		t.Errorf("sent %s", verb)
	}
}

func TestACacheWithoutAVersionIsCompared(t *testing.T) {
	s := newServer(t, true, "12", pod("a", "1", "10"))
	f := newFixture(t, s, left("10"))
	f.wantWaiting(t, "ns/a at version 10")
	if err := f.cache.Store.Add(pod("a", "1", "10")); err != nil {
		t.Fatal(err)
	}
	f.wantPassed(t, "pods=12 *=0")
}

func TestSeveralWaitForOneComparison(t *testing.T) {
	s := newServer(t, true, "12", pod("a", "1", "10"))
	f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"))
	f.Passed(f.cache)
	f.wantPassed(t, "pods=12 *=?")
	f.wantPassed(t, "pods=12 *=?")
	if n := len(s.Actions()); n != 1 {
		t.Errorf("sent %d requests", n)
	}
}

func TestARefusedReadIsShownAndTriedAgain(t *testing.T) {
	s := newServer(t, true, "12", pod("a", "1", "10"))
	refuse := true
	s.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		defer func() { refuse = false }()
		return refuse, nil, apierrors.NewForbidden(pods, "", nil)
	})
	f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"))
	f.wantWaiting(t, "forbidden")
	f.wantPassed(t, "pods=12 *=?")
}

// The objects of a custom resource cannot be read while the webhook that converts them is down. Pins MGR-263.
func TestAReadThatKeepsBeingRefusedFloodsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("the webhook is down")
		var mu sync.Mutex // guards these
		var reads, lines int
		answer := down
		s := newServer(t, true, "12", pod("a", "1", "10"))
		s.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			reads++
			return answer != nil, nil, answer
		})
		f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"))
		logger := funcr.New(func(string, string) {
			mu.Lock()
			defer mu.Unlock()
			lines++
		}, funcr.Options{})
		f.Barrier = New(klog.NewContext(t.Context(), logger), f.options)
		t.Cleanup(f.End)
		passed := f.Passed(f.cache)
		for _, phase := range []struct {
			lasts           time.Duration
			answer          error
			maxReads, lines int
		}{
			{5 * time.Minute, down, 35, 1},
			{5*time.Minute - time.Second, down, 31, 0},
			{time.Minute, down, 7, 1},
			{time.Minute, errors.New("it is down in another way"), 7, 1},
			{rereadAfter, nil, 1, 0},
		} {
			mu.Lock()
			reads, lines, answer = 0, 0, phase.answer
			mu.Unlock()
			time.Sleep(phase.lasts)
			synctest.Wait()
			mu.Lock()
			if reads == 0 || reads > phase.maxReads || lines != phase.lines {
				t.Errorf("%d reads and %d lines in %v, want at most %d and %d", reads, lines, phase.lasts, phase.maxReads, phase.lines)
			}
			mu.Unlock()
		}
		select {
		case <-passed:
		default:
			t.Errorf("not passed, lacks %q", f.Lacking(f.cache))
		}
	})
}

// Something between this process and the API server may end each stream before all objects were sent.
func TestObjectsAreListedIfTheStreamEndsTooEarly(t *testing.T) {
	s := newServer(t, true, "12", pod("a", "1", "10"))
	s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		s.reads <- a.GetVerb()
		w := watch.NewFakeWithChanSize(1, false)
		w.Add(metadataOf(pod("a", "1", "10")))
		w.Stop()
		return true, w, nil
	})
	f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"))
	f.wantPassed(t, "pods=12 *=?")
	if verbs := []string{<-s.reads, <-s.reads}; !slices.Equal(verbs, []string{"watch", "list"}) {
		t.Errorf("sent %q", verbs)
	}
}

func TestABarrierThatEndsLetsNothingPass(t *testing.T) {
	s := newServer(t, true, "12", pod("a", "1", "10"))
	f := newFixture(t, s, NothingLeft())
	f.wantWaiting(t, "ns/a")
	f.End()
	late := f.cache
	late.Store, late.Halted = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), make(chan struct{})
	for _, c := range []Cache{f.cache, late} {
		select {
		case <-f.Passed(c):
			t.Error("passed")
		default:
		}
	}
}

// TestAComparisonEndsWithItsInformer whatever it waits for, and says nothing about a later informer of the kind.
// Pins MGR-175.
func TestAComparisonEndsWithItsInformer(t *testing.T) {
	hanging := func() (watch.Interface, error) { return watch.NewFake(), nil }
	refused := func() (watch.Interface, error) { return nil, apierrors.NewForbidden(pods, "", nil) }
	for name, test := range map[string]struct {
		left   Versions
		answer func() (watch.Interface, error) // nil for that of the server
		lacks  string
		reads  bool
	}{
		"it waits for a version":             {left: left("1000"), lacks: "older than resource version 1000"},
		"it waits for an answer":             {left: NothingLeft(), answer: hanging, lacks: "not yet compared", reads: true},
		"it waits to ask again":              {left: NothingLeft(), answer: refused, lacks: "forbidden", reads: true},
		"it waits for what a read has shown": {left: NothingLeft(), lacks: "ns/a", reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, true, "12", pod("a", "1", "10"))
			if test.answer != nil {
				s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
					s.reads <- a.GetVerb()
					w, err := test.answer()
					return true, w, err
				})
			}
			f := newFixture(t, s, test.left)
			f.wantWaiting(t, test.lacks)
			if test.reads {
				<-s.reads
			}
			close(f.halted)
			ended := make(chan struct{})
			go func() { f.running.Wait(); close(ended) }()
			select {
			case <-ended:
			case <-time.After(testPatience):
				t.Fatal("it goes on")
			}
			f.wantWaiting(t, test.lacks)
			if !test.reads && len(s.Actions()) > 0 {
				t.Errorf("sent %v", s.Actions())
			}
			next := f.cache
			next.Store, next.Halted, next.Started = storeOf(t), make(chan struct{}), time.Now().Add(time.Hour)
			select {
			case <-f.Passed(next):
			default:
				t.Error("the next informer has not passed")
			}
		})
	}
}

// An informer can stop during the term, and its cache is to be freed then.
func TestACacheThatIsNotComparedIsNotKept(t *testing.T) {
	for name, test := range map[string]struct {
		left   Versions
		stored []*corev1.Pod
		halted bool
	}{
		"it passed at once":    {left: left("10")},
		"it was compared":      {left: NothingLeft(), stored: []*corev1.Pod{pod("a", "1", "10")}},
		"its informer stopped": {left: NothingLeft(), stored: []*corev1.Pod{pod("b", "2", "11")}, halted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, true, "12", test.stored...)
			cached := func() weak.Pointer[corev1.Pod] {
				cached := pod("a", "1", "10")
				f := newFixture(t, s, test.left, cached)
				if test.halted {
					f.wantWaiting(t, "ns/b")
					close(f.halted)
				} else {
					<-f.Passed(f.cache)
				}
				return weak.Make(cached)
			}()
			deadline := time.After(testPatience)
			for goruntime.GC(); cached.Value() != nil; goruntime.GC() {
				select {
				case <-deadline:
					t.Fatal("it is kept")
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

func TestTheLargestCacheComesFirst(t *testing.T) {
	var caches []Cache
	for name, size := range map[string]int{"small": 1, "large": 3, "medium": 2} {
		var objects []*corev1.Pod
		for i := range size {
			objects = append(objects, pod(strconv.Itoa(i), "1", "10"))
		}
		caches = append(caches, Cache{Resource: schema.GroupVersionResource{Resource: name}, Store: storeOf(t, objects...)})
	}
	var names []string
	for _, c := range largestFirst(caches) {
		names = append(names, c.Resource.Resource)
	}
	if want := []string{"large", "medium", "small"}; !slices.Equal(names, want) {
		t.Errorf("the order is %v, want %v", names, want)
	}
}

// What has begun to be compared is not compared again for the controllers that wait for it.
func TestAComparisonThatHasBegunServesThoseWhoWait(t *testing.T) {
	s := newServer(t, true, "12", pod("a", "1", "10"))
	f := newFixture(t, s, NothingLeft(), pod("a", "1", "10"))
	f.Begin([]Cache{f.cache})
	if verb := <-s.reads; verb != "watch" {
		t.Errorf("sent %s", verb)
	}
	f.wantPassed(t, "pods=12 *=?")
	if n := len(s.Actions()); n != 1 {
		t.Errorf("sent %d requests", n)
	}
}
