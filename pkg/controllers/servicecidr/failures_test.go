package servicecidr

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

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

// A request that is cut off says nothing about the ServiceCIDR. Pins CIDR-55.
func TestAStatusThatIsCutOffIsNoEvent(t *testing.T) {
	s := newSubject(t, newCIDR("is", "192.168.0.0/24"))
	ctx, end := context.WithCancel(s.Context())
	s.Intercept("patch servicecidrs/status", func(clienttesting.Action) error {
		end()
		return context.Canceled
	})
	if err := s.Work(ctx, "is"); err == nil {
		t.Error("it succeeds")
	}
	s.WantEvents(t)
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
