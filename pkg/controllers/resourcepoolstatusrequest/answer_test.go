package resourcepoolstatusrequest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestAnswers(t *testing.T) {
	type objects = []runtime.Object
	other := slice("p", 1, 1, 1, func(s *resourcev1.ResourceSlice) { s.Name, s.Spec.Driver = "other", "other.example.com" })
	for name, tc := range map[string]struct {
		objects objects
		count   int32 // -1 for no answer
		pools   []resourcev1alpha3.PoolStatus
	}{
		"RPSR-15: no pools": {objects{request()}, 0, nil},
		"RPSR-9, RPSR-10, RPSR-15: a pool, beside one of another driver": {objects{request(), slice("p", 1, 1, 1), other}, 1, []resourcev1alpha3.PoolStatus{status("p", 1, 2, 0, 2)}},
		"RPSR-9: by an empty pool name":                                  {objects{request(func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Spec.PoolName = ptr.To("") }), slice("p", 1, 1, 1)}, 1, []resourcev1alpha3.PoolStatus{status("p", 1, 2, 0, 2)}},
		"RPSR-9: by pool name": {
			objects{request(func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Spec.PoolName = ptr.To("q") }), slice("p", 1, 2, 1), slice("q", 1, 1, 1)}, 1,
			[]resourcev1alpha3.PoolStatus{status("q", 1, 2, 0, 2)},
		},
		"RPSR-9: by pool name, where case matters": {
			objects{request(func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Spec.PoolName = ptr.To("P") }), slice("P", 1, 1, 2), slice("p", 1, 1, 1)}, 1,
			[]resourcev1alpha3.PoolStatus{status("P", 1, 2, 0, 2)},
		},
		"RPSR-11: allocated devices, of all namespaces": {
			objects{
				request(), slice("p", 1, 1, 1), claim("ns", "none"),
				claim("ns", "one", driver+"/p/a", driver+"/other/a", "other.example.com/p/a"), claim("other", "two", driver+"/p/unknown"),
			}, 1,
			[]resourcev1alpha3.PoolStatus{status("p", 1, 2, 2, 0)},
		},
		"RPSR-11: a device is counted as often as it is allocated": {
			objects{request(), slice("p", 1, 1, 1), claim("ns", "one", driver+"/p/a", driver+"/p/a"), claim("ns", "two", driver+"/p/a")}, 1,
			[]resourcev1alpha3.PoolStatus{status("p", 1, 2, 3, 0)},
		},
		"RPSR-13: limited": {
			objects{request(limit(2)), slice("r", 1, 1, 1), slice("q", 1, 1, 1), slice("p", 1, 1, 1)}, 3,
			[]resourcev1alpha3.PoolStatus{status("p", 1, 2, 0, 2), status("q", 1, 2, 0, 2)},
		},
		"RPSR-14: incomplete, but not returned": {objects{request(limit(1)), slice("q", 1, 2, 1), slice("p", 1, 1, 1)}, 2, []resourcev1alpha3.PoolStatus{status("p", 1, 2, 0, 2)}},
		"RPSR-14: incomplete":                   {objects{request(limit(1)), slice("p", 1, 2, 1), slice("q", 1, 1, 1)}, -1, nil},
		"RPSR-8: gone":                          {objects{slice("p", 1, 1, 1)}, -1, nil},
		"RPSR-8: answered":                      {objects{request(answered()), slice("p", 1, 1, 1)}, -1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.objects...)
			got := answer(t, env, c)
			if tc.count < 0 {
				if got != nil {
					t.Errorf("answered with %+v", got.Status)
				}
				if series := env.Series(t, "resourcepoolstatusrequest_controller_requests_processed_total"); len(series) > 0 {
					t.Errorf("processed are %q", series)
				}
				return
			}
			want := &resourcev1alpha3.ResourcePoolStatusRequestStatus{
				PoolCount: &tc.count, Pools: tc.pools,
				Conditions: []metav1.Condition{{
					Type: "Complete", Status: "True", LastTransitionTime: metav1.NewTime(epoch), Reason: "CalculationComplete",
					Message: fmt.Sprintf("Calculated status for %d pools", len(tc.pools)),
				}},
			}
			if tc.pools == nil {
				want.Pools = []resourcev1alpha3.PoolStatus{}
			}
			if !reflect.DeepEqual(got.Status, want) || got.UID != "uid" || got.ResourceVersion != "7" {
				t.Errorf("got %+v of %+v", got.Status, got.ObjectMeta)
			}
			env.WantEvents(t)
		})
	}
}

