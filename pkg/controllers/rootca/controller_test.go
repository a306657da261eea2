package rootca

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Status:     corev1.NamespaceStatus{Phase: phase},
	}
}

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *publisher) {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.ClusterCA = []byte("bundle")
	p := must.Get(newPublisher(env.Env, config{}))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, p
}

func TestReconcileWrites(t *testing.T) {
	wrong := configMap(func(cm *corev1.ConfigMap) { cm.Data[bundleKey] = "" })
	for name, tc := range map[string]struct {
		objects []runtime.Object
		verb    string
		want    *corev1.ConfigMap
	}{
		"ROOTCA-10, ROOTCA-15: missing in an active namespace": {[]runtime.Object{namespace("a", corev1.NamespaceActive)}, "create", newConfigMap("a", "bundle")},
		"ROOTCA-8: missing in a namespace to be":               {[]runtime.Object{namespace("a", "")}, "create", newConfigMap("a", "bundle")},
		"ROOTCA-36: missing in a leaving namespace":            {[]runtime.Object{namespace("a", corev1.NamespaceTerminating)}, "", nil},
		"ROOTCA-36: missing, namespace gone":                   {nil, "", nil},
		"ROOTCA-16: correct":                                   {[]runtime.Object{namespace("a", corev1.NamespaceActive), configMap(nil)}, "", nil},
		"ROOTCA-11, ROOTCA-17: wrong":                          {[]runtime.Object{namespace("a", corev1.NamespaceActive), wrong}, "update", configMap(nil)},
		"ROOTCA-17: wrong in a terminating namespace":          {[]runtime.Object{namespace("a", corev1.NamespaceTerminating), wrong}, "update", configMap(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			env, p := start(t, tc.objects...)
			if err := p.reconcile(env.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			got := env.Fake.Actions()
			if tc.verb == "" {
				if len(got) != 0 {
					t.Fatalf("unexpected requests: %v", got)
				}
				return
			}
			if len(got) != 1 || got[0].GetVerb() != tc.verb {
				t.Fatalf("got %v, want one %s", got, tc.verb)
			}
			if diff := cmp.Diff(tc.want, got[0].(clienttesting.UpdateAction).GetObject()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.verb, diff)
			}
		})
	}
}

// failingLister is a cache that cannot be read.
type failingLister struct {
	corelisters.ConfigMapLister
	corelisters.ConfigMapNamespaceLister
	err error
}

// ConfigMaps implements corelisters.ConfigMapLister.
func (l failingLister) ConfigMaps(string) corelisters.ConfigMapNamespaceLister { return l }

// List implements corelisters.ConfigMapLister.
func (l failingLister) List(labels.Selector) ([]*corev1.ConfigMap, error) { return nil, l.err }

// Get implements corelisters.ConfigMapNamespaceLister.
func (l failingLister) Get(string) (*corev1.ConfigMap, error) { return nil, l.err }

// Pins ROOTCA-14.
func TestACacheThatCannotBeReadIsReadAgain(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive))
	p.configMaps = failingLister{err: errors.New("no such index")}
	if err := p.reconcile(env.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no such index") {
		t.Errorf("reconcile = %v", err)
	}
	if got := env.Fake.Actions(); len(got) != 0 {
		t.Errorf("unexpected requests: %v", got)
	}
}

