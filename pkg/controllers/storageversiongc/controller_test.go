package storageversiongc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// newLease is the identity of an API server, unless it has another value of the label.
func newLease(name string, value ...string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{identityLabel: identityValue}}}
	for _, v := range value {
		lease.Labels[identityLabel] = v
	}
	return lease
}

// newStorageVersion has an entry for each "server=version".
func newStorageVersion(entries ...string) *apiserverinternalv1alpha1.StorageVersion {
	sv := &apiserverinternalv1alpha1.StorageVersion{ObjectMeta: metav1.ObjectMeta{Name: "apps.deployments", UID: "uid", ResourceVersion: "7", Generation: 1}}
	for _, entry := range entries {
		id, version, _ := strings.Cut(entry, "=")
		sv.Status.StorageVersions = append(sv.Status.StorageVersions, apiserverinternalv1alpha1.ServerStorageVersion{APIServerID: id, EncodingVersion: version, DecodableVersions: []string{version}})
	}
	return sv
}

// subject is a collector that is reconciled by calls.
type subject struct {
	*controllertest.Env
	c *collector
}

// newSubject makes a collector whose caches show what the API server holds.
func newSubject(t *testing.T, objects ...runtime.Object) *subject {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newCollector(env.Env))(t)
	env.Start(t)
	env.Requests()
	return &subject{Env: env, c: c}
}

