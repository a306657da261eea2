package clustertrustbundle

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var resource = certificatesv1beta1.Resource("clustertrustbundles")

// certificate is a bundle in PEM.
func certificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := must.Get(cert.NewSelfSignedCACert(cert.Config{CommonName: "ca"}, key))(t)
	pem, err := cert.EncodeCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	return pem
}

func bundle(name, signer, trust string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Labels: map[string]string{"kept": "too"}},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: trust},
	}
}

func start(t testing.TB, pem []byte, objects ...runtime.Object) (*controllertest.Env, *publisher) {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.ClusterCA, env.Chosen = pem, Descriptor().Alternatives[0]
	p := must.Get(newPublisher(env.Env, config{}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, p
}

// requests are the requests made, as "verb version name", with the content that was sent.
func requests(env *controllertest.Env) []string {
	var all []string
	for _, action := range env.Fake.Actions() {
		name := ""
		switch a := action.(type) {
		case clienttesting.DeleteActionImpl:
			name = a.Name
		case clienttesting.CreateActionImpl:
			name = sent(a.Object)
		case clienttesting.UpdateActionImpl:
			name = sent(a.Object)
		}
		all = append(all, fmt.Sprintf("%s %s %s", action.GetVerb(), action.GetResource().Version, name))
	}
	return all
}

func sent(object runtime.Object) string {
	switch b := object.(type) {
	case *certificatesv1beta1.ClusterTrustBundle:
		return fmt.Sprintf("%s for %s: %q rv %q", b.Name, b.Spec.SignerName, b.Spec.TrustBundle, b.ResourceVersion)
	case *certificatesv1alpha1.ClusterTrustBundle:
		return fmt.Sprintf("%s for %s: %q rv %q", b.Name, b.Spec.SignerName, b.Spec.TrustBundle, b.ResourceVersion)
	}
	return fmt.Sprintf("a %T", object)
}

func TestReconcileRequests(t *testing.T) {
	pem := certificate(t)
	name, trust := nameOf(pem), string(pem)
	foreign, signerless := bundle("example.com:foo:x", "example.com/foo", "other"), bundle("mine", "", "other")
	extra := bundle("kubernetes.io:kube-apiserver-serving:testname", signerName, trust)
	create := fmt.Sprintf("create v1beta1 %s for %s: %q rv %q", name, signerName, trust, "")
	update := fmt.Sprintf("update v1beta1 %s for %s: %q rv %q", name, signerName, trust, "7")
	remove := "delete v1beta1 " + extra.Name
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    []string
	}{
		"CTB-13a: nothing there":                         {nil, []string{create}},
		"CTB-27: only foreign ones":                      {[]runtime.Object{foreign, signerless}, []string{create}},
		"CTB-13b: old content":                           {[]runtime.Object{bundle(name, signerName, "old")}, []string{update}},
		"CTB-14: an extra one":                           {[]runtime.Object{bundle(name, signerName, trust), extra}, []string{remove}},
		"CTB-16: old content and an extra one":           {[]runtime.Object{bundle(name, signerName, "old"), extra}, []string{update, remove}},
		"CTB-16: only one with another name":             {[]runtime.Object{extra}, []string{create, remove}},
		"CTB-13c, CTB-27, CTB-30: all is as it is to be": {[]runtime.Object{bundle(name, signerName, trust), foreign, signerless}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			env, p := start(t, pem, test.objects...)
			if err := p.reconcile(env.Context(), key); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, requests(env)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// The content alone is changed, and not in the cache. Pins CTB-13b.
func TestAnUpdateKeepsTheRest(t *testing.T) {
	pem := certificate(t)
	before := bundle(nameOf(pem), signerName, "old")
	env, p := start(t, pem, before)
	env.Fake.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	if err := p.reconcile(env.Context(), key); err != nil {
		t.Fatal(err)
	}
	want := before.DeepCopy()
	want.Spec.TrustBundle = string(pem)
	if diff := cmp.Diff(want, env.Fake.Actions()[0].(clienttesting.UpdateActionImpl).Object); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{before.Name: "old"}, p.bundles.existing()); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
}

// Pins CTB-5 and CTB-31.
func TestTheVersionThatIsServedIsUsed(t *testing.T) {
	pem := certificate(t)
	for _, chosen := range Descriptor().Alternatives {
		t.Run(chosen.Version, func(t *testing.T) {
			env := controllertest.New(t)
			env.ClusterCA, env.Chosen = pem, chosen
			p := must.Get(newPublisher(env.Env, config{}))(t)
			env.Start(t)
			for _, action := range env.Fake.Actions() {
				if list, ok := action.(clienttesting.ListActionImpl); ok && list.ListOptions.FieldSelector != "spec.signerName=kubernetes.io/kube-apiserver-serving" {
					t.Errorf("it lists by %q", list.ListOptions.FieldSelector)
				}
			}
			env.Run(t, p)
			awaitTrust := func(what, name, want string) {
				t.Helper()
				controllertest.Eventually(t, what, func() bool { return trustIn(env, chosen, name) == want })
			}
			awaitTrust("it is created", p.name, string(pem))
			// The tracker is changed behind the back of the controller.
			if err := env.Fake.Tracker().Delete(chosen, "", p.name); err != nil {
				t.Fatal(err)
			}
			awaitTrust("it is created again", p.name, string(pem))
			controllertest.Eventually(t, "the cache shows it", func() bool { return len(p.bundles.existing()) == 1 })
			other := runtime.Object(bundle("kubernetes.io:kube-apiserver-serving:x", signerName, "x"))
			wrong := runtime.Object(bundle(p.name, signerName, "wrong"))
			if chosen.Version == "v1alpha1" {
				other, wrong = alpha(other), alpha(wrong)
			}
			if err := env.Fake.Tracker().Create(chosen, other, ""); err != nil {
				t.Fatal(err)
			}
			awaitTrust("another one is deleted", "kubernetes.io:kube-apiserver-serving:x", "")
			if err := env.Fake.Tracker().Update(chosen, wrong, ""); err != nil {
				t.Fatal(err)
			}
			awaitTrust("a change is undone", p.name, string(pem))
			for _, action := range env.Writes() {
				if action.GetResource() != chosen {
					t.Errorf("request of another version: %v", action)
				}
			}
		})
	}
}

// trustIn returns the content of a stored ClusterTrustBundle, empty if there is none.
func trustIn(env *controllertest.Env, version schema.GroupVersionResource, name string) string {
	stored, err := env.Fake.Tracker().Get(version, "", name)
	if err != nil {
		return ""
	}
	if of, ok := stored.(*certificatesv1alpha1.ClusterTrustBundle); ok {
		return of.Spec.TrustBundle
	}
	return stored.(*certificatesv1beta1.ClusterTrustBundle).Spec.TrustBundle
}

func alpha(object runtime.Object) runtime.Object {
	b := object.(*certificatesv1beta1.ClusterTrustBundle)
	return &certificatesv1alpha1.ClusterTrustBundle{
		ObjectMeta: b.ObjectMeta,
		Spec:       certificatesv1alpha1.ClusterTrustBundleSpec{SignerName: b.Spec.SignerName, TrustBundle: b.Spec.TrustBundle},
	}
}

func TestFailures(t *testing.T) {
	pem := certificate(t)
	extras := []runtime.Object{bundle("a", signerName, "x"), bundle("b", signerName, "x")}
	for name, test := range map[string]struct {
		verb     string
		objects  []runtime.Object
		refusal  error
		retry    bool
		requests int
	}{
		"CTB-13d, CTB-16: it exists after all, and nothing is deleted": {"create", extras, apierrors.NewAlreadyExists(resource, "x"), true, 1},
		"CTB-13d: a conflict, and nothing is deleted":                  {"update", append(extras, bundle(nameOf(pem), signerName, "old")), apierrors.NewConflict(resource, "x", errors.New("stale")), true, 1},
		"CTB-14: the others are gone":                                  {"delete", append(extras, bundle(nameOf(pem), signerName, string(pem))), apierrors.NewNotFound(resource, "x"), false, 2},
		"CTB-39: another one has the name":                             {"delete", append(extras, bundle(nameOf(pem), signerName, string(pem))), apierrors.NewConflict(resource, "x", errors.New("UID")), false, 2},
		"CTB-14, CTB-34: no delete keeps another from being tried":     {"delete", append(extras, bundle(nameOf(pem), signerName, string(pem))), apierrors.NewForbidden(resource, "x", errors.New("no")), true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			env, p := start(t, pem, test.objects...)
			env.Fake.PrependReactor(test.verb, "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.refusal })
			if err := p.reconcile(env.Context(), key); (err != nil) != test.retry {
				t.Errorf("got %v", err)
			}
			if got := requests(env); len(got) != test.requests {
				t.Errorf("requests: %q", got)
			}
		})
	}
}

// Pins CTB-15, CTB-17, CTB-18, CTB-19 and CTB-20.
func TestMetricsCountEveryReconcileByCode(t *testing.T) {
	pem := certificate(t)
	env, p := start(t, pem)
	refusal := error(apierrors.NewConflict(resource, "x", errors.New("stale")))
	env.Fake.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		env.Clock.Step(3 * time.Millisecond)
		return true, nil, refusal
	})
	for _, refusal = range []error{apierrors.NewConflict(resource, "x", errors.New("stale")), errors.New("connection refused")} {
		if err := p.measured(env.Context(), key); err == nil {
			t.Error("measured hides the error")
		}
	}
	refusal = nil
	if err := p.measured(env.Context(), key); err != nil {
		t.Error(err)
	}
	want := `
# HELP clustertrustbundle_publisher_sync_total [ALPHA] Number of syncs that occurred in cluster trust bundle publisher.
# TYPE clustertrustbundle_publisher_sync_total counter
clustertrustbundle_publisher_sync_total{code="200"} 1
clustertrustbundle_publisher_sync_total{code="409"} 1
clustertrustbundle_publisher_sync_total{code="500"} 1
# HELP clustertrustbundle_publisher_sync_duration_seconds [ALPHA] The time it took to sync a cluster trust bundle.
# TYPE clustertrustbundle_publisher_sync_duration_seconds histogram
`
	for _, code := range []string{"200", "409", "500"} {
		for n, bound := 0, 0.001; n < 15; n, bound = n+1, bound*2 {
			count := 1
			if bound < 0.003 {
				count = 0
			}
			want += fmt.Sprintf("clustertrustbundle_publisher_sync_duration_seconds_bucket{code=%q,le=%q} %d\n", code, fmt.Sprint(bound), count)
		}
		want += fmt.Sprintf("clustertrustbundle_publisher_sync_duration_seconds_bucket{code=%q,le=\"+Inf\"} 1\n", code)
		want += fmt.Sprintf("clustertrustbundle_publisher_sync_duration_seconds_sum{code=%q} 0.003\n", code)
		want += fmt.Sprintf("clustertrustbundle_publisher_sync_duration_seconds_count{code=%q} 1\n", code)
	}
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), "clustertrustbundle_publisher_sync_total", "clustertrustbundle_publisher_sync_duration_seconds"); err != nil {
		t.Error(err)
	}
	if events := env.RecordedEvents(); len(events) != 0 {
		t.Errorf("events: %q", events)
	}
}

