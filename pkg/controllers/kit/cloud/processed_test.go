package cloud

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// serviceOf is a Service of a UID and a version that wants a load balancer.
func serviceOf(uid types.UID, version string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: uid, ResourceVersion: version},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
}

// beginService makes a session in which the library has begun to work on a Service.
func beginService(t *testing.T, cached *corev1.Service) (*controllertest.Env, *Session) {
	t.Helper()
	env, guard := controllertest.New(t), newWorld(t).guard
	env.Cache(t, cached)
	session := &Session{Env: env.Env, Client: newClient(env.Env, guard), guard: guard}
	must.Get(session.Services().Lister().Services("a").Get("b"))(t)
	return env, session
}

// The Service that the library works on may be gone, and another one have its name, which would get the finalizer.
// Pins SLB-36.
func TestServicesAreWrittenByTheirUID(t *testing.T) {
	env, session := beginService(t, serviceOf("old", "1"))
	env.Store(t, serviceOf("new", "2"))
	finalized := serviceOf("old", "1")
	finalized.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
	_, _ = servicehelpers.PatchService(session.Client.CoreV1(), serviceOf("old", "1"), finalized)
	sent, ok := env.Writes()[0].(clienttesting.PatchAction)
	if !ok || !strings.Contains(string(sent.GetPatch()), `"uid":"old"`) { // which an API server refuses
		t.Errorf("%v was sent, %s", env.Writes()[0], sent.GetPatch())
	}
}

// Pins SLB-37.
func TestAServiceIsNotProcessedAsItWasBeforeAWrite(t *testing.T) {
	unavailable := apierrors.NewInternalError(errFake)
	proxied := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource("services"), "b",
		"404 page not found", 0, true)
	for name, tc := range map[string]struct {
		// is is what the API server answers to the write, which it carries out all the same.
		is           error
		live, cached *corev1.Service
		read         error
		waits        bool
	}{
		"the cache shows the write":                 {cached: serviceOf("old", "7")},
		"the cache shows what came later":           {cached: serviceOf("old", "8")},
		"the cache is late":                         {cached: serviceOf("old", "1"), waits: true},
		"the cache shows another one":               {cached: serviceOf("new", "2")},
		"no answer, and it was carried out":         {is: unavailable, live: serviceOf("old", "7"), cached: serviceOf("old", "1"), waits: true},
		"no answer, and the cache shows all":        {is: unavailable, live: serviceOf("old", "1"), cached: serviceOf("old", "5000")},
		"no answer, and another one has the name":   {is: unavailable, live: serviceOf("new", "9"), cached: serviceOf("old", "1")},
		"no answer, neither to the read":            {is: unavailable, read: unavailable, cached: serviceOf("old", "1"), waits: true},
		"no answer, and one of a proxy to the read": {is: unavailable, read: proxied, cached: serviceOf("old", "1"), waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			env, session := beginService(t, serviceOf("old", "1"))
			session.guard.processed.wrote("a/b", serviceOf("old", "7"), tc.is)
			if tc.live != nil {
				env.Store(t, tc.live)
			}
			env.Cache(t, tc.cached)
			if tc.read != nil {
				env.Refuse("get services", tc.read)
			}
			got, err := session.Services().Lister().Services("a").Get("b")
			if (err != nil) != tc.waits || apierrors.IsNotFound(err) || err == nil && got.UID != tc.cached.UID {
				t.Errorf("it got %v, %v", got, err)
			}
		})
	}
}

// The cache is late as a rule for milliseconds, which is no failure. One that stays behind has another history.
// Pins SLB-37.
func TestAServiceThatTheCacheShowsLateIsReadAgainSoon(t *testing.T) {
	_, session := beginService(t, serviceOf("old", "1"))
	guard, lister := session.guard, session.Services().Lister().Services("a")
	guard.processed.wrote("a/b", serviceOf("old", "7"), nil)
	_, err := lister.Get("b")
	if late := new(*api.RetryError); !errors.As(err, late) || (*late).RetryAfter() != recheck {
		t.Errorf("got %v", err)
	}
	guard.processed.clock.(*testclock.FakePassiveClock).SetTime(controllertest.Epoch.Add(writes.Timeout))
	must.Get(lister.Get("b"))(t)
}

// The library looks for no deleted Service that wants no load balancer any more.
func TestAServiceThatIsDeletedIsForgotten(t *testing.T) {
	_, session := beginService(t, serviceOf("old", "1"))
	var added []any
	handler := serviceHandler{
		cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added = append(added, obj) }}, &session.guard.processed,
	}
	internal := serviceOf("old", "1")
	internal.Spec.Type = ""
	handler.OnDelete(internal)
	session.guard.processed.forget("a/b")
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "a/b", Obj: internal})
	var types []corev1.ServiceType
	for _, obj := range added {
		types = append(types, obj.(*corev1.Service).Spec.Type)
	}
	if want := []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, ""}; !slices.Equal(types, want) {
		t.Errorf("the library got Services of types %q, want %q", types, want)
	}
}

