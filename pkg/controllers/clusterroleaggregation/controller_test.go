package clusterroleaggregation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// aggregating makes a role that aggregates what a selector selects.
// decided is the resource version of roles that aggregate.
const decided = "7"

func aggregating(name string, selectors ...metav1.LabelSelector) *rbacv1.ClusterRole {
	r := role(name)
	r.ResourceVersion = decided
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}
	return r
}

func labelled(r *rbacv1.ClusterRole, pairs ...string) *rbacv1.ClusterRole {
	r.Labels = matching(pairs...).MatchLabels
	return r
}

func start(t *testing.T, objects ...runtime.Object) (*controllertest.Env, *aggregator) {
	t.Helper()
	env := controllertest.New(t, objects...)
	a := must.Get(newAggregator(env.Env))(t)
	env.Start(t)
	return env, a
}

// applied are the bodies of the requests, with what they were sent with.
func applied(t *testing.T, env *controllertest.Env) []rbacv1.ClusterRole {
	t.Helper()
	var all []rbacv1.ClusterRole
	for _, action := range env.Writes() {
		patch, ok := action.(clienttesting.PatchActionImpl)
		if !ok || patch.PatchType != types.ApplyPatchType || patch.PatchOptions.FieldManager != controllerName || !*patch.PatchOptions.Force {
			t.Fatalf("unexpected request: %+v", action)
		}
		var body rbacv1.ClusterRole
		if err := json.Unmarshal(patch.Patch, &body); err != nil {
			t.Fatal(err)
		}
		if body.Name != patch.Name || body.ResourceVersion != decided || body.UID != types.UID(patch.Name) {
			t.Errorf("the body is for %+v, the request for %s", body.ObjectMeta, patch.Name)
		}
		all = append(all, body)
	}
	return all
}

