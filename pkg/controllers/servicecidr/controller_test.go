package servicecidr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func deleted(cidr *networkingv1.ServiceCIDR, ago time.Duration) *networkingv1.ServiceCIDR {
	cidr.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch.Add(-ago)}
	return cidr
}

func newAddress(name string, family corev1.IPFamily, manager string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: manager,
	}}}
}

func allocatedAddress(name string) *networkingv1.IPAddress {
	return newAddress(name, corev1.IPv4Protocol, allocator)
}

// subject is a controller with the keys that it enqueues with a delay.
type subject struct {
	*controllertest.Subject[string]
	c *cidrController
}

// newSubject creates a controller whose caches match the API server.
func newSubject(t *testing.T, objects ...runtime.Object) *subject {
	t.Helper()
	s := newSubjectWithoutCaches(t, objects...)
	s.fillCaches(t, objects...)
	return s
}

func newSubjectWithoutCaches(t *testing.T, objects ...runtime.Object) *subject {
	t.Helper()
	s := &subject{Subject: controllertest.NewSubject(t, "is", objects...)}
	c, err := newController(s.Env.Env, config{})
	if err != nil {
		t.Fatal(err)
	}
	s.c, s.Work = c, c.reconcile
	return s
}

func (s *subject) fillCaches(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	s.Env.Start(t)
	metadata := s.Informers.MetadataFor(networkingv1.SchemeGroupVersion.WithResource("ipaddresses")).Informer()
	for _, o := range objects {
		if address, ok := o.(*networkingv1.IPAddress); ok {
			if err := metadata.GetIndexer().Add(metadataOf(address)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Requests()
}

// sent returns the writes with their bodies.
func sent(t *testing.T, s *subject) []string {
	t.Helper()
	var all []string
	for _, action := range s.Writes() {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok {
			t.Fatalf("unexpected request: %+v", action)
		}
		if patch.PatchType == types.ApplyPatchType && (patch.PatchOptions.FieldManager != "service-cidr-controller" || !*patch.PatchOptions.Force) {
			t.Errorf("applied with %+v", patch.PatchOptions)
		}
		all = append(all, string(patch.PatchType)+" "+patch.Subresource+" "+string(patch.Patch))
	}
	return all
}

func applied(status, reason, message string) string {
	return `application/apply-patch+yaml status {"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"is","uid":"is"},"status":{"conditions":[` +
		`{"type":"Ready","status":"` + status + `","lastTransitionTime":"` + controllertest.Epoch.UTC().Format(time.RFC3339) + `","reason":"` + reason + `","message":"` + message + `"}]}}`
}

const (
	addsFinalizer    = `application/strategic-merge-patch+json  {"metadata":{"finalizers":["networking.k8s.io/service-cidr-finalizer"],"uid":"is"}}`
	deletesFinalizer = `application/strategic-merge-patch+json  {"metadata":{"$deleteFromPrimitiveList/finalizers":["networking.k8s.io/service-cidr-finalizer"],"uid":"is"}}`
)

func TestReconcile(t *testing.T) {
	isReady := applied("True", "", "Kubernetes Service CIDR is ready")
	isHeld := applied("False", "Terminating", "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
	with := func(cidr *networkingv1.ServiceCIDR, condition metav1.Condition) *networkingv1.ServiceCIDR {
		condition.LastTransitionTime = metav1.NewTime(controllertest.Epoch.Add(-time.Hour))
		cidr.Status.Conditions = []metav1.Condition{condition}
		return cidr
	}
	unprotected := func(cidr *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR {
		cidr.Finalizers = nil
		return cidr
	}
	is := func() *networkingv1.ServiceCIDR { return newCIDR("is", "192.168.0.0/24", "2001:db2::/64") }
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"CIDR-17: gone": {},
		"CIDR-19, CIDR-19c, CIDR-10, CIDR-16, CIDR-36, CIDR-45: new": {
			objects: []runtime.Object{unprotected(is())},
			want:    []string{addsFinalizer, isReady},
		},
		"CIDR-19b, CIDR-12, CIDR-33: protected": {objects: []runtime.Object{is()}, want: []string{isReady}},
		"CIDR-20: ready":                        {objects: []runtime.Object{with(is(), ready)}},
		"CIDR-19b: somebody set it False":       {objects: []runtime.Object{with(is(), terminating)}, want: []string{isReady}},
		"CIDR-35: the ranges of an API server that was configured for the other family first": {
			objects: []runtime.Object{with(newCIDR("is", "2001:db2::/64", "192.168.0.0/24"), ready), newCIDR("kubernetes", "10.0.0.0/24")},
		},
		"CIDR-25: the message of another":  {objects: []runtime.Object{with(is(), metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Message: "Kubernetes default Service CIDR is ready"})}, want: []string{isReady}},
		"CIDR-11, CIDR-18e: nothing in it": {objects: []runtime.Object{deleted(is(), 11*time.Second)}, want: []string{deletesFinalizer}},
		"CIDR-18c, CIDR-21: in use": {
			objects: []runtime.Object{deleted(is(), 11*time.Second), allocatedAddress("192.168.0.24")},
			want:    []string{isHeld},
		},
		"CIDR-18c: in use, at once": {
			objects: []runtime.Object{deleted(is(), 0), allocatedAddress("192.168.0.24")},
			want:    []string{isHeld},
		},
		"CIDR-18c, CIDR-20: in use, and shown": {
			objects: []runtime.Object{with(deleted(is(), 11*time.Second), terminating), allocatedAddress("192.168.0.24")},
		},
		"CIDR-18b: IPv6": {
			objects: []runtime.Object{deleted(is(), 11*time.Second), newAddress("2001:db2::7", corev1.IPv6Protocol, allocator)},
			want:    []string{isHeld},
		},
		"CIDR-18a: in use, and another one has it": {
			objects: []runtime.Object{deleted(is(), 11*time.Second), allocatedAddress("192.168.0.24"), newCIDR("other", "192.168.0.0/16", "2001:db2::/48")},
			want:    []string{deletesFinalizer},
		},
		"CIDR-18b: another one has not": {
			objects: []runtime.Object{deleted(is(), 11*time.Second), allocatedAddress("192.168.0.24"), newCIDR("other", "192.168.1.0/24", "2001:db2::/48")},
			want:    []string{isHeld},
		},
		"CIDR-30: of another manager": {
			objects: []runtime.Object{deleted(is(), 11*time.Second), newAddress("192.168.0.24", corev1.IPv4Protocol, "example.com")},
			want:    []string{deletesFinalizer},
		},
		"CIDR-18b: what is no address": {
			objects: []runtime.Object{deleted(is(), 11*time.Second), allocatedAddress("nonsense")},
			want:    []string{deletesFinalizer},
		},
		"CIDR-18d, CIDR-31: just deleted":                         {objects: []runtime.Object{with(deleted(is(), 9*time.Second), ready)}},
		"CIDR-18e, CIDR-32: the finalizer goes, the status stays": {objects: []runtime.Object{with(deleted(is(), time.Hour), terminating)}, want: []string{deletesFinalizer}},
		"CIDR-18e: without the finalizer": {objects: []runtime.Object{func() *networkingv1.ServiceCIDR {
			c := deleted(is(), time.Hour)
			c.Finalizers = []string{"other"}
			return c
		}()}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, test.objects...)
			s.MustReconcile(t)
			if diff := cmp.Diff(test.want, sent(t, s)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if events := s.RecordedEvents(); len(events) > 0 {
				t.Errorf("events: %q", events)
			}
		})
	}
}

// The caches lack the only address, or show a range that is gone: the API server is asked before
// the finalizer goes. Pins CIDR-43.
func TestALateCacheLeavesNoAddressWithoutARange(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *subject){
		"an address is not shown": func(t *testing.T, s *subject) {
			if err := s.Fake.Tracker().Add(allocatedAddress("192.168.0.24")); err != nil {
				t.Fatal(err)
			}
		},
		"a range is shown that is gone": func(t *testing.T, s *subject) {
			if err := s.Fake.Tracker().Add(allocatedAddress("192.168.0.24")); err != nil {
				t.Fatal(err)
			}
			s.c.ranges.show(rangeOf(newCIDR("other", "192.168.0.0/16")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cidr := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
			s := newSubjectWithoutCaches(t, cidr)
			s.c.queue = s.Queued
			s.fillCaches(t, cidr)
			change(t, s)
			s.Requests()
			s.MustReconcile(t)
			s.WantRequests(t, "list servicecidrs", "list ipaddresses", "patch servicecidrs/status is")
			if delay := s.Queued.TakeDelay("is"); delay != reconcile.RecheckAfter { // the address may be gone before the cache shows it
				t.Errorf("it is looked at again in %v", delay)
			}
		})
	}
}

// The cache lacks a range that was added to the ServiceCIDR, and that an address needs. Pins CIDR-50.
func TestALateCacheForgetsNoRangeOfItsOwn(t *testing.T) {
	is := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
	s := newSubjectWithoutCaches(t, deleted(newCIDR("is", "192.168.0.0/24", "2001:db2::/64"), time.Hour),
		newAddress("2001:db2::24", corev1.IPv6Protocol, allocator))
	s.Cache(t, is)
	s.MustReconcile(t)
	s.WantRequests(t, "list servicecidrs", "list ipaddresses", "list ipaddresses", "patch servicecidrs/status is")
}

// The request that releases the other one may have been decided before this one was deleted, and be on its way for
// longer than grace. Pins CIDR-53.
func TestARangeThatWasDeletedEarlierIsNotReliedOn(t *testing.T) {
	for name, test := range map[string]struct {
		other    time.Duration // since its deletion
		released bool
	}{
		"it was deleted earlier": {time.Hour, false},
		"it was deleted later":   {15 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), 20*time.Second),
				deleted(newCIDR("later", "192.168.0.0/24"), test.other), allocatedAddress("192.168.0.7"))
			must.Succeed(t, s.Reconcile())
			released := slices.Contains(s.Requests(), "patch servicecidrs is")
			if released != test.released {
				t.Errorf("released: %v", released)
			}
		})
	}
}