func TestReconcileRetries(t *testing.T) {
	resource := corev1.Resource("configmaps")
	for name, tc := range map[string]struct {
		verb    string
		refusal error
		retry   bool
	}{
		"ROOTCA-15: create in a terminating namespace":     {"create", terminatingRefusal(), false},
		"ROOTCA-15: create in a gone namespace":            {"create", apierrors.NewNotFound(corev1.Resource("namespaces"), "a"), false},
		"ROOTCA-15: create of what exists":                 {"create", apierrors.NewAlreadyExists(resource, configMapName), true},
		"ROOTCA-17, ROOTCA-27: update of a stale copy":     {"update", apierrors.NewConflict(resource, configMapName, errors.New("stale")), true},
		"ROOTCA-17, ROOTCA-29: update of an immutable map": {"update", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), configMapName, nil), true},
		"ROOTCA-17: update of a deleted map":               {"update", apierrors.NewNotFound(resource, configMapName), true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{namespace("a", corev1.NamespaceActive)}
			if tc.verb == "update" {
				objects = append(objects, configMap(func(cm *corev1.ConfigMap) { cm.Data = nil }))
			}
			env, p := start(t, objects...)
			env.Fake.PrependReactor(tc.verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, tc.refusal
			})
			if err := p.reconcile(env.Context(), "a"); (err != nil) != tc.retry {
				t.Errorf("reconcile = %v, want retry %v", err, tc.retry)
			}
		})
	}
}

// Pins ROOTCA-19, ROOTCA-20, ROOTCA-21 and ROOTCA-22.
func TestMetricsCountEveryReconcileByCode(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive), namespace("b", corev1.NamespaceActive))
	env.Fake.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "b" {
			return true, nil, apierrors.NewAlreadyExists(corev1.Resource("configmaps"), configMapName)
		}
		env.Clock.Step(3 * time.Millisecond)
		return false, nil, nil
	})
	_ = p.measured(env.Context(), "a")
	_ = p.measured(env.Context(), "gone")
	if err := p.measured(env.Context(), "b"); err == nil {
		t.Error("measured hides the error")
	}
	env.WantEvents(t)
	want := `
# HELP root_ca_cert_publisher_sync_total [ALPHA] Number of namespace syncs happened in root ca cert publisher.
# TYPE root_ca_cert_publisher_sync_total counter
root_ca_cert_publisher_sync_total{code="200"} 2
root_ca_cert_publisher_sync_total{code="409"} 1
`
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), "root_ca_cert_publisher_sync_total"); err != nil {
		t.Error(err)
	}
	families, err := env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "root_ca_cert_publisher_sync_duration_seconds" {
			continue
		}
		if help := family.GetHelp(); help != "[ALPHA] Number of namespace syncs happened in root ca cert publisher." {
			t.Errorf("the help is %q", help)
		}
		buckets := family.GetMetric()[0].GetHistogram().GetBucket()
		if first, last := buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound(); len(buckets) != 15 || first != 0.001 || last != 16.384 {
			t.Errorf("%d buckets from %v to %v, want 15 from 0.001 to 16.384", len(buckets), first, last)
		}
		if sum := family.GetMetric()[0].GetHistogram().GetSampleSum(); sum != 0.003 {
			t.Errorf("seconds of code 200 = %v, want 0.003", sum)
		}
		return
	}
	t.Error("no duration metric")
}

func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if files := d.Files(d.Value(cfg)); len(files) != 0 {
		t.Errorf("files = %v without a root CA file", files)
	}
	missing := filepath.Join(t.TempDir(), "ca.crt")
	cfg.ServiceAccounts.RootCAFile = missing
	value := d.Value(cfg)
	if diff := cmp.Diff([]string{missing}, d.Files(value)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	env := controllertest.New(t)
	if c, err := d.New(env.Env, value); err == nil || c != nil {
		t.Errorf("New = %v, %v with an unreadable file", c, err)
	}
	if err := os.WriteFile(missing, certificate(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.New(env.Env, value); err != nil {
		t.Errorf("New = %v", err)
	}
}

func BenchmarkReconcile(b *testing.B) {
	for _, namespaces := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("namespaces=%d", namespaces), func(b *testing.B) {
			var objects []runtime.Object
			for i := range namespaces {
				name := fmt.Sprintf("ns-%d", i)
				cm := newConfigMap(name, "bundle")
				cm.ResourceVersion = "1"
				objects = append(objects, namespace(name, corev1.NamespaceActive), cm)
			}
			env, p := start(b, objects...)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.reconcile(env.Context(), "ns-5"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
