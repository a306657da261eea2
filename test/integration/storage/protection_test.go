package storage

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// client is the part of the client of a kind that tests of protection need.
type client[T metav1.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

// protection is a kind without namespaces whose objects a finalizer protects while they are used.
type protection[T metav1.Object] struct {
	client[T]
	resource  schema.GroupResource
	finalizer string
	// enabled is the switch of the controller.
	enabled func(*manager.Config) **bool
	// createUnused creates an object that nothing uses.
	createUnused func(t *testing.T, name string)
}

// create creates an object, until the end of the test.
func (p protection[T]) create(t *testing.T, object T) T {
	t.Helper()
	created := must.Get(p.Create(t.Context(), object, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = p.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})
		_, _ = p.Patch(context.Background(), object.GetName(), types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
	})
	return created
}

func (p protection[T]) delete(t *testing.T, name string) {
	t.Helper()
	must.Succeed(t, p.Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func (p protection[T]) awaitGone(t *testing.T, name string) {
	t.Helper()
	awaitGone(t, p.client, name)
}

func (p protection[T]) writes() faultproxy.Requests {
	return faultproxy.Requests{Resource: p.resource, Verbs: []string{"update"}}
}

// stays fails unless an object is being deleted and still has its finalizer once another one, which
// was deleted later, is gone.
func (p protection[T]) stays(t *testing.T, name string) {
	t.Helper()
	p.createUnused(t, name+"-later")
	p.delete(t, name+"-later")
	p.awaitGone(t, name+"-later")
	p.isHeld(t, name)
}

// isHeld fails unless an object is being deleted and has its finalizer.
func (p protection[T]) isHeld(t *testing.T, name string) {
	t.Helper()
	object := must.Get(p.Get(t.Context(), name, metav1.GetOptions{}))(t)
	if object.GetDeletionTimestamp() == nil || !slices.Contains(object.GetFinalizers(), p.finalizer) {
		t.Fatalf("%T %s: deleted at %v, finalizers %q", object, name, object.GetDeletionTimestamp(), object.GetFinalizers())
	}
}

// isRefused waits until the writes of a replica that release an object have been refused, also those of the
// next instance, which has the same cache. The events of the kind are held.
func (p protection[T]) isRefused(t *testing.T, r harness.Replica) {
	t.Helper()
	r.Asked(t, p.writes(), r.Seen(p.writes())+1) // the first answer has had its effect
	r.Restart(t, p.enabled, func() {})
	r.Asked(t, p.writes(), r.Seen(p.writes())+1)
}

// staysUnderOthers is stays, also after a restart of the controller and a takeover.
func (p protection[T]) staysUnderOthers(t *testing.T, leader harness.Replica, name string) {
	t.Helper()
	p.stays(t, name)
	leader.Restart(t, p.enabled, func() {})
	p.stays(t, name)
	successor := cluster.Behind(t, only(p.enabled)) // sooner, it would have the lease while the leader runs nothing
	must.Succeed(t, leader.Stop())
	successor.Works(t)
	p.stays(t, name)
}

// releasing creates an object and deletes it. The write of a replica that releases it is on its way
// until it is let go.
func (p protection[T]) releasing(t *testing.T) (name string, r harness.Replica, letGo func()) {
	t.Helper()
	rest(t)
	name = cluster.Namespace(t)
	r = cluster.Behind(t, only(p.enabled))
	r.Works(t)
	p.createUnused(t, name)
	writes := r.HoldRequests(p.writes())
	p.delete(t, name)
	r.Asked(t, p.writes(), 0)
	return name, r, writes.Lift
}

// end takes the finalizers off an object that is being deleted.
func end[T metav1.Object](t *testing.T, c client[T], name string) {
	t.Helper()
	must.Get(c.Patch(t.Context(), name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{}))(t)
}

func awaitGone[T metav1.Object](t *testing.T, c client[T], name string) {
	t.Helper()
	await.That(t, fmt.Sprintf("%T %s is gone", *new(T), name), func(ctx context.Context) error {
		_, err := c.Get(ctx, name, metav1.GetOptions{})
		return await.Gone(err)
	})
}

// isProtectedAgain takes the finalizer off an object that has another one, and waits until it is back.
func isProtectedAgain[T metav1.Object](t *testing.T, c client[T], name, finalizer string) {
	t.Helper()
	must.Get(c.Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["example.com/other"]}}`), metav1.PatchOptions{}))(t)
	awaitFinalizers(t, c, name, "example.com/other", finalizer)
}

func awaitFinalizers[T metav1.Object](t *testing.T, c client[T], name string, want ...string) {
	t.Helper()
	await.That(t, fmt.Sprintf("the finalizers of %s are %q", name, want), func(ctx context.Context) error {
		object, err := c.Get(ctx, name, metav1.GetOptions{})
		if err == nil && !slices.Equal(object.GetFinalizers(), want) {
			err = fmt.Errorf("they are %q", object.GetFinalizers())
		}
		return err
	})
}
