package namespace

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Pins NS-40.
func TestUnchangedConditionsAreNotWritten(t *testing.T) {
	f := start(t, serving(pods, widgets), terminating())
	f.store.put(widgets, "w", "example.com/hold")
	for _, want := range [][]string{{"get", "get", "update status"}, {"get", "get"}} {
		if err := f.reconcile(f.Context(), "ns"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.written()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
}

// Pins NS-40.
func TestAFailureToReportIsIgnored(t *testing.T) {
	f := start(t, serving(pods), terminating())
	finalized := f.finalized()
	f.Fake.PrependReactor("update", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict() })
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(*finalized) != 1 {
		t.Error("not finalized")
	}
}

// Pins NS-12 and NS-31.
func TestConflictsAreRetriedOnTheLatestState(t *testing.T) {
	f := start(t, serving(pods), terminating(func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceActive }))
	finalized := f.finalized()
	left := map[string]int{"status": 2, "finalize": 2}
	f.Fake.PrependReactor("*", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if left[action.GetSubresource()] > 0 {
			left[action.GetSubresource()]--
			return true, nil, conflict()
		}
		return false, nil, nil
	})
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"get", "update status", "get", "update status", "get", "update status", // phase
		"update status", // conditions
		"create finalize", "get", "create finalize", "get", "create finalize",
	}
	if diff := cmp.Diff(want, f.written()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if len(*finalized) != 1 {
		t.Errorf("finalized = %v", *finalized)
	}
}

func TestConflictLoopEnds(t *testing.T) {
	recreated := terminating(func(ns *corev1.Namespace) { ns.UID = "another" })
	elsewhere := terminating(func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil })
	for name, tc := range map[string]struct {
		latest  *corev1.Namespace
		readErr error
		want    error
	}{
		"NS-31, NS-48: another namespace of the name": {recreated, nil, errRecreated},
		"NS-31: gone":                {nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"), nil},
		"finalized by somebody else": {elsewhere, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods), terminating())
			f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict() })
			f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				if tc.readErr != nil {
					return true, nil, tc.readErr
				}
				return true, tc.latest, nil
			})
			if err := f.finalize(f.Context(), terminating()); !errors.Is(err, tc.want) {
				t.Errorf("finalize = %v, want %v", err, tc.want)
			}
		})
	}
	t.Run("fenced", func(t *testing.T) {
		f := start(t, serving(pods), terminating())
		ctx, fence := context.WithCancel(f.Context())
		f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			fence()
			return true, nil, conflict()
		})
		if err := f.finalize(ctx, terminating()); !errors.Is(err, context.Canceled) {
			t.Errorf("finalize = %v, want the end of its context", err)
		}
	})
	t.Run("NS-73: a webhook answers so, whatever is sent", func(t *testing.T) {
		f := start(t, serving(pods), terminating())
		ctx, fence := context.WithCancel(f.Context())
		defer fence()
		writes := 0
		f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			if writes++; writes == 100 {
				fence()
			}
			return true, nil, conflict()
		})
		if err := f.finalize(ctx, terminating()); !apierrors.IsConflict(err) || writes != 11 {
			t.Errorf("finalize = %v after %d writes, want the conflict after 11", err, writes)
		}
	})
}

// restoreAfterConflict has the first write of a namespace answered with a conflict, and restored come back: the data of the
// API server was restored from a backup between two writes. It returns the number of writes.
func restoreAfterConflict(f *fixture, verb string, restored *corev1.Namespace) *int {
	f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, restored, nil })
	writes := 0
	f.Fake.PrependReactor(verb, "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		if writes++; writes == 1 {
			return true, nil, conflict()
		}
		return true, restored, nil
	})
	return &writes
}

// It is in use again. Pins NS-74.
func TestANamespaceThatIsNotDeletedAnyMoreKeepsItsFinalizer(t *testing.T) {
	f := start(t, serving(pods), terminating())
	restored := terminating(func(ns *corev1.Namespace) { ns.DeletionTimestamp, ns.Status.Phase = nil, corev1.NamespaceActive })
	writes := restoreAfterConflict(f, "create", restored)
	if err := f.finalize(f.Context(), terminating()); err != nil {
		t.Fatal(err)
	}
	if *writes != 1 {
		t.Errorf("the namespace was finalized %d times, want only before it was restored", *writes)
	}
}

// It is in use again, and nobody could create anything in it. Pins NS-74.
func TestANamespaceThatIsNotDeletedAnyMoreIsNotTerminating(t *testing.T) {
	active := func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceActive }
	f := start(t, serving(pods), terminating(active))
	restored := terminating(active, func(ns *corev1.Namespace) { ns.DeletionTimestamp = nil })
	writes := restoreAfterConflict(f, "update", restored)
	if _, err := f.markTerminating(f.Context(), terminating(active)); err != nil {
		t.Fatal(err)
	}
	if *writes != 1 {
		t.Errorf("the phase was written %d times, want only before it was restored", *writes)
	}
}

// An admission webhook may answer so, and no event follows. Pins NS-72.
func TestNotFoundOfAWriteDoesNotProveThatTheNamespaceIsGone(t *testing.T) {
	f := start(t, serving(pods)) // which has queued nothing by itself
	f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("quotas"), "q")
	})
	if err := f.finalize(f.Context(), terminating()); err != nil {
		t.Fatal(err)
	}
	due := f.Clock.Now().Add(reconcile.RecheckAfter)
	if keys := f.loop.Keys(func(string) bool { return true }); len(keys) != 1 || keys[0].Key != "ns" || !keys[0].Until.Equal(due) {
		t.Errorf("waiting are %+v", keys)
	}
}

// Pins NS-65.
func TestFinalizeStartsFromWhatTheStatusWriteReturned(t *testing.T) {
	f := start(t, serving(pods), terminating())
	f.Fake.PrependReactor("update", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		ns := action.(clienttesting.UpdateAction).GetObject().(*corev1.Namespace).DeepCopy()
		ns.ResourceVersion = "2"
		return true, ns, nil
	})
	var sent *corev1.Namespace
	f.Fake.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		return true, sent, nil
	})
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if sent == nil || sent.ResourceVersion != "2" {
		t.Errorf("finalized %+v, want resource version 2", sent)
	}
}

// Pins NS-30.
func TestFinalizeKeepsMetadataAndSpecAndLeavesStatusEmpty(t *testing.T) {
	ns := terminating(func(ns *corev1.Namespace) {
		ns.Labels = map[string]string{"a": "b"}
		ns.Spec.Finalizers = []corev1.FinalizerName{"kubernetes"}
	})
	f := start(t, serving(pods), ns)
	var sent *corev1.Namespace
	f.Fake.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		return true, sent, nil
	})
	before := ns.DeepCopy()
	if err := f.finalize(f.Context(), ns); err != nil {
		t.Fatal(err)
	}
	want := &corev1.Namespace{ObjectMeta: ns.ObjectMeta, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{}}}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("finalized (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, ns); diff != "" {
		t.Errorf("the object passed in was changed:\n%s", diff)
	}
}
