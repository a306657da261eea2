package disruption

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/scheme"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controllertest"
)

// start is what the clocks of tests begin with.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bench is a controller on fakes.
type bench struct {
	*controllertest.Env
	c      *disruptionController
	scales *scalefake.FakeScaleClient
}

// newBench makes a controller whose caches and API server hold the objects.
func newBench(t testing.TB, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{Env: controllertest.New(t, objects...), scales: &scalefake.FakeScaleClient{}}
	var err error
	if b.c, err = newController(b.Env.Env, b.scales); err != nil {
		t.Fatal(err)
	}
	b.Start(t)
	b.Fake.ClearActions()
	return b
}

// store puts an object into a cache without a notification.
func (b *bench) store(t testing.TB, object runtime.Object) {
	t.Helper()
	var err error
	switch object := object.(type) {
	case *policyv1.PodDisruptionBudget:
		err = b.Informers.Policy().V1().PodDisruptionBudgets().Informer().GetStore().Add(object)
	case *corev1.Pod:
		err = b.Informers.Core().V1().Pods().Informer().GetStore().Add(object)
	case *appsv1.ReplicaSet:
		err = b.Informers.Apps().V1().ReplicaSets().Informer().GetStore().Add(object)
	default:
		t.Fatalf("there is no cache for a %T", object)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reconcile reconciles the budget n/pdb.
func (b *bench) reconcile(t testing.TB) {
	t.Helper()
	if err := b.c.reconcile(b.Context(), types.NamespacedName{Namespace: "n", Name: "pdb"}); err != nil {
		t.Fatal(err)
	}
}

// writes returns the statuses that were written so far.
func (b *bench) writes() []policyv1.PodDisruptionBudgetStatus {
	var all []policyv1.PodDisruptionBudgetStatus
	for _, action := range b.Fake.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok && action.GetSubresource() == "status" {
			all = append(all, update.GetObject().(*policyv1.PodDisruptionBudget).Status)
		}
	}
	return all
}

// wrote returns the status of the only write.
func (b *bench) wrote(t testing.TB) policyv1.PodDisruptionBudgetStatus {
	t.Helper()
	all := b.writes()
	if len(all) != 1 {
		t.Fatalf("%d statuses were written, want one", len(all))
	}
	return all[0]
}

// serveScale makes the scale of anything be what the API server says.
func (b *bench) serveScale(answer func(name string) (runtime.Object, error)) {
	b.scales.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := answer(action.(clienttesting.GetAction).GetName())
		return true, object, err
	})
}

// serveResources makes discovery list resources.
func (b *bench) serveResources(t testing.TB, gv schema.GroupVersion, resources ...metav1.APIResource) {
	t.Helper()
	fake, ok := b.Fake.Discovery().(*discoveryfake.FakeDiscovery)
	if !ok {
		t.Fatal("discovery is no fake")
	}
	fake.Resources = append(fake.Resources, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: resources})
}

func budget(edit ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "pdb", UID: "pdb", Generation: 3, ResourceVersion: "7"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	for _, e := range edit {
		e(pdb)
	}
	return pdb
}

func minAvailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.MinAvailable = ptr.To(intstr.Parse(value)) }
}

func maxUnavailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(pdb *policyv1.PodDisruptionBudget) { pdb.Spec.MaxUnavailable = ptr.To(intstr.Parse(value)) }
}

// pod makes a Ready pod with the label app=web.
func pod(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID(name), ResourceVersion: "5", Generation: 2, Labels: map[string]string{"app": "web"},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(start)) }

// ownedBy gives a pod a controller whose UID is its name.
func ownedBy(apiVersion, kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences = owners(apiVersion, kind, name) }
}

func owners(apiVersion, kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
}

func owner(name string, refs ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), OwnerReferences: refs}
}

func replicaSet(name string, replicas int32, refs ...metav1.OwnerReference) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: owner(name, refs...), Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
}

func marked(reason string, age time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "because",
			LastTransitionTime: metav1.NewTime(start.Add(-age)),
		})
	}
}

func podNames(list []*corev1.Pod) []string {
	var all []string
	for _, p := range list {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return all
}

// mapperWith knows the built-in kinds and one more.
func mapperWith(kind schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gv := range []schema.GroupVersion{appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion, corev1.SchemeGroupVersion} {
		for known := range scheme.Scheme.KnownTypes(gv) {
			mapper.Add(gv.WithKind(known), meta.RESTScopeNamespace)
		}
	}
	mapper.Add(kind, meta.RESTScopeNamespace)
	return mapper
}