// Pins RPSR-13.
func TestAHundredPoolsAreReturnedWithoutALimit(t *testing.T) {
	objects := []runtime.Object{request()}
	for n := range 101 {
		objects = append(objects, slice(fmt.Sprintf("p%03d", n), 1, 1, 1))
	}
	env, c := fixture(t, objects...)
	if got := answer(t, env, c).Status; *got.PoolCount != 101 || len(got.Pools) != 100 || got.Conditions[0].Message != "Calculated status for 100 pools" {
		t.Errorf("%d of %d pools: %s", len(got.Pools), *got.PoolCount, got.Conditions[0].Message)
	}
}

// What an index cannot answer fails the request for good. Pins RPSR-16.
func TestARequestFailsIfNothingCanBeCalculated(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil   func(*statusController, cache.Indexer)
		message string
	}{
		"slices": {func(c *statusController, none cache.Indexer) { c.slices = none }, "Failed to list ResourceSlices: "},
		"claims": {func(c *statusController, none cache.Indexer) { c.claims = none }, "Failed to list ResourceClaims: "},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, request(), slice("p", 1, 1, 1))
			tc.spoil(c, cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
			got := answer(t, env, c).Status
			if *got.PoolCount != 0 || got.Pools != nil || len(got.Conditions) != 1 {
				t.Fatalf("got %+v", got)
			}
			if is := got.Conditions[0]; is.Type != "Failed" || is.Status != "True" || is.Reason != "CalculationFailed" || !strings.HasPrefix(is.Message, tc.message) {
				t.Errorf("got %+v", is)
			}
		})
	}
}

func TestThereIsNoPoolOnlyIfThatIsCertain(t *testing.T) {
	asks := "list resourceslices"
	answers := "update resourcepoolstatusrequests/status request"
	q := func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Spec.PoolName = ptr.To("q") }
	for name, tc := range map[string]struct {
		request  *resourcev1alpha3.ResourcePoolStatusRequest
		cached   string // version of the cache of slices
		stored   *resourcev1.ResourceSlice
		refusal  error
		requests []string
		err      string
		again    bool // whether it is queued again: the slices may be gone before the cache shows them
	}{
		"RPSR-32: its version is higher, and it lacks slices": {request(), "100", slice("p", 1, 1, 1), nil, []string{asks}, "", true},
		"RPSR-32: its version is higher, and it is right":     {request(), "100", nil, nil, []string{asks, answers}, "", false},
		"RPSR-32: it is right":                                {request(), "6", nil, nil, []string{asks, answers}, "", false},
		"RPSR-32: it lacks slices":                            {request(), "6", slice("p", 1, 1, 1), nil, []string{asks}, "", true},
		"RPSR-32: it lacks those of another pool":             {request(q), "6", slice("p", 1, 1, 1), nil, []string{asks, answers}, "", false},
		"RPSR-32: it lacks those of the pool":                 {request(q), "6", slice("q", 1, 1, 1), nil, []string{asks}, "", true},
		"RPSR-32: the API server does not say":                {request(), "6", nil, errors.New("boom"), []string{asks}, "listing the ResourceSlices of driver gpu.example.com: boom", false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.request)
			env.EmptyCache(t, slice("p", 1, 1, 1), tc.cached)
			if tc.stored != nil {
				env.Store(t, tc.stored)
			}
			env.Fake.ClearActions()
			if tc.refusal != nil {
				env.Refuse(asks, tc.refusal)
			}
			env.Intercept(asks, func(action clienttesting.Action) error {
				if got := action.(clienttesting.ListActionImpl).ListOptions.FieldSelector; got != "spec.driver="+driver {
					t.Errorf("asks for %s", got)
				}
				return nil
			})
			err := c.reconcile(env.Context(), "request")
			if err == nil != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("got %v", err)
			}
			env.WantRequests(t, tc.requests...)
			if keys := c.loop.Keys(func(string) bool { return true }); len(keys) == 1 != tc.again ||
				tc.again && !keys[0].Until.Equal(env.Clock.Now().Add(reconcile.RecheckAfter)) {
				t.Errorf("queued are %+v", keys)
			}
		})
	}
}