// captured is an informer without a cache.
type captured struct{ controllertest.Captured }

func (c *captured) GetIndexer() cache.Indexer { return nil }

// Pins CTB-5, CTB-6 and CTB-32.
func TestEveryEventQueuesTheKey(t *testing.T) {
	informer, backlog := &captured{}, []bool{}
	newVersion[*certificatesv1beta1.ClusterTrustBundle](nil, informer, func(lane reconcile.Lane) { backlog = append(backlog, lane.IsBacklog()) }, nil, nil)
	one := bundle("x", signerName, "x")
	informer.Handler.OnAdd(one, true)
	informer.Handler.OnAdd(one, false)
	informer.Handler.OnUpdate(one, one)
	informer.Handler.OnDelete(one)
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "x", Obj: one})
	want := []bool{true, false, true, false, false}
	if diff := cmp.Diff(want, backlog); diff != "" {
		t.Errorf("in the backlog (-want +got):\n%s", diff)
	}
}

// Pins CTB-6, CTB-11 and CTB-21.
func TestTheKeyIsQueuedAtTheStart(t *testing.T) {
	_, p := start(t, certificate(t))
	if s := p.loop.Inspect(); s.Depth != 1 || s.Workers != 1 || s.Queue != "ca_cert_publisher_cluster_trust_bundles" {
		t.Errorf("the loop is %+v", s)
	}
}