// A client that replaces a Service as a whole takes the finalizer away, and the cache may have shown neither that it was
// there nor, for certain, that the write of it was carried out. Pins SLB-30.
func TestAServiceThatLacksTheFinalizerIsQueued(t *testing.T) {
	finalized := serviceOf("a", "3")
	finalized.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
	for name, tc := range map[string]struct {
		old, new *corev1.Service
		written  *corev1.Service
		err      error
		want     int
	}{
		"it has lost the one that the cache has shown":       {old: finalized, new: serviceOf("a", "4"), want: 1},
		"it has lost the one that the cache has never shown": {old: serviceOf("a", "1"), new: serviceOf("a", "4"), written: finalized, want: 1},
		"it may have lost one, the write of which failed":    {old: serviceOf("a", "1"), new: serviceOf("a", "4"), err: errFake, want: 1},
		"it has kept the one that the cache has never shown": {old: serviceOf("a", "1"), new: finalized, written: finalized, want: 0},
		"none was written":                                       {old: serviceOf("a", "1"), new: serviceOf("a", "4"), want: 0},
		"what was written had been shown":                        {old: serviceOf("a", "3"), new: serviceOf("a", "4"), written: serviceOf("a", "3"), want: 0},
		"another Service of the name had it, and is shown still": {old: serviceOf("b", "1"), new: serviceOf("b", "4"), written: finalized, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, session := beginService(t, serviceOf("a", "1"))
			if tc.written != nil || tc.err != nil {
				session.guard.processed.wrote("a/b", tc.written, tc.err)
			}
			var added []any
			handler := serviceHandler{
				cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added = append(added, obj) }}, &session.guard.processed,
			}
			handler.OnUpdate(tc.old, tc.new)
			if len(added) != tc.want {
				t.Errorf("queued %v, want %d", added, tc.want)
			}
		})
	}
}

// A type that is changed for a moment takes the address out of the status, and the cache may show neither. A client
// that goes on doing so does not have the provider called each time. Pins SLB-41.
func TestAServiceThatLacksItsAddressIsQueued(t *testing.T) {
	with := func(s *corev1.Service, edit func(*corev1.Service)) *corev1.Service {
		s.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
		edit(s)
		return s
	}
	bare := func(*corev1.Service) {}
	ofClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("other") }
	of := func(version string, edit func(*corev1.Service)) *corev1.Service {
		return with(serviceOf("a", version), edit)
	}
	for name, tc := range map[string]struct {
		first             *corev1.Service // as it is first read; without an address if it is nil
		old, new, written *corev1.Service
		again             time.Duration // after which there is a resync
		want              int
	}{
		"it has lost the one that it had":                    {first: of("3", addressed), old: of("3", addressed), new: of("4", bare), want: 1},
		"it has lost the one that the cache has shown":       {old: of("3", addressed), new: of("4", bare), written: of("3", addressed), want: 1},
		"it has lost the one that the cache has never shown": {old: of("1", bare), new: of("4", bare), written: of("3", addressed), want: 1},
		"it has lost it again soon":                          {old: of("3", addressed), new: of("4", bare), written: of("3", addressed), again: time.Minute, want: 1},
		"it has lost it again later":                         {old: of("3", addressed), new: of("4", bare), written: of("3", addressed), again: writes.Timeout, want: 2},
		"the cache does not show it yet":                     {old: of("1", bare), new: of("2", bare), written: of("3", addressed), want: 0},
		"there is none yet":                                  {old: of("1", bare), new: of("2", bare), written: of("2", bare), want: 0},
		"it was lost before":                                 {old: of("4", bare), new: of("5", bare), written: of("3", addressed), want: 1},
		"it has another one":                                 {old: of("3", addressed), new: of("4", addressed), written: of("3", addressed), want: 0},
		"it is of another class":                             {old: of("3", addressed), new: of("4", ofClass), written: of("3", addressed), want: 0},
		"it is another Service of the name":                  {old: of("3", addressed), new: with(serviceOf("b", "4"), bare), written: of("3", addressed), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			first := serviceOf("a", "1")
			if tc.first != nil {
				first = tc.first
			}
			_, session := beginService(t, first)
			if tc.written != nil {
				session.guard.processed.wrote("a/b", tc.written, nil)
			}
			added := 0
			handler := serviceHandler{
				cache.ResourceEventHandlerFuncs{AddFunc: func(any) { added++ }}, &session.guard.processed,
			}
			handler.OnUpdate(tc.old, tc.new)
			if tc.again > 0 {
				session.guard.processed.clock.(*testclock.FakePassiveClock).SetTime(controllertest.Epoch.Add(tc.again))
				handler.OnUpdate(tc.new, tc.new)
			}
			if added != tc.want {
				t.Errorf("it was queued %d times, want %d", added, tc.want)
			}
		})
	}
}

