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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
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
		"CIDR-54: a range that has got the finalizer": {func(c *cidrController) {
			c.updateCIDR(reconcile.Fresh, controllertest.Changed(is.DeepCopy(), func(cidr *networkingv1.ServiceCIDR) { cidr.Finalizers = nil }), is)
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
			c := must.Get(newController(env.Env))(t)
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
	if _, err := newController(env.Env); err != nil {
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
			c := must.Get(newController(env.Env))(t)
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