func TestReconcile(t *testing.T) {
	edit := matching("to", "edit")
	for name, test := range map[string]struct {
		objects []runtime.Object
		want    [][]rbacv1.PolicyRule // of the requests
	}{
		"AGG-8: the role is gone": {},
		"AGG-8: the role aggregates nothing": {
			objects: []runtime.Object{role("edit", on("pods", "get"))},
		},
		"AGG-6, AGG-11, AGG-29, AGG-33: rules differ": {
			objects: []runtime.Object{aggregating("edit", edit), labelled(role("a", on("pods", "get")), "to", "edit"), role("b", on("nodes", "get"))},
			want:    [][]rbacv1.PolicyRule{{on("pods", "get")}},
		},
		"AGG-12: rules of one's own are replaced": {
			objects: []runtime.Object{
				func() *rbacv1.ClusterRole {
					r := aggregating("edit", edit)
					r.Rules = []rbacv1.PolicyRule{on("nodes", "get")}
					return r
				}(),
				labelled(role("a", on("pods", "get")), "to", "edit"),
			},
			want: [][]rbacv1.PolicyRule{{on("pods", "get")}},
		},
		"AGG-10: rules are equal, nil and empty lists being equal": {
			objects: []runtime.Object{
				func() *rbacv1.ClusterRole {
					r := aggregating("edit", edit)
					r.Rules = []rbacv1.PolicyRule{on("pods", "get")}
					r.Rules[0].ResourceNames = []string{}
					return r
				}(),
				labelled(role("a", on("pods", "get")), "to", "edit"),
			},
		},
		"AGG-10: no source, and no rules": {
			objects: []runtime.Object{aggregating("edit", edit)},
		},
		"AGG-15: the last source is gone": {
			objects: []runtime.Object{
				func() *rbacv1.ClusterRole {
					r := aggregating("edit", edit)
					r.Rules = []rbacv1.PolicyRule{on("nodes", "get")}
					return r
				}(),
			},
			want: [][]rbacv1.PolicyRule{nil},
		},
		"AGG-21: a source that is being deleted": {
			objects: []runtime.Object{aggregating("edit", edit), labelled(func() *rbacv1.ClusterRole {
				r := role("a", on("pods", "get"))
				r.DeletionTimestamp, r.Finalizers = &metav1.Time{Time: controllertest.Epoch}, []string{"example.com/held"}
				return r
			}(), "to", "edit")},
			want: [][]rbacv1.PolicyRule{{on("pods", "get")}},
		},
		"AGG-12: a selector of everything": {
			objects: []runtime.Object{aggregating("edit", metav1.LabelSelector{}), role("a", on("pods", "get"))},
			want:    [][]rbacv1.PolicyRule{{on("pods", "get")}},
		},
		"AGG-9: every selector that the index cannot serve": {
			objects: []runtime.Object{
				aggregating("edit", where("to", metav1.LabelSelectorOpIn, "a", "b"), where("to", metav1.LabelSelectorOpExists)),
				labelled(role("z", on("pods", "get")), "to", "a"), labelled(role("y", on("nodes", "get")), "to", "c"),
			},
			want: [][]rbacv1.PolicyRule{{on("pods", "get"), on("nodes", "get")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env, a := start(t, test.objects...)
			if err := a.reconcile(env.Context(), "edit"); err != nil {
				t.Fatal(err)
			}
			var got [][]rbacv1.PolicyRule
			for _, body := range applied(t, env) {
				got = append(got, body.Rules)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// Pins AGG-9a.
func TestAnInvalidSelectorWritesNothing(t *testing.T) {
	env, a := start(t, aggregating("edit", matching("to", "edit"), where("a", "Like")), labelled(role("a", on("pods", "get")), "to", "edit"))
	if err := a.reconcile(env.Context(), "edit"); err == nil {
		t.Error("no error")
	}
	if got := env.Writes(); len(got) != 0 {
		t.Errorf("requests: %v", got)
	}
}

// Only rules are compared: an informer takes the managed fields away, and whatever else differs is no reason to write.
// Pins AGG-20.
func TestOnlyRulesAreCompared(t *testing.T) {
	edit := aggregating("edit", matching("to", "edit"))
	edit.Rules = []rbacv1.PolicyRule{on("pods", "get")}
	edit.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody", Operation: metav1.ManagedFieldsOperationApply}}
	source := labelled(role("source", on("pods", "get")), "to", "edit")
	source.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "another", Operation: metav1.ManagedFieldsOperationUpdate}}
	source.Annotations = map[string]string{"a": "b"}
	env, a := start(t, edit, source)
	for _, name := range []string{"edit", "source"} {
		if fields := must.Get(a.roles.Get(name))(t).ManagedFields; fields != nil {
			t.Errorf("the cache has managed fields of %s: %v", name, fields)
		}
	}
	if err := a.reconcile(env.Context(), "edit"); err != nil {
		t.Fatal(err)
	}
	if got := env.Writes(); len(got) != 0 {
		t.Errorf("requests: %v", got)
	}
}

// Somebody applies other rules again and again. They are taken from them each time, at once. Pins AGG-16.
func TestRulesAreTakenFromOthersAtOnce(t *testing.T) {
	edit := aggregating("edit", matching("to", "edit"))
	edit.Rules = []rbacv1.PolicyRule{on("pods", "get")}
	env, a := start(t, edit, labelled(role("source", on("pods", "get")), "to", "edit"))
	env.Run(t, a)
	env.AwaitIdle(t)
	for range 5 {
		had := len(patched(env))
		theirs := edit.DeepCopy()
		theirs.Rules = []rbacv1.PolicyRule{on("nodes", "get")}
		update(t, env, theirs)
		controllertest.Eventually(t, "the rules are applied", func() bool { return len(patched(env)) > had })
		env.AwaitIdle(t)
	}
	for _, patch := range patched(env) {
		if !*patch.PatchOptions.Force {
			t.Error("an apply is not forced")
		}
	}
}

// patched are the patches among the requests.
func patched(env *controllertest.Env) []clienttesting.PatchActionImpl {
	var all []clienttesting.PatchActionImpl
	for _, action := range env.Writes() {
		if patch, ok := action.(clienttesting.PatchActionImpl); ok {
			all = append(all, patch)
		}
	}
	return all
}

// Somebody else owns the rules of a role without sources, so the apply changes nothing. It is repeated when something
// happens to the role or to a source of it, and not otherwise. Pins AGG-28.
func TestAnApplyThatChangedNothingIsRepeatedAtTheNextEventOfTheRole(t *testing.T) {
	edit := aggregating("edit", matching("to", "edit"))
	edit.Rules = []rbacv1.PolicyRule{on("nodes", "get")}
	for name, test := range map[string]struct {
		event  func(*aggregator)
		writes int
	}{
		"another role changes":    {func(a *aggregator) { a.updated(reconcile.Fresh, role("other"), role("other", on("pods", "get"))) }, 0},
		"another role is created": {func(a *aggregator) { a.added(reconcile.Fresh, labelled(role("new", on("pods", "get")), "to", "view")) }, 0},
		"a source comes":          {func(a *aggregator) { a.added(reconcile.Fresh, labelled(role("new"), "to", "edit")) }, 1},
		"the role changes":        {func(a *aggregator) { a.updated(reconcile.Fresh, aggregating("edit", matching("to", "edit")), edit) }, 1},
		"the role is resynced":    {func(a *aggregator) { a.updated(reconcile.Backlog, edit, edit) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			env, a := start(t, edit)
			env.Fake.PrependReactor("patch", "clusterroles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, edit, nil })
			env.Run(t, a)
			env.AwaitIdle(t)
			if got := applied(t, env); len(got) != 1 || got[0].Rules != nil {
				t.Fatalf("first applied: %v", got)
			}
			test.event(a)
			env.AwaitIdle(t)
			if got := applied(t, env); len(got) != 1+test.writes {
				t.Errorf("then applied: %v", got[1:])
			}
		})
	}
}

// Until the cache shows the new role, a write is refused because of its UID. Pins AGG-30.
func TestARecreatedRoleIsWrittenOnceItIsShown(t *testing.T) {
	edit := aggregating("edit", matching("to", "edit"))
	recreated := edit.DeepCopy()
	recreated.UID = "new"
	env, a := start(t, edit, labelled(role("source", on("pods", "get")), "to", "edit"))
	env.Refuse("patch clusterroles edit", apierrors.NewInvalid(rbacv1.SchemeGroupVersion.WithKind("ClusterRole").GroupKind(), "edit", nil))
	env.Run(t, a)
	controllertest.Eventually(t, "the key waits for a retry", func() bool { return a.loop.Retries("edit") == 1 })
	a.updated(reconcile.Fresh, edit, recreated)
	controllertest.Eventually(t, "it is tried at once", func() bool { return len(patched(env)) == 2 })
}

// Pins AGG-27.
func TestAFailureIsLogged(t *testing.T) {
	env, a := start(t, aggregating("edit", matching("to", "edit")), labelled(role("a", on("pods", "get")), "to", "edit"))
	env.Refuse("patch clusterroles edit", errors.New("boom"))
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	controllertest.Eventually(t, "it fails", func() bool { return a.loop.Inspect().Failed == 1 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(log, `Reconcile failed err="applying the rules of ClusterRole edit: boom"`) || !strings.Contains(log, `key="edit"`) {
		t.Errorf("log: %s", log)
	}
}

// A new instance looks at each role that aggregates once, however many sources are replayed. Pins AGG-23.
func TestASuccessorReconcilesEachRoleOnce(t *testing.T) {
	objects := []runtime.Object{aggregating("edit", matching("to", "edit")), aggregating("view", matching("to", "edit"))}
	for n := range 5 {
		objects = append(objects, labelled(role(fmt.Sprint("source-", n)), "to", "edit"))
	}
	env, first := start(t, objects...)
	stop := env.Run(t, first)
	env.AwaitIdle(t)
	stop()
	env.Succeed(nil)
	second := must.Get(newAggregator(env.Env))(t)
	env.Run(t, second)
	controllertest.Eventually(t, "the successor works", func() bool { return !second.loop.Inspect().Began.IsZero() })
	env.AwaitIdle(t)
	for name, a := range map[string]*aggregator{"an instance": first, "its successor": second} {
		if got := a.loop.Inspect().Reconciled; got != 2 {
			t.Errorf("%s reconciled two roles %d times", name, got)
		}
	}
}

// An error of the API server is returned, and so retried. Pins AGG-11.
func TestAnErrorOfTheAPIServerIsReturned(t *testing.T) {
	env, a := start(t, aggregating("edit", matching("to", "edit")), labelled(role("a", on("pods", "get")), "to", "edit"))
	boom := errors.New("boom")
	env.Fake.PrependReactor("patch", "clusterroles", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, boom })
	if err := a.reconcile(env.Context(), "edit"); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
}

// The role is gone, or another one has its name: the key waits for the cache, which is no failure. Pins AGG-29.
func TestARoleThatIsGoneIsWaitedFor(t *testing.T) {
	env, a := start(t, aggregating("edit", matching("to", "edit")), labelled(role("a", on("pods", "get")), "to", "edit"))
	env.Refuse("patch clusterroles edit", apierrors.NewConflict(rbacv1.Resource("clusterroles"), "edit", errors.New("uid mismatch")))
	if err := a.reconcile(env.Context(), "edit"); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want one that is retried", err)
	}
	env.Uncache(t, aggregating("edit"))
	if err := a.reconcile(env.Context(), "edit"); err != nil {
		t.Errorf("error is %v once the cache shows that it is gone", err)
	}
}

// Pins AGG-1, AGG-3, AGG-4, AGG-7 and AGG-13.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "clusterrole-aggregation-controller" || d.ServiceAccount != d.Name || d.Aliases[0] != "clusterrole-aggregation" || d.EventSource != "" {
		t.Errorf("%+v", d)
	}
	_, a := start(t)
	if _, ok := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t).(controller.Debuggable); ok {
		t.Error("it serves pages for debugging")
	}
	if s := a.loop.Inspect(); s.Queue != "ClusterRoleAggregator" || s.Workers != 5 {
		t.Errorf("%+v", s)
	}
}