// One that is created and deleted while the watch is interrupted causes no event. Pins CTB-35.
func TestRunPublishesAgainWhatWentUnseen(t *testing.T) {
	env, p := start(t, certificate(t))
	var answered atomic.Bool
	env.Fake.PrependReactor("create", "clustertrustbundles", func(clienttesting.Action) (bool, runtime.Object, error) {
		return answered.CompareAndSwap(false, true), bundle(p.name, signerName, p.trust), nil
	})
	env.Run(t, p)
	env.EventuallyAsTimePasses(t, "there is a ClusterTrustBundle", time.Second, func() bool {
		_, ok := controllertest.Stored[*certificatesv1beta1.ClusterTrustBundle](t, env, "", p.name)
		return ok
	})
}

// The API server refuses a ClusterTrustBundle with duplicates. Pins CTB-40.
func TestACertificateIsPublishedOnce(t *testing.T) {
	one, two := string(certificate(t)), string(certificate(t))
	for name, test := range map[string]struct{ bundle, want string }{
		"again at the end":        {one + two + one, one + two},
		"again, with its comment": {"# one\n" + one + "# again\n" + one + "# two\n" + two + "# end\n", "# one\n" + one + "# two\n" + two + "# end\n"},
		"in a comment as well":    {one + "# " + strings.ReplaceAll(one, "\n", "\n# ") + "\n" + two, one + "# " + strings.ReplaceAll(one, "\n", "\n# ") + "\n" + two},
		"all once":                {"# one\n" + one + two, "# one\n" + one + two},
	} {
		t.Run(name, func(t *testing.T) {
			env, p := start(t, []byte(test.bundle))
			must.Succeed(t, p.reconcile(env.Context(), key))
			want := fmt.Sprintf("create v1beta1 %s for %s: %q rv %q", nameOf([]byte(test.want)), signerName, test.want, "")
			if diff := cmp.Diff([]string{want}, requests(env)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// However long the watch is interrupted: no event may tell that the ClusterTrustBundle is gone. Pins CTB-38.
func TestABundleThatTheCacheDoesNotShowIsReconciledAgainSoon(t *testing.T) {
	env, p := start(t, certificate(t))
	env.Refuse("create clustertrustbundles", apierrors.NewAlreadyExists(resource, p.name))
	env.Run(t, p)
	var longest time.Duration
	env.EventuallyAsTimePasses(t, "the create is refused often", time.Second, func() bool {
		longest = max(longest, env.LongestDelay(p.loop.Keys(func(string) bool { return true })))
		return len(env.Writes()) >= 15
	})
	if longest > reconcile.RecheckAfter {
		t.Errorf("the key is reconciled again in %v", longest)
	}
}

// An admission webhook may answer so although the ClusterTrustBundle exists, and no event follows. Pins CTB-37.
func TestNotFoundOfADeleteDoesNotProveThatABundleIsGone(t *testing.T) {
	pem := certificate(t)
	env, p := start(t, pem, bundle(nameOf(pem), signerName, string(pem)), bundle("old", signerName, "x"))
	env.RefuseIf("delete clustertrustbundles old", apierrors.NewNotFound(resource, "old"), func(n int) bool { return n == 1 })
	env.Run(t, p)
	env.EventuallyAsTimePasses(t, "the other one is gone", time.Second, func() bool {
		_, ok := controllertest.Stored[*certificatesv1beta1.ClusterTrustBundle](t, env, "", "old")
		return !ok
	})
}

// The name follows from the bundle, so that one that is in use again has the name that was deleted. Pins CTB-39.
func TestOnlyTheBundleInTheCacheIsDeleted(t *testing.T) {
	pem := certificate(t)
	old := bundle("old", signerName, "x")
	old.UID = "seen"
	env, p := start(t, pem, bundle(nameOf(pem), signerName, string(pem)), old)
	deletions := 0
	env.Fake.PrependReactor("delete", "clustertrustbundles", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletions++
		if got := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions; got == nil || *got.UID != "seen" {
			t.Errorf("the preconditions are %v", got)
		}
		return false, nil, nil
	})
	must.Succeed(t, p.reconcile(env.Context(), key))
	if deletions != 1 {
		t.Errorf("there were %d deletions", deletions)
	}
}

// Pins CTB-35.
func TestWhatTheCacheShowsCostsNoFurtherRequest(t *testing.T) {
	env, p := start(t, certificate(t))
	env.Run(t, p)
	controllertest.Eventually(t, "the cache shows the bundle", func() bool { return len(p.bundles.existing()) == 1 })
	env.AwaitIdle(t)
	before := p.loop.Inspect().Reconciled
	env.EventuallyAsTimePasses(t, "the key is looked at again", time.Second, func() bool { return p.loop.Inspect().Reconciled > before })
	if got := env.Writes(); len(got) != 1 {
		t.Errorf("writes are %v, want the create alone", got)
	}
}

// Another bundle takes the place of the one before. Pins CTB-16, CTB-24 and CTB-29.
func TestTheNextInstancePublishesAnotherBundle(t *testing.T) {
	old, pem := certificate(t), certificate(t)
	env, p := start(t, old)
	stop := env.Run(t, p)
	controllertest.Eventually(t, "the cache shows the bundle", func() bool { return len(p.bundles.existing()) == 1 })
	stop()
	env.Succeed(nil)
	env.ClusterCA = pem
	next := must.Get(newPublisher(env.Env, config{}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	env.Run(t, next)
	controllertest.Eventually(t, "the old one is deleted", func() bool { return len(env.Writes()) >= 2 })
	create := fmt.Sprintf("create v1beta1 %s for %s: %q rv %q", nameOf(pem), signerName, pem, "")
	// The event of the creation may arrive before that of the deletion, which is then repeated.
	if diff := cmp.Diff([]string{create, "delete v1beta1 " + nameOf(old)}, slices.Compact(requests(env))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestNew(t *testing.T) {
	pem := certificate(t)
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	commented := append([]byte("# internal CA\n"), pem...)
	for name, test := range map[string]struct {
		file   string
		inline []byte
		want   string // what is published
		err    string // its beginning
	}{
		"CTB-3a: the bytes of the file":        {file: write("ca.crt", commented), inline: certificate(t), want: string(commented)},
		"CTB-3a: the inline data":              {inline: pem, want: string(pem)},
		"CTB-3a: no such file":                 {file: filepath.Join(dir, "nothing"), inline: pem, err: "error parsing root-ca-file at " + filepath.Join(dir, "nothing") + ": "},
		"CTB-3a: a file without a certificate": {file: write("junk", []byte("junk")), inline: pem, err: "error parsing root-ca-file at " + filepath.Join(dir, "junk") + ": "},
		"CTB-3b: nothing to publish":           {},
		"CTB-3c: inline data of another sort":  {inline: []byte("junk"), err: "failed to create a static CA content provider for the kube-apiserver-serving signer: "},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			env.ClusterCA, env.Chosen = test.inline, Descriptor().Alternatives[0]
			p, err := newPublisher(env.Env, config{rootCAFile: test.file})
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case test.want == "" && p != nil:
				t.Error("there is a controller")
			case test.want != "" && p.trust != test.want:
				t.Errorf("it publishes %q", p.trust)
			}
		})
	}
}

// Pins CTB-1, CTB-2 and CTB-4.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "kube-apiserver-serving-clustertrustbundle-publisher-controller" || len(d.Aliases) != 0 ||
		d.ServiceAccount != "kube-apiserver-serving-clustertrustbundle-publisher" || d.Gate != "ClusterTrustBundle" || d.EventSource != "" {
		t.Errorf("it is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if on, reason := d.Enabled(cfg); on || reason != "needs the feature gate ClusterTrustBundle" {
		t.Errorf("by default: %v, %q", on, reason)
	}
	cfg.FeatureGates = map[string]bool{"ClusterTrustBundle": true}
	if on, reason := d.Enabled(cfg); !on {
		t.Error(reason)
	}
	value := d.Value(cfg)
	if files := d.Files(value); len(files) != 0 || !d.ReadsClusterCA(value) {
		t.Errorf("without a file it reads %q", files)
	}
	cfg.ServiceAccounts.RootCAFile = "ca.crt"
	value = d.Value(cfg)
	if files := d.Files(value); len(files) != 1 || files[0] != "ca.crt" || d.ReadsClusterCA(value) {
		t.Errorf("with a file it reads %q", files)
	}
	if d.Alternatives[0].Version != "v1beta1" || d.Alternatives[1].Version != "v1alpha1" {
		t.Errorf("the alternatives are %v", d.Alternatives)
	}
}
