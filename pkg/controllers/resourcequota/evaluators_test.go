package resourcequota

import (
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fixed is an evaluator with a result.
type fixed struct {
	names []corev1.ResourceName
	used  corev1.ResourceList
	err   error
}

func (f *fixed) limitedBy(name corev1.ResourceName) bool             { return slices.Contains(f.names, name) }
func (f *fixed) usage(string, selected) (corev1.ResourceList, error) { return f.used, f.err }
func (f *fixed) forget(string)                                       {}

func TestUsage(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		evaluators map[schema.GroupResource]evaluator
		hard, want string
		err        string
	}{
		"QUOTA-30: nobody knows the name": {hard: "a=1"},
		"QUOTA-48: zero where there is nothing": {
			evaluators: map[schema.GroupResource]evaluator{{Resource: "x"}: &fixed{names: []corev1.ResourceName{"a"}}},
			hard:       "a=1", want: "a=0",
		},
		"QUOTA-30: only what is limited": {
			evaluators: map[schema.GroupResource]evaluator{{Resource: "x"}: &fixed{names: []corev1.ResourceName{"a", "b"}, used: list("a=2 b=3")}},
			hard:       "a=1", want: "a=2",
		},
		"QUOTA-59: two that know the same name": {
			evaluators: map[schema.GroupResource]evaluator{
				{Resource: "x"}: &fixed{names: []corev1.ResourceName{"a"}, used: list("a=2")},
				{Resource: "y"}: &fixed{names: []corev1.ResourceName{"a"}, used: list("a=3")},
			},
			hard: "a=1", want: "a=5",
		},
		"QUOTA-30: a failure leaves out its names": {
			evaluators: map[schema.GroupResource]evaluator{
				{Resource: "x"}: &fixed{names: []corev1.ResourceName{"a", "b"}, used: list("a=2 b=2")},
				{Resource: "y"}: &fixed{names: []corev1.ResourceName{"a", "c"}, err: boom},
			},
			hard: "a=1 b=1 c=1", want: "b=2", err: "boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvaluators(test.evaluators)
			got, err := e.usage("ns", slices.Sorted(maps.Keys(list(test.hard))), selected{})
			if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("error is %v, want %q", err, test.err)
			}
			wantList(t, got, test.want)
		})
	}
}

func TestCounters(t *testing.T) {
	core := func(resource string) schema.GroupVersionResource {
		return corev1.SchemeGroupVersion.WithResource(resource)
	}
	widgets := schema.GroupVersionResource{Group: "test.kcmd.dev", Version: "v1", Resource: "widgets"}
	known := func() bool { return true }
	for name, test := range map[string]struct {
		resource schema.GroupVersionResource
		names    []corev1.ResourceName
	}{
		"QUOTA-47: configmaps":             {core("configmaps"), []corev1.ResourceName{"count/configmaps", "configmaps"}},
		"QUOTA-47: quotas":                 {core("resourcequotas"), []corev1.ResourceName{"count/resourcequotas", "resourcequotas"}},
		"QUOTA-47: replicationcontrollers": {core("replicationcontrollers"), []corev1.ResourceName{"count/replicationcontrollers", "replicationcontrollers"}},
		"QUOTA-47: secrets":                {core("secrets"), []corev1.ResourceName{"count/secrets", "secrets"}},
		"QUOTA-47: all others":             {core("endpoints"), []corev1.ResourceName{"count/endpoints"}},
		"QUOTA-44: of a group":             {widgets, []corev1.ResourceName{"count/widgets.test.kcmd.dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newCounter(test.resource, known).names; !slices.Equal(got, test.names) {
				t.Errorf("names are %q, want %q", got, test.names)
			}
		})
	}
	c := newCounter(core("secrets"), known)
	c.count("ns", 1)
	c.count("ns", 1)
	c.count("other", 1)
	c.count("other", -1)
	if len(c.objects) != 1 {
		t.Errorf("remembers %v", c.objects)
	}
	for name, test := range map[string]struct {
		spec corev1.ResourceQuotaSpec
		want string
	}{
		"QUOTA-48: no scope":   {want: "secrets=2 count/secrets=2"},
		"QUOTA-48: a scope":    {spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"Terminating"}}},
		"QUOTA-48: a selector": {spec: corev1.ResourceQuotaSpec{ScopeSelector: where("PriorityClass", "DoesNotExist")}},
	} {
		t.Run(name, func(t *testing.T) {
			used, err := c.usage("ns", selectedBy(test.spec))
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, used, test.want)
		})
	}
	c.complete = func() bool { return false }
	if _, err := c.usage("ns", selected{}); err == nil || err.Error() != "/v1, Resource=secrets not yet synced" {
		t.Errorf("not all are known: %v", err)
	}
}

