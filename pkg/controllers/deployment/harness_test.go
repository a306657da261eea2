package deployment

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/controllertest"
)

var key = cache.ObjectName{Namespace: namespace, Name: "web"}

// harness is a controller on a fake API server. Its caches show only what observe has
// put into them, so that a test decides how stale they are.
type harness struct {
	*controllertest.Env
	c *deploymentController
	// version is the newest resource version.
	version atomic.Int64
}

func newHarness(t testing.TB, objects ...runtime.Object) *harness {
	t.Helper()
	h := &harness{}
	h.version.Store(100)
	for _, obj := range objects {
		object, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		object.SetResourceVersion(strconv.FormatInt(h.version.Add(1), 10))
	}
	h.Env = controllertest.New(t, objects...)
	h.Fake.PrependReactor("*", "*", h.react)
	c, err := newController(h.Env.Env, config{concurrentSyncs: 2, terminatingReplicas: true})
	if err != nil {
		t.Fatal(err)
	}
	h.c = c
	return h
}

// react does what the fake API server leaves out: versions, UIDs, generations, conflicts,
// and keeping spec and status apart.
func (h *harness) react(action clienttesting.Action) (bool, runtime.Object, error) {
	switch action := action.(type) {
	case clienttesting.PatchAction:
		return false, nil, nil
	case clienttesting.UpdateAction: // creations are updates as well
		created := action.GetVerb() == "create"
		switch obj := action.GetObject().(type) {
		case *appsv1.Deployment:
			err := h.admit(action, obj, created, h.admitDeployment)
			return err != nil, nil, err
		case *appsv1.ReplicaSet:
			if created {
				obj.UID, obj.CreationTimestamp = types.UID(obj.Name), metav1.NewTime(h.Clock.Now())
			}
			err := h.admit(action, obj, created, nil)
			return err != nil, nil, err
		}
	}
	return false, nil, nil
}

func (h *harness) admit(action clienttesting.UpdateAction, obj metav1.Object, created bool, keep func(bool, *appsv1.Deployment, runtime.Object)) error {
	next := strconv.FormatInt(h.version.Add(1), 10)
	if created {
		obj.SetResourceVersion(next)
		return nil
	}
	gvr := action.GetResource()
	stored, err := h.Fake.Tracker().Get(gvr, action.GetNamespace(), obj.GetName())
	if err != nil {
		return err
	}
	if was, _ := meta.Accessor(stored); was.GetResourceVersion() != obj.GetResourceVersion() {
		return apierrors.NewConflict(gvr.GroupResource(), obj.GetName(), fmt.Errorf("stale"))
	}
	if keep != nil {
		keep(action.GetSubresource() == "status", obj.(*appsv1.Deployment), stored)
	}
	obj.SetResourceVersion(next)
	return nil
}

func (h *harness) admitDeployment(status bool, d *appsv1.Deployment, stored runtime.Object) {
	was := stored.(*appsv1.Deployment)
	if status {
		d.Spec = *was.Spec.DeepCopy()
		return
	}
	d.Status = *was.Status.DeepCopy()
	d.Generation = was.Generation + 1
}

// observe brings the caches up to date.
func (h *harness) observe(t testing.TB) {
	t.Helper()
	ctx, all := h.Context(), metav1.ListOptions{}
	deployments, err1 := h.Fake.AppsV1().Deployments("").List(ctx, all)
	sets, err2 := h.Fake.AppsV1().ReplicaSets("").List(ctx, all)
	pods, err3 := h.Fake.CoreV1().Pods("").List(ctx, all)
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	apps := h.Informers.Apps().V1()
	fill(t, h, apps.Deployments().Informer(), deployments.Items)
	fill(t, h, apps.ReplicaSets().Informer(), sets.Items)
	fill(t, h, h.Informers.Core().V1().Pods().Informer(), pods.Items)
	h.Fake.ClearActions()
}

func fill[T any](t testing.TB, h *harness, informer cache.SharedIndexInformer, items []T) {
	t.Helper()
	objects := make([]any, len(items))
	for i := range items {
		objects[i] = &items[i]
	}
	if err := informer.GetStore().Replace(objects, strconv.FormatInt(h.version.Load(), 10)); err != nil {
		t.Fatal(err)
	}
}

// reconcile observes, reconciles, and fails the test on an error.
func (h *harness) reconcile(t testing.TB) {
	t.Helper()
	h.observe(t)
	if err := h.c.reconcile(h.Context(), key); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// requests are the requests since the last observation, as "verb resource".
func (h *harness) requests() []string {
	var all []string
	for _, action := range h.Fake.Actions() {
		name := action.GetVerb() + " " + action.GetResource().Resource
		if sub := action.GetSubresource(); sub != "" {
			name += "/" + sub
		}
		all = append(all, name)
	}
	return all
}

func (h *harness) wantRequests(t testing.TB, want ...string) {
	t.Helper()
	if got := h.requests(); !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

func (h *harness) wantEvents(t testing.TB, want ...string) {
	t.Helper()
	if got := h.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}

// deployment is the Deployment as the API server has it.
func (h *harness) deployment(t testing.TB) *appsv1.Deployment {
	t.Helper()
	d, err := h.Fake.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("deployments"), namespace, "web")
	if err != nil {
		t.Fatal(err)
	}
	return d.(*appsv1.Deployment)
}

// set is a ReplicaSet as the API server has it.
func (h *harness) set(t testing.TB, name string) *appsv1.ReplicaSet {
	t.Helper()
	rs, err := h.Fake.Tracker().Get(appsv1.SchemeGroupVersion.WithResource("replicasets"), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return rs.(*appsv1.ReplicaSet)
}

// wantProgress checks the reason of the condition Progressing.
func (h *harness) wantProgress(t testing.TB, reason string) {
	t.Helper()
	if got := progressReason(h.deployment(t)); got != reason {
		t.Errorf("Progressing is for the reason %q, want %q", got, reason)
	}
}

// changed stores a changed ReplicaSet as its controller would.
func (h *harness) changed(t testing.TB, name string, change setChange) {
	t.Helper()
	rs := h.set(t, name).DeepCopy()
	change(rs)
	if _, err := h.Fake.AppsV1().ReplicaSets(namespace).UpdateStatus(context.Background(), rs, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// failOn makes one kind of request fail.
func (h *harness) failOn(verb, resource string, err error) {
	h.Fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func podOf(rs *appsv1.ReplicaSet, name string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(name), Labels: rs.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rs, replicaSetKind)},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}
