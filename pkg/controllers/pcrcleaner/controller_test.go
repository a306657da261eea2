package pcrcleaner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// now is when controllertest's clocks start.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pcr is the metadata of a request that is as old as this.
func pcr(name string, age time.Duration) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1beta1", Kind: "PodCertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(now.Add(-age))},
	}
}

func TestIsDue(t *testing.T) {
	deleted := pcr("a", 16*time.Minute)
	deleted.DeletionTimestamp, deleted.Finalizers = &deleted.CreationTimestamp, []string{"example.com/a"}
	for name, tc := range map[string]struct {
		pcr  *metav1.PartialObjectMetadata
		want bool
	}{
		"PCR-9: younger":                     {pcr("a", 15*time.Minute-time.Second), false},
		"PCR-9, PCR-13, PCR-14: 15 min old":  {pcr("a", 15*time.Minute), true},
		"PCR-9: older":                       {pcr("a", 15*time.Minute+time.Second), true},
		"PCR-11, PCR-17: being deleted":      {deleted, true},
		"PCR-16: created in the future":      {pcr("a", -time.Hour), false},
		"PCR-11: its state is not even read": {pcr("a", time.Hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isDue(tc.pcr, now); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// start makes a cleaner with these requests in its cache.
func start(t *testing.T, requests ...*metav1.PartialObjectMetadata) (*controllertest.Env, *cleaner) {
	t.Helper()
	env := controllertest.New(t)
	c, err := newCleaner(env.Env)
	must.Succeed(t, err)
	for _, r := range requests {
		must.Succeed(t, env.Informers.MetadataFor(resource).Informer().GetIndexer().Add(r))
		must.Succeed(t, env.Fake.Tracker().Add(&certificatesv1beta1.PodCertificateRequest{ObjectMeta: r.ObjectMeta}))
	}
	return env, c
}

// Pins PCR-6, PCR-8, PCR-10, PCR-12 and PCR-20.
func TestAPassDeletesWhatIsDueWithOneRequestEach(t *testing.T) {
	env, c := start(t, pcr("old", time.Hour), pcr("new", time.Minute))
	c.pass(t.Context(), t.Context())
	writes := env.Writes()
	if len(writes) != 1 || !writes[0].Matches("delete", "podcertificaterequests") || writes[0].GetNamespace() != "ns" || writes[0].GetResource().Version != "v1beta1" {
		t.Fatalf("requests: %v", writes)
	}
	d := writes[0].(clienttesting.DeleteActionImpl)
	if d.Name != "old" || *d.DeleteOptions.Preconditions.UID != "uid-of-old" || d.DeleteOptions.Preconditions.ResourceVersion != nil || d.DeleteOptions.PropagationPolicy != nil {
		t.Errorf("%+v", d)
	}
	if len(env.RecordedEvents()) > 0 {
		t.Error("there are events")
	}
}

func TestWhatCannotBeDeleted(t *testing.T) {
	group := certificatesv1beta1.Resource("podcertificaterequests")
	for name, tc := range map[string]struct {
		refusal error
		logged  string
	}{
		"PCR-10: gone":          {apierrors.NewNotFound(group, "a"), ""},
		"PCR-10: replaced":      {apierrors.NewConflict(group, "a", errors.New("the UID differs")), `unable to delete PodCertificateRequest \"ns/a\": Operation cannot be fulfilled`},
		"PCR-10: anything else": {errors.New("boom"), `unable to delete PodCertificateRequest \"ns/a\": boom`},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, pcr("a", time.Hour), pcr("b", time.Hour))
			env.Fake.PrependReactor("delete", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return action.(clienttesting.DeleteAction).GetName() == "a", nil, tc.refusal
			})
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			c.pass(klog.NewContext(t.Context(), logger), t.Context())
			if got := len(env.Writes()); got != 2 {
				t.Errorf("%d requests: the pass ends early", got)
			}
			log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
			if got := strings.Count(log, "Error while attempting to clean PodCertificateRequest"); (got == 1) != (tc.logged != "") || !strings.Contains(log, tc.logged) {
				t.Errorf("log:\n%s", log)
			}
		})
	}
}

// Pins PCR-4, PCR-7, PCR-13, PCR-19 and PCR-22.
func TestAPassAtTheStartAndFiveMinutesAfterTheLast(t *testing.T) {
	env, c := start(t)
	informer := env.Informers.MetadataFor(resource).Informer()
	env.Start(t)
	must.Succeed(t, informer.GetIndexer().Add(pcr("old", time.Hour)))
	must.Succeed(t, informer.GetIndexer().Add(pcr("next", 11*time.Minute)))
	env.Run(t, c)
	deletes := func(n int) func() bool { return func() bool { return len(env.Writes()) == n } }
	controllertest.Eventually(t, "the pass at the start", deletes(1))
	must.Succeed(t, informer.GetIndexer().Delete(pcr("old", time.Hour)))
	controllertest.Eventually(t, "it waits", env.Clock.HasWaiters)
	env.Clock.Step(5*time.Minute - time.Second)
	if !env.Clock.HasWaiters() || !deletes(1)() {
		t.Error("there is a pass before five minutes are over")
	}
	env.Clock.Step(time.Second)
	controllertest.Eventually(t, "the pass after five minutes", deletes(2))
}

// No request is begun with once the controller is to stop. Pins PCR-22.
func TestAPassEndsWithTheController(t *testing.T) {
	env, c := start(t)
	for n := range 5 {
		must.Succeed(t, env.Informers.MetadataFor(resource).Informer().GetIndexer().Add(pcr(fmt.Sprint("pcr-", n), time.Hour)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	env.Fake.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, nil
	})
	c.pass(ctx, t.Context())
	if got := len(env.Writes()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// Pins PCR-1, PCR-2, PCR-3, PCR-4 and PCR-21.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, why := d.Enabled(cfg); enabled || why != "needs the feature gate PodCertificateRequest" {
		t.Errorf("enabled %v: %s", enabled, why)
	}
	cfg.FeatureGates = map[string]bool{"PodCertificateRequest": true}
	if enabled, why := d.Enabled(cfg); !enabled {
		t.Error(why)
	}
	if whole := d.Whole(d.Value(cfg)); len(whole) > 0 {
		t.Errorf("caches %v whole", whole)
	}
	if d.Name != "podcertificaterequest-cleaner-controller" || len(d.Aliases) != 0 || d.ServiceAccount != "podcertificaterequestcleaner" || d.EventSource != "" ||
		d.Requires[0].String() != "certificates.k8s.io/v1beta1, Resource=podcertificaterequests" {
		t.Errorf("%+v", d)
	}
}

func TestRequestsInAPausedNamespaceAreKept(t *testing.T) {
	env, c := start(t, pcr("old", time.Hour))
	env.Pauses.Set([]string{"ns"})
	if c.pass(t.Context(), t.Context()); len(env.Writes()) != 0 {
		t.Errorf("requests while paused: %v", env.Writes())
	}
	env.Pauses.Set(nil)
	if c.pass(t.Context(), t.Context()); len(env.Writes()) != 1 {
		t.Errorf("requests when resumed: %v", env.Writes())
	}
}