// Pins QUOTA-41.
func TestEvaluatorsComeAndGo(t *testing.T) {
	e := newEvaluators(nil)
	known := func() bool { return true }
	old := newCounter(schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "widgets"}, known)
	new := newCounter(schema.GroupVersionResource{Group: "g", Version: "v2", Resource: "widgets"}, known)
	e.add(old)
	e.add(new)
	e.remove(old)
	if got := e.of(schema.GroupResource{Group: "g", Resource: "widgets"}); got != new || !e.know("count/widgets.g") {
		t.Errorf("got %v", got)
	}
	e.remove(new)
	if e.of(schema.GroupResource{Group: "g", Resource: "widgets"}) != nil || e.know("count/widgets.g") {
		t.Error("it is still there")
	}
}

func resourceList(group string, namespaced bool, resource string, verbs ...string) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: group, APIResources: []metav1.APIResource{{Name: resource, Namespaced: namespaced, Verbs: verbs}}}
}

func TestCountable(t *testing.T) {
	all := []string{"create", "list", "watch", "delete"}
	for name, test := range map[string]struct {
		list *metav1.APIResourceList
		want bool
	}{
		"QUOTA-9: all verbs":            {resourceList("v1", true, "configmaps", all...), true},
		"QUOTA-9: cannot be created":    {resourceList("v1", true, "x", "list", "watch", "delete"), false},
		"QUOTA-9: cannot be watched":    {resourceList("v1", true, "x", "create", "list", "delete"), false},
		"QUOTA-9: is not namespaced":    {resourceList("v1", false, "nodes", all...), false},
		"QUOTA-89: cannot be parsed":    {resourceList("a/b/c", true, "x", all...), false},
		"QUOTA-10: events":              {resourceList("v1", true, "events", all...), false},
		"QUOTA-10: events of the group": {resourceList("events.k8s.io/v1", true, "events", all...), false},
		"QUOTA-10: bindings":            {resourceList("v1", true, "bindings", all...), false},
		"QUOTA-10: access reviews":      {resourceList("authorization.k8s.io/v1", true, "localsubjectaccessreviews", all...), false},
		"QUOTA-10: events of another":   {resourceList("example.com/v1", true, "events", all...), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(countable(t.Context(), []*metav1.APIResourceList{test.list})) == 1; got != test.want {
				t.Errorf("counted is %v, want %v", got, test.want)
			}
		})
	}
}

// What failed to answer keeps its version. Pins QUOTA-38.
func TestGroupsThatAreSilentKeepTheirResources(t *testing.T) {
	v1 := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "widgets"}
	v2 := schema.GroupVersionResource{Group: "g", Version: "v2", Resource: "widgets"}
	gone := schema.GroupVersionResource{Group: "h", Version: "v1", Resource: "gadgets"}
	found := resources{v2.GroupResource(): v2}
	found.keepUndiscovered(resources{v1.GroupResource(): v1, gone.GroupResource(): gone}, map[schema.GroupVersion]error{v1.GroupVersion(): errors.New("silent")})
	if len(found) != 1 || found[v1.GroupResource()] != v1 {
		t.Errorf("got %v", found)
	}
}

func TestLacksUsage(t *testing.T) {
	for name, test := range map[string]struct {
		spec, hard, used string
		want             bool
	}{
		"QUOTA-20: no status":                    {spec: "pods=1", want: true},
		"QUOTA-20: other limits":                 {spec: "pods=1", hard: "pods=2", used: "pods=0", want: true},
		"QUOTA-20: a limit less":                 {spec: "pods=1", hard: "pods=1 cpu=1", used: "pods=0", want: true},
		"QUOTA-20: no usage":                     {spec: "pods=1", hard: "pods=1", want: true},
		"QUOTA-20: no usage of one":              {spec: "pods=1 cpu=1", hard: "pods=1 cpu=1", used: "pods=1", want: true},
		"QUOTA-20: no usage of one nobody knows": {spec: "pods=1 x=1", hard: "pods=1 x=1", used: "pods=1"},
		"QUOTA-20: complete":                     {spec: "cpu=1", hard: "cpu=1000m", used: "cpu=0"},
		"QUOTA-20: no limits":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			quota := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list(test.spec)},
				Status: corev1.ResourceQuotaStatus{Hard: list(test.hard), Used: list(test.used)}}
			if got := lacksUsage(quota, limitsPod); got != test.want {
				t.Errorf("lacks usage is %v, want %v", got, test.want)
			}
		})
	}
}