// shown are the entries of the StorageVersion, its common version and its condition.
func (s *subject) shown(t *testing.T) []string {
	t.Helper()
	sv, ok := controllertest.Stored[*apiserverinternalv1alpha1.StorageVersion](t, s.Env, "", "apps.deployments")
	if !ok {
		return []string{"deleted"}
	}
	var all []string
	for _, entry := range sv.Status.StorageVersions {
		all = append(all, entry.APIServerID+"="+entry.EncodingVersion)
	}
	if sv.Status.CommonEncodingVersion != nil {
		all = append(all, "common "+*sv.Status.CommonEncodingVersion)
	}
	for _, c := range sv.Status.Conditions {
		all = append(all, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
		if c.ObservedGeneration != sv.Generation {
			t.Errorf("the condition is of generation %d", c.ObservedGeneration)
		}
	}
	return all
}

const (
	isCommon  = "AllEncodingVersionsEqual=True CommonEncodingVersionSet: Common encoding version set"
	notCommon = "AllEncodingVersionsEqual=False CommonEncodingVersionUnset: Common encoding version unset"
	update    = "update storageversions/status apps.deployments"
	remove    = "delete storageversions apps.deployments"
	get       = "get storageversions apps.deployments"
	list      = "list storageversions"
)

// Pins SVGC-8, SVGC-9, SVGC-10, SVGC-11, SVGC-15 and SVGC-24.
func TestReconcileLease(t *testing.T) {
	former := newStorageVersion("a=v1", "b=v2", "c=v2")
	former.Status.CommonEncodingVersion = new(string)
	*former.Status.CommonEncodingVersion = "v1"
	stale := newStorageVersion("b=v2")
	stale.Status.CommonEncodingVersion = former.Status.CommonEncodingVersion
	for name, test := range map[string]struct {
		sv       *apiserverinternalv1alpha1.StorageVersion
		leases   []runtime.Object
		requests []string
		want     []string
	}{
		"SVGC-42, SVGC-27: the lease is there again": {newStorageVersion("a=v1"), []runtime.Object{newLease("a")}, []string{list, "get leases a"}, []string{"a=v1"}},
		"SVGC-42, SVGC-35: it has lost its label":    {newStorageVersion("a=v1"), []runtime.Object{newLease("a", "other")}, []string{list, "get leases a"}, []string{"a=v1"}},
		"SVGC-17, SVGC-22: its entry goes":           {former, nil, []string{list, "get leases a", update}, []string{"b=v2", "c=v2", "common v2", isCommon}},
		"SVGC-17: no entry of it":                    {stale, nil, []string{list, "get leases a"}, []string{"b=v2", "common v1"}},
		"SVGC-17: no entries at all":                 {newStorageVersion(), nil, []string{list, "get leases a"}, nil},
		"SVGC-22: no entry is left":                  {newStorageVersion("a=v1", "a=v2"), nil, []string{list, "get leases a", remove}, []string{"deleted"}},
		"SVGC-23: the rest disagree":                 {newStorageVersion("b=v1", "a=v1", "c=v2"), nil, []string{list, "get leases a", update}, []string{"b=v1", "c=v2", notCommon}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, append(test.leases, test.sv.DeepCopy())...)
			must.Succeed(t, s.c.reconcileLease(s.Context(), "a"))
			s.WantRequests(t, test.requests...)
			if diff := cmp.Diff(test.want, s.shown(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			s.WantEvents(t)
		})
	}
}

// It comes back while its entry is removed, and writes it. Pins SVGC-42.
func TestAnAPIServerThatComesBackKeepsItsEntry(t *testing.T) {
	s := newSubject(t, newStorageVersion("a=v1"))
	requests := 0
	comesBack := func(clienttesting.Action) error {
		if requests++; requests == 2 {
			s.Store(t, newLease("a"), newStorageVersion("a=v2"))
		}
		return nil
	}
	s.Intercept("get leases a", comesBack)
	s.Intercept(list, comesBack)
	must.Succeed(t, s.c.reconcileLease(s.Context(), "a"))
	if got := s.shown(t); requests != 2 || !slices.Equal(got, []string{"a=v2"}) {
		t.Errorf("after %d requests it is %q", requests, got)
	}
}

// Pins SVGC-8, SVGC-9, SVGC-10, SVGC-11 and SVGC-18.
func TestReconcileStorageVersion(t *testing.T) {
	for name, test := range map[string]struct {
		sv       *apiserverinternalv1alpha1.StorageVersion
		leases   []runtime.Object
		requests []string
		want     []string
	}{
		"SVGC-21: no entries":             {newStorageVersion(), nil, []string{get}, nil},
		"SVGC-36, SVGC-21: all are valid": {newStorageVersion("b=v1"), []runtime.Object{newLease("b")}, []string{get}, []string{"b=v1"}},
		"SVGC-36: an unknown one beside three that disagree": {
			newStorageVersion("b=v1", "a=v1", "c=v2", "d=v1"), []runtime.Object{newLease("b"), newLease("c"), newLease("d")},
			[]string{get, "get leases a", update}, []string{"b=v1", "c=v2", "d=v1", notCommon},
		},
		"SVGC-36: a lease of another kind":                 {newStorageVersion("a=v1"), []runtime.Object{newLease("a", "other")}, []string{get, "get leases a", remove}, []string{"deleted"}},
		"SVGC-22, SVGC-23: one is left":                    {newStorageVersion("a=v1", "b=v2"), []runtime.Object{newLease("b")}, []string{get, "get leases a", update}, []string{"b=v2", "common v2", isCommon}},
		"SVGC-34: two entries of one server: one question": {newStorageVersion("a=v1", "a=v2"), nil, []string{get, "get leases a", remove}, []string{"deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, append(test.leases, test.sv)...)
			must.Succeed(t, s.c.reconcileStorageVersion(s.Context(), "apps.deployments"))
			s.WantRequests(t, test.requests...)
			if diff := cmp.Diff(test.want, s.shown(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			s.WantEvents(t)
		})
	}
}

// What has no lease in the cache may have one. Pins SVGC-36 and SVGC-33.
func TestALeaseThatIsNotCachedYetIsReadLive(t *testing.T) {
	s := newSubject(t, newStorageVersion("a=v1"), newLease("a"))
	must.Succeed(t, s.Informers.Filtered(identities).Coordination().V1().Leases().Informer().GetIndexer().Replace(nil, "1"))
	must.Succeed(t, s.c.reconcileStorageVersion(s.Context(), "apps.deployments"))
	s.WantRequests(t, get, "get leases a")
}

// The lease comes and goes while the watch of leases is broken: no event reports it. Pins SVGC-39.
func TestALeaseThatTheCacheNeverShows(t *testing.T) {
	lease := newLease("a")
	s := newSubject(t, newStorageVersion("a=v1"), lease)
	must.Succeed(t, s.Informers.Filtered(identities).Coordination().V1().Leases().Informer().GetIndexer().Replace(nil, "1"))
	s.c.storageVersions.Add("apps.deployments")
	s.Run(t, s.c)
	controllertest.Eventually(t, "the lease is read", func() bool { return s.c.storageVersions.Inspect().Reconciled > 0 })
	s.Remove(t, lease)
	s.EventuallyAsTimePasses(t, "the StorageVersion is gone", time.Second, func() bool { return slices.Equal(s.shown(t), []string{"deleted"}) })
}

// A lease that was deleted is there again, and goes while the watch of leases is broken: no event reports it.
func TestALeaseThatIsThereAgain(t *testing.T) {
	for name, test := range map[string]struct {
		lease  *coordinationv1.Lease
		cached bool
		again  bool // whether it is looked at once more
	}{
		"SVGC-40: the cache does not show it": {newLease("a"), false, true},
		"SVGC-16: the cache shows it":         {newLease("a"), true, false},
		"SVGC-35: the cache never will":       {newLease("a", "other"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, newStorageVersion("a=v1"), test.lease)
			if !test.cached {
				must.Succeed(t, s.Informers.Filtered(identities).Coordination().V1().Leases().Informer().GetIndexer().Replace(nil, "1"))
			}
			must.Succeed(t, s.c.reconcileLease(s.Context(), "a"))
			keys := s.c.leases.Keys(func(string) bool { return true })
			if !test.again && len(keys) == 0 {
				return
			}
			if due := s.Clock.Now().Add(reconcile.RecheckAfter); len(keys) != 1 || !test.again || keys[0].Key != "a" || !keys[0].Until.Equal(due) {
				t.Errorf("waiting are %+v", keys)
			}
		})
	}
}

// An admission webhook may answer so although the StorageVersion exists, and no event follows. Pins SVGC-41.
func TestNotFoundOfADeleteDoesNotProveThatAStorageVersionIsGone(t *testing.T) {
	s := newSubject(t, newStorageVersion("a=v1"))
	s.RefuseIf("delete storageversions", apierrors.NewNotFound(schema.GroupResource{}, ""), func(n int) bool { return n == 1 })
	s.Run(t, s.c)
	s.EventuallyAsTimePasses(t, "it is deleted", time.Second, func() bool { return slices.Equal(s.shown(t), []string{"deleted"}) })
}

// The loss of an API server concerns every StorageVersion; its lease is read once a second.
// Pins SVGC-34 and SVGC-36.
func TestAnAnswerIsUsedAgainForASecond(t *testing.T) {
	s := newSubject(t)
	ask := func(want bool, requests ...string) {
		t.Helper()
		if got := must.Get(s.c.servers.valid(s.Context(), "a"))(t); got != want {
			t.Errorf("valid: %v", got)
		}
		s.WantRequests(t, requests...)
	}
	ask(false, "get leases a")
	s.Clock.Step(time.Second - 1)
	ask(false)
	must.Succeed(t, s.Informers.Filtered(identities).Coordination().V1().Leases().Informer().GetIndexer().Add(newLease("a")))
	ask(true)
	must.Succeed(t, s.Informers.Filtered(identities).Coordination().V1().Leases().Informer().GetIndexer().Replace(nil, "1"))
	s.Clock.Step(1)
	ask(false, "get leases a")
	s.Clock.Step(time.Minute)
	must.Get(s.c.servers.valid(s.Context(), "b"))(t)
	if len(s.c.servers.invalid) != 1 {
		t.Errorf("remembers %v", s.c.servers.invalid)
	}
}

// Pins SVGC-13 and SVGC-15.
func TestWhatFailsIsRetried(t *testing.T) {
	boom := errors.New("boom")
	group := schema.GroupResource{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}
	lease := func(s *subject) error { return s.c.reconcileLease(s.Context(), "a") }
	storageVersion := func(s *subject) error { return s.c.reconcileStorageVersion(s.Context(), "apps.deployments") }
	for name, test := range map[string]struct {
		refused string
		with    error
		work    func(*subject) error
		err     string
		want    []string
	}{
		"SVGC-16: reading the lease":               {"get leases a", boom, lease, "reading lease a of an API server: boom", []string{"a=v1", "b=v1"}},
		"SVGC-17: listing":                         {list, boom, lease, "listing StorageVersions: boom", []string{"a=v1", "b=v1"}},
		"SVGC-17, SVGC-22: updating":               {update, boom, lease, "updating the status of StorageVersion apps.deployments: boom", []string{"a=v1", "b=v1"}},
		"SVGC-19: reading the StorageVersion":      {get, boom, storageVersion, "reading StorageVersion apps.deployments: boom", []string{"a=v1", "b=v1"}},
		"SVGC-19: it is gone":                      {get, apierrors.NewNotFound(group, ""), storageVersion, "", []string{"a=v1", "b=v1"}},
		"SVGC-36: an unclear answer drops nothing": {"get leases a", boom, storageVersion, "reading lease a of an API server: boom", []string{"a=v1", "b=v1"}},
		"SVGC-22, SVGC-26: a conflict":             {update, apierrors.NewConflict(group, "", boom), storageVersion, "Operation cannot be fulfilled", []string{"a=v1", "b=v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, newStorageVersion("a=v1", "b=v1"), newLease("b"))
			s.Refuse(test.refused, test.with)
			err := test.work(s)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error is %v", err)
			}
			if got := s.shown(t); !slices.Equal(got, test.want) {
				t.Errorf("it is %q", got)
			}
		})
	}
}

// Pins SVGC-17.
func TestOneFailureDoesNotKeepOthersFromBeingWritten(t *testing.T) {
	other := newStorageVersion("a=v1")
	other.Name = "apps.another"
	s := newSubject(t, other, newStorageVersion("a=v1", "b=v1"), newLease("b"))
	boom := errors.New("boom")
	s.Refuse("delete storageversions apps.another", boom)
	if err := s.c.reconcileLease(s.Context(), "a"); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	if got := s.shown(t); got[0] != "b=v1" {
		t.Errorf("the next is %q", got)
	}
}

// Pins SVGC-22, SVGC-28 and SVGC-37.
func TestOnlyTheVersionThatWasReadIsDeleted(t *testing.T) {
	s := newSubject(t, newStorageVersion("a=v1"))
	must.Succeed(t, s.c.reconcileStorageVersion(s.Context(), "apps.deployments"))
	p := s.Writes()[0].(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
	if *p.UID != "uid" || *p.ResourceVersion != "7" {
		t.Errorf("preconditions are %+v", p)
	}
	s = newSubject(t, newStorageVersion("a=v1"))
	s.Refuse("delete storageversions", apierrors.NewNotFound(schema.GroupResource{}, ""))
	must.Succeed(t, s.c.reconcileLease(s.Context(), "a"))
}

// run runs a collector.
func run(t *testing.T, objects ...runtime.Object) *subject {
	t.Helper()
	s := newSubject(t, objects...)
	s.Run(t, s.c)
	s.AwaitIdle(t)
	return s
}

// Pins SVGC-7, SVGC-38, SVGC-29 and SVGC-33.
func TestWhatChangedWhileNobodyLookedIsFoundAtTheStart(t *testing.T) {
	s := run(t, newStorageVersion("b=v1", "a=v1"), newLease("b"))
	controllertest.Eventually(t, "the unknown API server is removed", func() bool { return s.shown(t)[0] == "b=v1" && len(s.shown(t)) == 3 })
}

// Pins SVGC-35, SVGC-7 and SVGC-31.
func TestTheDeletionOfALeaseRemovesItsServer(t *testing.T) {
	a, b := newLease("a"), newLease("b")
	s := run(t, newStorageVersion("a=v1", "b=v2"), a, b)
	s.Requests() // a StorageVersion that is seen before the leases are is examined
	s.Remove(t, a)
	controllertest.Eventually(t, "its entry is gone", func() bool { return slices.Equal(s.shown(t), []string{"b=v2", "common v2", isCommon}) })
	s.Remove(t, b)
	controllertest.Eventually(t, "nothing is left", func() bool { return slices.Equal(s.shown(t), []string{"deleted"}) })
}

// Pins SVGC-7.
func TestAnUpdateIsExamined(t *testing.T) {
	s := run(t, newStorageVersion("a=v1"), newLease("a"))
	s.Store(t, newStorageVersion("a=v1", "b=v1"))
	controllertest.Eventually(t, "the unknown API server is removed", func() bool { return slices.Equal(s.shown(t), []string{"a=v1", "common v1", isCommon}) })
}

// Pins SVGC-13 and SVGC-25.
func TestAFailedKeyIsTriedAgain(t *testing.T) {
	s := newSubject(t, newStorageVersion("a=v1"))
	s.RefuseIf("delete storageversions", context.DeadlineExceeded, func(n int) bool { return n == 1 })
	s.Run(t, s.c)
	s.EventuallyAsTimePasses(t, "it is deleted", time.Millisecond, func() bool { return slices.Equal(s.shown(t), []string{"deleted"}) })
	want := []string{"name=storage_version_garbage_collector_leases 0", "name=storage_version_garbage_collector_storageversions 1"}
	if got := s.Series(t, "workqueue_retries_total"); !slices.Equal(got, want) {
		t.Errorf("retries are %q", got)
	}
}

// Pins SVGC-1, SVGC-38, SVGC-3, SVGC-4, SVGC-5 and SVGC-35.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, why := d.Enabled(cfg); enabled || why != "needs the feature gate StorageVersionAPI" {
		t.Errorf("enabled %v: %s", enabled, why)
	}
	cfg.FeatureGates = map[string]bool{"StorageVersionAPI": true}
	if enabled, why := d.Enabled(cfg); !enabled {
		t.Error(why)
	}
	if whole := d.Whole(d.Value(cfg)); len(whole) != 1 || whole[0].Resource != "storageversions" {
		t.Errorf("caches %v whole", whole)
	}
	if d.Name != "storageversion-garbage-collector-controller" || !slices.Equal(d.Aliases, []string{"storage-version-gc"}) || d.EventSource != "" ||
		d.ServiceAccount != "storage-version-garbage-collector" || d.Limits.QPS != 0 {
		t.Errorf("%+v", d)
	}
}