// What is remembered of a Service ends with it.
func TestServicesThatAreGoneAreNotRemembered(t *testing.T) {
	env, session := beginService(t, serviceOf("old", "1"))
	env.Uncache(t, serviceOf("old", "1"))
	_, err := session.Services().Lister().Services("a").Get("b")
	if _, known := session.guard.processed.of("a/b"); known || !apierrors.IsNotFound(err) {
		t.Errorf("it is remembered: %t, %v", known, err)
	}
}

// The library takes the address away from a Service whose load balancer it has deleted. Pins SLB-42.
func TestAServiceOfAnotherClassKeepsTheAddressOfThat(t *testing.T) {
	with := func(ip string, edits ...func(*corev1.Service)) *corev1.Service {
		s := serviceOf("a", "9")
		if ip != "" {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		}
		return controllertest.Changed(s, edits...)
	}
	ofClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("other") }
	internal := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }
	another := func(s *corev1.Service) { s.UID = "b" }
	for name, tc := range map[string]struct {
		first, written, gave, cached *corev1.Service
		want                         bool // whether the library gets the address
	}{
		"of another class":                                  {first: with("1.1.1.1"), cached: with("2.2.2.2", ofClass)},
		"of another class, and had none":                    {first: with(""), cached: with("2.2.2.2", ofClass)},
		"of another class when it is first read":            {first: with("2.2.2.2", ofClass), cached: with("2.2.2.2", ofClass)},
		"of another class, and its former one has the name": {first: with("2.2.2.2", another), cached: with("2.2.2.2", ofClass)},
		"of another class, with the address that it had":    {first: with("1.1.1.1"), cached: with("1.1.1.1", ofClass), want: true},
		"of another class, with what was written to it":     {first: with(""), written: with("1.1.1.1"), cached: with("1.1.1.1", ofClass), want: true},
		"of another class when an address was written late": {first: with(""), gave: with("1.1.1.1", ofClass), cached: with("1.1.1.1", ofClass), want: true},
		"of no other class":                                 {first: with("1.1.1.1"), cached: with("2.2.2.2"), want: true},
		"of another type":                                   {first: with("1.1.1.1"), cached: with("2.2.2.2", internal), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			env, session := beginService(t, tc.first)
			if tc.written != nil {
				session.guard.processed.wrote("a/b", tc.written, nil)
			}
			if tc.gave != nil {
				session.guard.processed.gave("a/b", tc.gave)
			}
			env.Cache(t, tc.cached)
			got := must.Get(session.Services().Lister().Services("a").Get("b"))(t)
			if hasAddress(got) != tc.want || !hasAddress(tc.cached) {
				t.Errorf("it has the address %v, and the cached one %v", got.Status.LoadBalancer, tc.cached.Status.LoadBalancer)
			}
		})
	}
}

// The Service may be of another class when the address is written. Pins SLB-42.
func TestTheAddressThatIsWrittenIsRemembered(t *testing.T) {
	env, session := beginService(t, serviceOf("a", "1"))
	ofClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("other") }
	env.Store(t, controllertest.Changed(serviceOf("a", "2"), ofClass))
	written := controllertest.Changed(serviceOf("a", "1"), addressed)
	must.Get(servicehelpers.PatchService(session.Client.CoreV1(), serviceOf("a", "1"), written))(t)
	finalized := controllertest.Changed(written.DeepCopy(), func(s *corev1.Service) { s.Finalizers = []string{"f"} })
	env.Store(t, controllertest.Changed(serviceOf("a", "3"), ofClass)) // nothing is given with the finalizer
	must.Get(servicehelpers.PatchService(session.Client.CoreV1(), written, finalized))(t)
	w, _ := session.guard.processed.of("a/b")
	if len(w.address) != 1 || w.address[0].IP != written.Status.LoadBalancer.Ingress[0].IP {
		t.Errorf("the address is %v", w.address)
	}
}

// Pins SLB-43.
func TestNoAddressIsWrittenToAServiceThatDoesNotWantOneAnyMore(t *testing.T) {
	ofClass := func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("other") }
	another := func(s *corev1.Service) { s.UID = "b" }
	bare := func(*corev1.Service) {}
	for name, tc := range map[string]struct {
		cached, was, is func(*corev1.Service)
		sent            int
	}{
		"it still wants one":        {cached: bare, was: bare, is: addressed, sent: 1},
		"it is of another class":    {cached: ofClass, was: bare, is: addressed},
		"another one has the name":  {cached: controllertest.All(ofClass, another), was: bare, is: addressed, sent: 1}, // and is refused
		"the address is taken away": {cached: ofClass, was: addressed, is: bare, sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			env, session := beginService(t, serviceOf("a", "1"))
			env.Cache(t, controllertest.Changed(serviceOf("a", "2"), tc.cached))
			_, _ = servicehelpers.PatchService(session.Client.CoreV1(),
				controllertest.Changed(serviceOf("a", "1"), tc.was), controllertest.Changed(serviceOf("a", "1"), tc.is))
			if sent := len(env.Writes()); sent != tc.sent {
				t.Errorf("%d patches were sent, want %d", sent, tc.sent)
			}
		})
	}
}