// While addresses are listed, the ServiceCIDR that has them too begins to go, relies on this one, and may be gone.
// Pins CIDR-51.
func TestARangeThatGoesMeanwhileIsNotReliedOn(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile func(t *testing.T, s *subject)
		released  bool
	}{
		"it stays": {func(*testing.T, *subject) {}, true},
		"it is being deleted": {func(t *testing.T, s *subject) {
			s.Store(t, deleted(newCIDR("first", "192.168.0.0/28"), 0))
		}, true}, // it does not rely on this one
		"it was deleted before": {func(t *testing.T, s *subject) {
			s.Store(t, deleted(newCIDR("first", "192.168.0.0/28"), 2*time.Hour))
		}, false},
		"it is gone":               {func(t *testing.T, s *subject) { s.Remove(t, newCIDR("first", "192.168.0.0/28")) }, false},
		"another one has its name": {func(t *testing.T, s *subject) { s.Store(t, newCIDR("first", "10.0.0.0/28")) }, false},
		"a further one comes":      {func(t *testing.T, s *subject) { s.Store(t, newCIDR("second", "192.168.0.0/28")) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			is := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
			s := newSubjectWithoutCaches(t, is, newCIDR("first", "192.168.0.0/28"), allocatedAddress("192.168.0.7"))
			s.Cache(t, is)
			s.Intercept("list ipaddresses", func(clienttesting.Action) error {
				test.meanwhile(t, s)
				return nil
			})
			err := s.Reconcile()
			want := []string{deletesFinalizer}
			if !test.released {
				want = nil
			}
			if got := sent(t, s); !slices.Equal(got, want) || reconcile.IsExpected(err) == test.released {
				t.Errorf("sent %q, want %q; the error is %v", got, want, err)
			}
		})
	}
}