// Pins RPSR-33.
func TestARequestIsAnsweredOnceThoughTheCacheDoesNotShowIt(t *testing.T) {
	env, c := fixture(t, request(), slice("p", 1, 1, 1))
	env.CompleteWrites()
	env.EmptyCache(t, request(), "7")
	env.Cache(t, request())
	if answer(t, env, c) == nil {
		t.Fatal("not answered")
	}
	c.sliceChanged(reconcile.Fresh, slice("p", 1, 1, 1))
	if err := c.reconcile(env.Context(), "request"); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t)

	again := request(func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.UID = "another" })
	env.Cache(t, again)
	env.Store(t, again)
	env.Fake.ClearActions()
	if answer(t, env, c) == nil {
		t.Error("another request of that name is not answered")
	}
	c.seen(reconcile.Fresh, request(answered()))
	c.seen(reconcile.Fresh, request(answered(), func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.UID = "another" }))
	if left := c.written.HandOver(); len(left) > 0 {
		t.Errorf("%+v is remembered of what the cache shows", left)
	}
}

// Six attempts within 155 ms, and more at longer intervals. Pins RPSR-3, RPSR-7, RPSR-18, RPSR-19, RPSR-26 and RPSR-36.
func TestAWriteThatFailsIsRetried(t *testing.T) {
	conflict := apierrors.NewConflict(resource.GroupResource(), "request", errors.New("changed"))
	env := controllertest.New(t, request(), slice("p", 1, 1, 1))
	allow := env.Refuse("update resourcepoolstatusrequests/status request", conflict)
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	began := env.Clock.Now()
	env.EventuallyAsTimePasses(t, "there are six attempts", 5*time.Millisecond, func() bool { return len(env.Writes()) == 6 })
	if took := env.Clock.Since(began); took < 155*time.Millisecond {
		t.Errorf("they took %v", took)
	}
	env.AwaitIdle(t)
	for metric, help := range map[string]string{
		"requests_processed_total":            "Total number of ResourcePoolStatusRequests processed",
		"request_processing_errors_total":     "Total number of errors encountered while processing ResourcePoolStatusRequests",
		"request_processing_duration_seconds": "Time taken to process a ResourcePoolStatusRequest",
	} {
		name := "resourcepoolstatusrequest_controller_" + metric
		if got := env.Series(t, name); !slices.Equal(got, []string{"driver_name=gpu.example.com 6"}) {
			t.Errorf("%s is %q", metric, got)
		}
		families, err := env.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			if family.GetHelp() != "[ALPHA] "+help {
				t.Errorf("%s: %s", name, family.GetHelp())
			}
			if h := family.Metric[0].GetHistogram(); h != nil && (len(h.Bucket) != 15 || h.Bucket[0].GetUpperBound() != 0.001 || h.Bucket[14].GetUpperBound() != 16.384) {
				t.Errorf("buckets are %v", h.Bucket)
			}
		}
	}
	env.EventuallyAsTimePasses(t, "there are two more", 20*time.Millisecond, func() bool { return len(env.Writes()) == 8 })
	if took := env.Clock.Since(began); took < 630*time.Millisecond {
		t.Errorf("they took %v", took)
	}
	allow()
	env.EventuallyAsTimePasses(t, "it is answered", time.Second, func() bool {
		return controllertest.MustStored[*resourcev1alpha3.ResourcePoolStatusRequest](t, env, "", "request").Status != nil
	})
}

