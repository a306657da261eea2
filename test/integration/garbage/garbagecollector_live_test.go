package garbage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// slowly waits for the garbage collector to notice that a kind came or went, for which it
// looks every 30 seconds of its clock.
func slowly(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	await.Within(t, 75*time.Second, what, check)
}

// gadgets are a custom kind of a test.
type gadgets struct {
	definitions dynamic.ResourceInterface
	objects     dynamic.ResourceInterface
	group       string
}

func (g gadgets) define(t *testing.T) {
	t.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "gadgets." + g.group},
		"spec": map[string]any{
			"group": g.group, "scope": "Namespaced",
			"names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	must.Get(g.definitions.Create(t.Context(), definition, metav1.CreateOptions{}))(t)
}

func (g gadgets) undefine(t *testing.T) {
	t.Helper()
	if err := g.definitions.Delete(t.Context(), "gadgets."+g.group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (g gadgets) create(t *testing.T, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": g.group + "/v1", "kind": "Gadget", "metadata": map[string]any{"name": name},
	}}
	object.SetOwnerReferences(owners)
	var created *unstructured.Unstructured
	await.That(t, "gadgets are served", func(ctx context.Context) (err error) {
		created, err = g.objects.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	return created
}

func (g gadgets) ref(object *unstructured.Unstructured) metav1.OwnerReference {
	return ownedBy(g.group+"/v1", "Gadget", object)
}

// watched returns the status of the informer of the kind, nil if there is none.
func (g gadgets) watched(ctx context.Context) (*bool, error) {
	status, err := cluster.Manager.Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, informer := range status.Informers {
		if informer.Group == g.group {
			return ptr.To(informer.Synced), nil
		}
	}
	return nil, nil
}

// testCollectorCustomKinds has owners and dependents of a kind that comes and goes
// while the manager runs.
func testCollectorCustomKinds(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	client := must.Get(dynamic.NewForConfig(cluster.AdminConfig()))(t)
	g := gadgets{group: strings.ReplaceAll(namespace, "-", "") + ".test.kcmd.dev"}
	g.definitions = client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	g.objects = client.Resource(schema.GroupVersionResource{Group: g.group, Version: "v1", Resource: "gadgets"}).Namespace(namespace)
	g.define(t)
	owner := g.create(t, "owner")
	builtIn := createOwned(t, namespace, "built-in", g.ref(owner))
	shared := createOwned(t, namespace, "stays")
	g.create(t, "dependent", byConfigMap(builtIn))
	g.create(t, "shared", byConfigMap(builtIn), byConfigMap(shared))
	g.create(t, "orphaned", byConfigMap(createOwned(t, namespace, "leaves")))
	slowly(t, "the new kind is watched", func(ctx context.Context) error {
		synced, err := g.watched(ctx)
		if err == nil && (synced == nil || !*synced) {
			err = errors.New("it is not")
		}
		return err
	})

	deleteConfigMap(t, namespace, "leaves", metav1.DeletePropagationOrphan)
	waitForConfigMapGone(t, namespace, "leaves")
	if left := must.Get(g.objects.Get(t.Context(), "orphaned", metav1.GetOptions{}))(t); len(left.GetOwnerReferences()) > 0 {
		t.Errorf("the orphan has the owners %v", left.GetOwnerReferences())
	}
	if err := g.objects.Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	slowly(t, "the cascade across kinds is complete", func(ctx context.Context) error {
		if _, err := getConfigMap(ctx, namespace, "built-in"); await.Gone(err) != nil {
			return fmt.Errorf("built-in: %w", await.Gone(err))
		}
		if _, err := g.objects.Get(ctx, "dependent", metav1.GetOptions{}); await.Gone(err) != nil {
			return fmt.Errorf("dependent: %w", await.Gone(err))
		}
		left, err := g.objects.Get(ctx, "shared", metav1.GetOptions{})
		if err == nil && len(left.GetOwnerReferences()) != 1 {
			err = fmt.Errorf("the shared dependent has the owners %v", left.GetOwnerReferences())
		}
		return err
	})

	last := g.create(t, "last")
	createOwned(t, namespace, "of-last", g.ref(last))
	g.undefine(t)
	waitForConfigMapGone(t, namespace, "of-last")
	slowly(t, "the kind is not watched any more", func(ctx context.Context) error {
		synced, err := g.watched(ctx)
		if err == nil && synced != nil {
			err = errors.New("it is")
		}
		return err
	})
}

// TestGarbageCollectorSurvivesRestarts replaces the instance in the middle of a cascade of
// 500 objects, in each of the three ways, while owners go on disappearing.
func TestGarbageCollectorSurvivesRestarts(t *testing.T) {
	const owners, dependents = 20, 25
	namespace := cluster.NamespaceForPods(t)
	created := make([]*corev1.ConfigMap, owners)
	parallel(t, owners, func(i int) error {
		owner, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("owner-", i)}}, metav1.CreateOptions{})
		created[i] = owner
		return err
	})
	parallel(t, owners*dependents, func(i int) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprint("dependent-", i),
			Labels:          map[string]string{"owner": fmt.Sprint(i % owners)},
			OwnerReferences: []metav1.OwnerReference{blockingOwner(byConfigMap(created[i%owners]))},
		}}
		_, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		return err
	})

	policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, metav1.DeletePropagationBackground}
	remove := func(first, end int) {
		parallel(t, end-first, func(i int) error {
			return admin.CoreV1().ConfigMaps(namespace).Delete(t.Context(), created[first+i].Name, metav1.DeleteOptions{PropagationPolicy: &policies[(first+i)%4]})
		})
	}
	before := cluster.Manager.Config().Controllers.GarbageCollector.ConcurrentSyncs
	cluster.Restore(t, func(c *manager.Config) { c.Controllers.GarbageCollector.ConcurrentSyncs = before })
	remove(0, owners/2)
	for n := range 4 {
		// The deletes go on while the instance is replaced.
		var deleting sync.WaitGroup
		first := owners/2 + n*2
		deleting.Go(func() { remove(first, first+2) })
		err := cluster.Manager.Edit(t.Context(), func(c *manager.Config) { c.Controllers.GarbageCollector.ConcurrentSyncs = ptr.To(int32(5 + n)) })
		deleting.Wait()
		if err != nil {
			t.Fatal(err)
		}
	}
	remove(owners-2, owners)

	await.That(t, "all but the orphans are gone, and these are nobody's", func(ctx context.Context) error {
		list, err := admin.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		orphans, others := 0, 0
		for _, object := range list.Items {
			switch {
			case object.Labels["owner"] != "" && len(object.OwnerReferences) == 0:
				orphans++
			case object.Name != "kube-root-ca.crt":
				others++
			}
		}
		if want := owners / 4 * dependents; orphans != want || others != 0 {
			return fmt.Errorf("there are %d orphans, want %d, and %d others", orphans, want, others)
		}
		return nil
	})
}

// parallel calls do with the numbers from 0, a few at a time.
func parallel(t *testing.T, count int, do func(i int) error) {
	t.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, 16)
	errs := make([]error, count)
	for i := range count {
		slots <- struct{}{}
		running.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// testCollectorShowsItsGraph reads the debugging page.
func testCollectorShowsItsGraph(t *testing.T) {
	namespace := cluster.NamespaceForPods(t)
	owner := createOwned(t, namespace, "owner")
	dependent := createOwned(t, namespace, "dependent", byConfigMap(owner))
	edge := fmt.Sprintf("%q -> %q;", dependent.UID, owner.UID)
	await.That(t, "the graph has the edge", func(ctx context.Context) error {
		page, err := cluster.Manager.Get(ctx, "/debug/controllers/"+garbageCollector+"/graph?uid="+string(owner.UID))
		if err == nil && !strings.Contains(string(page), edge) {
			err = fmt.Errorf("it is %s", page)
		}
		return err
	})
	if _, err := cluster.Manager.Get(t.Context(), "/debug/controllers/"+garbageCollector+"/other"); err == nil {
		t.Error("there is another page")
	}
}