// lists counts how often all addresses are listed.
type lists struct {
	cache.GenericLister
	n int
}

// List implements cache.GenericLister.
func (l *lists) List(selector labels.Selector) ([]runtime.Object, error) {
	l.n++
	return l.GenericLister.List(selector)
}

// Each address of the range that comes or goes has its ServiceCIDR reconciled. Pins CIDR-49.
func TestOneAddressIsLookedAtWhileItHoldsTheServiceCIDR(t *testing.T) {
	cidr := deleted(newCIDR("is", "192.168.0.0/24"), time.Hour)
	first := allocatedAddress("192.168.0.24")
	s := newSubject(t, cidr, first)
	cached := s.Informers.MetadataFor(networkingv1.SchemeGroupVersion.WithResource("ipaddresses")).Informer().GetIndexer()
	listed := &lists{GenericLister: s.c.addresses}
	s.c.addresses = listed
	judged := func(want bool, lists int) {
		t.Helper()
		if held := must.Get(s.c.held(rangeOf(cidr)))(t); held != want || listed.n != lists {
			t.Errorf("held: %v, want %v; listed %d times, want %d", held, want, listed.n, lists)
		}
	}
	judged(true, 1)
	must.Succeed(t, cached.Add(metadataOf(allocatedAddress("192.168.0.25"))))
	judged(true, 1)
	must.Succeed(t, cached.Delete(metadataOf(first)))
	judged(true, 2)
	judged(true, 2)
	s.c.ranges.show(rangeOf(newCIDR("other", "192.168.0.16/28"))) // which has it too
	judged(false, 3)
	s.c.ranges.delete("other")
	judged(true, 4)
	must.Succeed(t, cached.Update(metadataOf(newAddress("192.168.0.25", corev1.IPv4Protocol, "example.com"))))
	judged(false, 5)
	must.Succeed(t, cached.Update(metadataOf(allocatedAddress("192.168.0.25"))))
	judged(true, 6)
	s.EmptyCache(t, cidr, "100")
	s.MustReconcile(t)
	if len(s.c.holders.byCIDR) > 0 {
		t.Errorf("of one that is gone it is known that %v", s.c.holders.byCIDR)
	}
}