// Pins RPSR-15, RPSR-18 and RPSR-31.
func TestARequestWaitsForThePoolsToBeComplete(t *testing.T) {
	env := controllertest.New(t, request(), slice("p", 1, 2, 1))
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
	if writes := env.Writes(); len(writes) > 0 {
		t.Fatalf("sent %v", writes)
	}
	if _, err := env.Fake.ResourceV1().ResourceSlices().Create(env.Context(), slice("p", 1, 2, 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "it is answered", func() bool {
		r := controllertest.MustStored[*resourcev1alpha3.ResourcePoolStatusRequest](t, env, "", "request")
		return r.Status != nil && *r.Status.Pools[0].TotalDevices == 4
	})
	env.AwaitIdle(t)
	if got := env.Series(t, "resourcepoolstatusrequest_controller_requests_processed_total"); !slices.Equal(got, []string{"driver_name=gpu.example.com 1"}) {
		t.Errorf("processed are %q", got)
	}
	if got := env.Series(t, "resourcepoolstatusrequest_controller_request_processing_errors_total"); len(got) > 0 {
		t.Errorf("errors are %q", got)
	}
}

// indexed is a cache of which nobody may ask for everything. It keeps the keys that it is asked for.
type indexed struct {
	cache.Indexer
	keys *[]string
}

func (indexed) List() []any { panic("everything is listed") }

func (i indexed) ByIndex(name, key string) ([]any, error) {
	*i.keys = append(*i.keys, key)
	return i.Indexer.ByIndex(name, key)
}

// Pins RPSR-35.
func TestNoAnswerListsEverything(t *testing.T) {
	p := func(r *resourcev1alpha3.ResourcePoolStatusRequest) { r.Spec.PoolName = ptr.To("p") }
	for name, tc := range map[string]struct {
		request *resourcev1alpha3.ResourcePoolStatusRequest
		key     string
	}{
		"all pools": {request(), index.Driver(driver)},
		"one pool":  {request(p), index.Pool(driver, "p")},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.request, slice("p", 1, 1, 1), claim("ns", "one", driver+"/p/a"))
			var keys []string
			c.slices, c.claims = indexed{c.slices, &keys}, indexed{c.claims, &keys}
			if got := answer(t, env, c); *got.Status.Pools[0].AllocatedDevices != 1 {
				t.Errorf("got %+v", got.Status)
			}
			if !slices.Equal(keys, []string{tc.key, index.Pool(driver, "p")}) {
				t.Errorf("read are %q", keys)
			}
		})
	}
}

// An answer costs as much as its pools have slices and claims, however many there are of others.
func BenchmarkAnswer(b *testing.B) {
	env, c := fixture(b, request(), slice("p", 1, 1, 1), claim("ns", "one", driver+"/p/a"))
	for n := range 10_000 {
		env.Cache(b, claim("ns", fmt.Sprint("other-", n), driver+"/q/a"))
	}
	ctx := klog.NewContext(b.Context(), klog.Logger{})
	b.ReportAllocs()
	for b.Loop() {
		status, err := c.answer(ctx, request())
		if err != nil || *status.PoolCount != 1 {
			b.Fatal(status, err)
		}
	}
}

// Users name drivers, any number of them, and a series lasts as long as the instance. Pins RPSR-38.
func TestDriversHaveALimitedNumberOfSeries(t *testing.T) {
	env, c := fixture(t)
	for n := range 1000 {
		c.metrics.attempted(fmt.Sprintf("%d.example.com", n), time.Second, nil)
	}
	got := env.Series(t, "resourcepoolstatusrequest_controller_requests_processed_total")
	if len(got) != 101 || !slices.Contains(got, "driver_name=99.example.com 1") || !slices.Contains(got, "driver_name=other 900") {
		t.Errorf("1000 drivers have %d series: %q", len(got), got)
	}
}
