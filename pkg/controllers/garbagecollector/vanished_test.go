package garbagecollector

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// noResource is the answer of an API server that has no such resource.
func noResource() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{}, "", "404 page not found", 0, true)
}

// TestEvidenceThatAKindIsGone takes all of it away, and then one piece after the other.
// Pins GC-90.
func TestEvidenceThatAKindIsGone(t *testing.T) {
	definition := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.x"},
	}
	silent := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "x", Version: "v2"}: errors.New("down")}}
	others := served("v1", "ConfigMap", "Secret", "Node")
	readOnly := served("x/v2", "Widget")
	readOnly.APIResources[0].Verbs = metav1.Verbs{"get"}
	for name, c := range map[string]struct {
		err       error
		lists     []*metav1.APIResourceList
		objects   []runtime.Object
		list, get error // of the resource, of its definition
		gone      bool
	}{
		"nothing is left of it":                     {lists: []*metav1.APIResourceList{others}, list: noResource(), gone: true},
		"the group has other kinds":                 {lists: []*metav1.APIResourceList{others, served("x/v1", "Gadget")}, list: noResource(), gone: true},
		"discovery left the group out":              {lists: []*metav1.APIResourceList{others}},
		"discovery left it out, its server is down": {lists: []*metav1.APIResourceList{others}, list: apierrors.NewServiceUnavailable("no endpoints")},
		"a version could not be asked":              {err: silent, lists: []*metav1.APIResourceList{others}, list: noResource()},
		"nothing could be asked":                    {err: errors.New("down"), list: noResource()},
		"it cannot be watched any more":             {lists: []*metav1.APIResourceList{others, readOnly}, list: noResource()},
		"it is defined, but not served":             {lists: []*metav1.APIResourceList{others}, objects: []runtime.Object{definition}, list: noResource()},
		"its definition cannot be read":             {lists: []*metav1.APIResourceList{others}, list: noResource(), get: errors.New("boom")},
		"definitions are not served":                {lists: []*metav1.APIResourceList{others}, list: noResource(), get: noResource()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.objects...)
			w.served.set(c.err, c.lists...)
			w.server.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) { return c.list != nil, nil, c.list })
			w.server.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return c.get != nil, nil, c.get })
			beta := widgets("v1beta1")
			seen := w.discover(t.Context())
			if got := seen.lacks(beta.resource.GroupResource()) && w.isGone(t.Context(), beta.resource); got != c.gone {
				t.Errorf("it is gone: %v", got)
			}
		})
	}
}

// TestKindsVanishAfterAWhile looks at kinds again and again.
// Pins GC-90.
func TestKindsVanishAfterAWhile(t *testing.T) {
	kind := widgets("v1").resource.GroupResource()
	gone, there := map[schema.GroupResource]bool{kind: true}, map[schema.GroupResource]bool{}
	now := time.Now()
	v := vanishing{}
	for _, step := range []struct {
		after time.Duration
		gone  map[schema.GroupResource]bool
		want  bool
	}{
		{0, gone, false},
		{vanishedAfter - time.Second, gone, false},
		{time.Second, there, false},
		{time.Second, gone, false},
		{vanishedAfter - time.Second, gone, false},
		{time.Second, gone, true},
		{time.Hour, there, false},
		{time.Hour, gone, false},
	} {
		now = now.Add(step.after)
		if got := v.update(step.gone, now)[kind]; got != step.want {
			t.Errorf("after %v with %v: %v, want %v", step.after, step.gone, got, step.want)
		}
	}
}

// TestForgettingAKind lets an owner go that waits for objects of a kind that is gone. The log names it.
func TestForgettingAKind(t *testing.T) {
	w := family(t, foreground)
	w.server.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, noResource() })
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	look := func() { w.forgetVanished(ctx, w.discover(ctx)) }
	look()
	w.env.Clock.Step(vanishedAfter - time.Second)
	look()
	if blocking, _ := w.graph.blockers(w.node("parent")); blocking != 1 {
		t.Error("it is forgotten too early")
	}
	w.env.Clock.Step(time.Second)
	look()
	if blocking, _ := w.graph.blockers(w.node("parent")); blocking != 0 || w.node("child") != nil {
		t.Error("it is not forgotten")
	}
	if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(log, `"widgets"`) {
		t.Errorf("the log is %s", log)
	}
	w.server.ClearActions()
	look()
	if len(w.server.Actions()) > 0 {
		t.Error("what is forgotten is asked for")
	}
}