// Pins CIDR-40.
func TestRequestsOfADeletion(t *testing.T) {
	s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), time.Hour), newCIDR("other", "192.168.0.0/16"))
	s.MustReconcile(t)
	s.WantRequests(t, "list servicecidrs", "patch servicecidrs is")
}

// Pins CIDR-18d, CIDR-24, CIDR-34 and CIDR-38.
func TestADeletionIsJudgedAgainAfterTheGracePeriod(t *testing.T) {
	s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), 4*time.Second))
	s.Run(t, s.c)
	controllertest.Eventually(t, "it has been judged", func() bool { return s.c.loop.Inspect().Reconciled > 0 })
	s.AwaitIdle(t)
	if got := sent(t, s); len(got) > 0 {
		t.Errorf("requests before the grace period ended: %q", got)
	}
	s.Clock.Step(6*time.Second + time.Millisecond)
	controllertest.Eventually(t, "the finalizer is deleted", func() bool { return slices.Equal(sent(t, s), []string{deletesFinalizer}) })
}

// The clock is behind that of the API server, and may be set right while the grace period lasts. Pins CIDR-52.
func TestTheGracePeriodIsLookedAtAgain(t *testing.T) {
	s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), -24*time.Hour))
	s.c.queue = s.Queued
	s.MustReconcile(t)
	s.WantRequests(t)
	if delay := s.Queued.TakeDelay("is"); delay != grace {
		t.Errorf("it is looked at again in %v", delay)
	}
}

// A webhook is broken for a while, after which no event may follow for a day. Until then nothing would guard the
// ServiceCIDR, or let it go. Pins CIDR-48.
func TestAServiceCIDRIsNeverGivenUp(t *testing.T) {
	for name, cidr := range map[string]*networkingv1.ServiceCIDR{
		"without a finalizer": controllertest.Changed(newCIDR("is", "192.168.0.0/24"), func(c *networkingv1.ServiceCIDR) { c.Finalizers = nil }),
		"being deleted":       deleted(newCIDR("is", "192.168.0.0/24"), time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, cidr)
			allow := s.Refuse("patch servicecidrs is", errors.New("the webhook is broken"))
			s.Run(t, s.c)
			s.EventuallyAsTimePasses(t, "it has failed often", time.Minute, func() bool { return s.c.loop.Retries("is") > 20 })
			allow()
			s.Fake.ClearActions()
			s.EventuallyAsTimePasses(t, "the finalizers are patched", time.Minute, func() bool { return len(sent(t, s)) > 0 })
		})
	}
}

// Pins CIDR-13, CIDR-19b and CIDR-22.
func TestAStatusThatCannotBeWrittenIsAnEvent(t *testing.T) {
	s := newSubject(t, newCIDR("is", "192.168.0.0/24"))
	boom := errors.New("boom")
	s.Refuse("patch servicecidrs/status", boom)
	if err := s.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	s.WantEvents(t, "Warning KubernetesServiceCIDRError The ServiceCIDR Status can not be set to Ready=True")

	s = newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), time.Hour), allocatedAddress("192.168.0.24"))
	s.Refuse("patch servicecidrs/status", boom)
	if err := s.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	s.WantEvents(t)
}

