package garbagecollector

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/runtime/informers/informerstest"
	"kcmd.dev/test/controllertest"
)

// catalogue is a discovery whose answer a test sets.
type catalogue struct {
	discovery.DiscoveryInterface
	mu    sync.Mutex
	lists []*metav1.APIResourceList
	err   error
	asked int
}

func (c *catalogue) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.lists, c.err
}

// looks is how often it was asked.
func (c *catalogue) looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *catalogue) set(err error, lists ...*metav1.APIResourceList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists, c.err = lists, err
}

func served(gv string, kinds ...string) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: gv}
	for _, kind := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: kind != "Node",
			Verbs: metav1.Verbs{"get", "list", "watch", "delete"},
		})
	}
	return list
}

// world is a collector on a fake API server.
type world struct {
	*collector
	env    *controllertest.Env
	server *metadatafake.FakeMetadataClient
	served *catalogue
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	return newWorldServing(t, nil, objects...)
}

// newWorldServing makes a world in which a standby knows what is served.
func newWorldServing(t *testing.T, known []*metav1.APIResourceList, objects ...runtime.Object) *world {
	t.Helper()
	env := controllertest.New(t)
	env.Env.Served = func() []*metav1.APIResourceList { return known }
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{env: env, server: metadatafake.NewSimpleMetadataClient(scheme, objects...), served: &catalogue{}}
	w.served.set(nil, served("v1", "ConfigMap", "Secret", "Node"))
	env.Env.Metadata, env.Env.Discovery, env.Env.Mapper = w.server, w.served, newMapper()
	env.Env.Informers = informerstest.NewScopeWithMetadata(t, env.Fake, w.server)
	w.collector = newCollector(env.Env, config{concurrentSyncs: 2})
	return w
}

func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	v1 := schema.GroupVersion{Version: "v1"}
	mapper.Add(v1.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(v1.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(v1.WithKind("Node"), meta.RESTScopeRoot)
	return mapper
}

// typed completes an object for the fake server.
func typed(m *monitored, o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	o.APIVersion, o.Kind = m.apiVersion, m.kind
	return o
}

func (w *world) exists(t *testing.T, m *monitored, namespace, name string) bool {
	t.Helper()
	_, err := w.server.Resource(m.resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// writes renders the writes to the fake server.
func (w *world) writes() []string {
	var all []string
	for _, action := range w.server.Actions() {
		switch a := action.(type) {
		case clienttesting.DeleteActionImpl:
			p := a.DeleteOptions.Preconditions
			text := fmt.Sprintf("delete %s %s %s", a.Name, *a.DeleteOptions.PropagationPolicy, *p.UID)
			if p.ResourceVersion != nil {
				text += "@" + *p.ResourceVersion
			}
			all = append(all, text)
		case clienttesting.PatchActionImpl:
			all = append(all, fmt.Sprintf("patch %s %s", a.Name, a.Patch))
		}
	}
	return all
}

// node returns the node of a UID.
func (w *world) node(uid string) *node {
	w.graph.mu.RLock()
	defer w.graph.mu.RUnlock()
	for id, n := range w.graph.nodes {
		if string(id) == uid {
			return n
		}
	}
	return nil
}

// settle waits until everything has been replayed and looked at, and changes are noticed.
func (w *world) settle(t *testing.T) {
	t.Helper()
	controllertest.Eventually(t, "the start is over", func() bool { return w.startWorker.isOpen() && len(w.attempt.left()) == 0 })
	controllertest.AwaitWatches(t, &w.server.Fake)
}