// Pins CIDR-14, CIDR-19a and CIDR-45.
func TestErrorsOfThePatchOfTheFinalizer(t *testing.T) {
	boom := errors.New("boom")
	resource := networkingv1.Resource("servicecidrs")
	conflict := apierrors.NewConflict(resource, "is", boom)
	for name, test := range map[string]struct {
		err, want error
		requests  []string
	}{
		"conflict": {conflict, conflict, []string{"patch servicecidrs is"}},
		"another":  {boom, boom, []string{"patch servicecidrs is"}},
	} {
		t.Run(name, func(t *testing.T) {
			cidr := newCIDR("is", "192.168.0.0/24")
			cidr.Finalizers = nil
			s := newSubject(t, cidr)
			s.Refuse("patch servicecidrs is", test.err)
			if err := s.Reconcile(); !errors.Is(err, test.want) {
				t.Errorf("error is %v", err)
			} else if reconcile.IsExpected(err) != apierrors.IsConflict(err) {
				t.Errorf("error is %v, want a requeue just for a conflict", err)
			}
			s.WantRequests(t, test.requests...)
			s.WantEvents(t)
		})
	}
}

// The API server may say so because of an admission webhook: the cache shows whether a ServiceCIDR is gone. Pins
// CIDR-47.
func TestAPatchDoesNotProveThatAServiceCIDRIsGone(t *testing.T) {
	unprotected := newCIDR("is", "192.168.0.0/24")
	unprotected.Finalizers = nil
	shown := unprotected.DeepCopy()
	shown.Status.Conditions = []metav1.Condition{ready}
	for name, cidr := range map[string]*networkingv1.ServiceCIDR{
		"adding the finalizer":                      unprotected,
		"adding the finalizer to one that is ready": shown,
		"removing the finalizer":                    deleted(newCIDR("is", "192.168.0.0/24"), time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, cidr)
			s.c.queue = s.Queued
			s.Refuse("patch servicecidrs is", apierrors.NewNotFound(networkingv1.Resource("servicecidrs"), "is"))
			for range 2 {
				s.MustReconcile(t)
				if writes := s.WriteVerbs(); !slices.Equal(writes, []string{"patch"}) {
					t.Errorf("sent %q", writes)
				}
				if delay := s.Queued.TakeDelay("is"); delay != reconcile.RecheckAfter {
					t.Errorf("it is looked at again in %v", delay)
				}
				s.Requests()
			}
			s.WantEvents(t)
			s.Uncache(t, cidr)
			s.MustReconcile(t)
			s.WantRequests(t)
			s.Queued.Want(t)
		})
	}
}

// A list that fails does not let a range go. Pins CIDR-43.
func TestAFailedListLetsNothingGo(t *testing.T) {
	boom := errors.New("boom")
	for _, refused := range []string{"list servicecidrs", "list ipaddresses"} {
		s := newSubject(t, deleted(newCIDR("is", "192.168.0.0/24"), time.Hour))
		s.Refuse(refused, boom)
		if err := s.Reconcile(); !errors.Is(err, boom) {
			t.Errorf("error is %v", err)
		}
		if got := sent(t, s); len(got) > 0 {
			t.Errorf("requests after a failed %s: %q", refused, got)
		}
	}
}

// Pins CIDR-6, CIDR-7, CIDR-27, CIDR-41 and CIDR-44.
func TestEventsQueueWhatTheyMayChange(t *testing.T) {
	is, going := newCIDR("is", "192.168.0.0/24"), deleted(newCIDR("going", "192.168.0.0/16"), 0)
	other := newCIDR("other", "10.0.0.0/8")
	for name, test := range map[string]struct {
		event func(*cidrController)
		want  []string
	}{
		"a new range, and what it overlaps with": {func(c *cidrController) { c.addCIDR(reconcile.Fresh, newCIDR("new", "192.168.0.0/20")) }, []string{"going", "is", "new"}},
		"an update":                              {func(c *cidrController) { c.updateCIDR(reconcile.Fresh, is, is) }, []string{"is"}},
		"CIDR-46: a range that has grown":        {func(c *cidrController) { c.updateCIDR(reconcile.Fresh, newCIDR("is", "192.168.1.0/24"), is) }, []string{"going", "is"}},
		"CIDR-46: a range that was recreated": {func(c *cidrController) {
			c.updateCIDR(reconcile.Fresh, controllertest.Changed(is.DeepCopy(), func(cidr *networkingv1.ServiceCIDR) { cidr.UID = "another" }), is)
		}, []string{"going", "is"}},
		"a range that is gone":        {func(c *cidrController) { c.deleteCIDR(is) }, []string{"is"}},
		"a new address":               {func(c *cidrController) { c.addAddress(reconcile.Fresh, metadataOf(allocatedAddress("192.168.0.7"))) }, []string{"going"}},
		"an address of the cache":     {func(c *cidrController) { c.addAddress(reconcile.Backlog, metadataOf(allocatedAddress("192.168.0.7"))) }, nil},
		"an address that is gone":     {func(c *cidrController) { c.addressChanged(metadataOf(allocatedAddress("192.168.0.7"))) }, []string{"going"}},
		"an address of no such range": {func(c *cidrController) { c.addressChanged(metadataOf(allocatedAddress("10.0.0.7"))) }, nil},
		"an address of another manager": {func(c *cidrController) {
			c.addressChanged(metadataOf(newAddress("192.168.0.7", corev1.IPv4Protocol, "example.com")))
		}, nil},
		"an address without a family": {func(c *cidrController) { c.addressChanged(metadataOf(newAddress("192.168.0.7", "", allocator))) }, []string{"going"}},
		"what is no address":          {func(c *cidrController) { c.addressChanged(metadataOf(allocatedAddress("nonsense"))) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			c, err := newController(env.Env, config{})
			if err != nil {
				t.Fatal(err)
			}
			for _, cidr := range []*networkingv1.ServiceCIDR{is, going, other} {
				c.ranges.show(rangeOf(cidr))
			}
			queued := &controllertest.Queue[string]{}
			c.queue = queued
			test.event(c)
			queued.WantInAnyOrder(t, test.want...)
		})
	}
}

func metadataOf(address *networkingv1.IPAddress) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: address.ObjectMeta}
}

// Pins CIDR-1, CIDR-2, CIDR-4, CIDR-15 and CIDR-23.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "service-cidr-controller" || d.ServiceAccount != "service-cidrs-controller" || len(d.Aliases) != 0 || d.EventSource != d.Name || d.Gate != "MultiCIDRServiceAllocator" {
		t.Errorf("%+v", d)
	}
	s := newSubject(t)
	if l := s.c.loop.Inspect(); l.Queue != "ipaddresses" || l.Workers != 5 {
		t.Errorf("%+v", l)
	}
}

// Pins CIDR-5.
func TestNoIndexIsAdded(t *testing.T) {
	env := controllertest.New(t)
	cidrs := env.Informers.Networking().V1().ServiceCIDRs().Informer()
	addresses := env.Informers.MetadataFor(networkingv1.SchemeGroupVersion.WithResource("ipaddresses")).Informer()
	before := [][]string{indexes(cidrs), indexes(addresses)}
	if _, err := newController(env.Env, config{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, [][]string{indexes(cidrs), indexes(addresses)}); diff != "" {
		t.Errorf("indexes (-before +after):\n%s", diff)
	}
}

func indexes(informer cache.SharedIndexInformer) []string {
	return slices.Sorted(maps.Keys(informer.GetIndexer().GetIndexers()))
}

// The workers wait for the caches of ServiceCIDRs and of addresses.
func TestWorkBeginsWithCompleteCaches(t *testing.T) {
	for name, serverOf := range map[string]func(*controllertest.Env) *clienttesting.Fake{
		"CIDR-8: servicecidrs": func(env *controllertest.Env) *clienttesting.Fake { return &env.Fake.Fake },
		"CIDR-8: ipaddresses": func(env *controllertest.Env) *clienttesting.Fake {
			return &env.Metadata.(*metadatafake.FakeMetadataClient).Fake
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t, newCIDR("is", "192.168.0.0/24"))
			_, resource, _ := strings.Cut(name, ": ")
			var refused atomic.Int32
			var allowed atomic.Bool
			serverOf(env).PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				if allowed.Load() {
					return false, nil, nil
				}
				refused.Add(1)
				return true, nil, errors.New("not yet")
			})
			c, err := newController(env.Env, config{})
			if err != nil {
				t.Fatal(err)
			}
			env.Informers.StartWithContext(env.Context())
			env.Run(t, c)
			controllertest.Eventually(t, "a list has failed", func() bool { return refused.Load() > 0 })
			await.Stays(t, "nothing is worked on", 50*time.Millisecond, func(context.Context) error {
				if l := c.loop.Inspect(); !l.Began.IsZero() {
					return fmt.Errorf("it began at %v", l.Began)
				}
				return nil
			})
			allowed.Store(true)
			controllertest.Eventually(t, "the ServiceCIDR is ready", func() bool { return c.loop.Inspect().Reconciled > 0 })
		})
	}
}
