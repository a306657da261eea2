package namespace

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"kcmd.dev/pkg/controller"
)

// Pins NS-21.
func TestRecheckAfter(t *testing.T) {
	for estimate, want := range map[int64]time.Duration{
		1: time.Second, 2: 2 * time.Second, 15: 8 * time.Second, 30: 16 * time.Second, 31: 16 * time.Second,
	} {
		if got := repeatAfter(estimate); got != want {
			t.Errorf("repeatAfter(%d) = %v, want %v", estimate, got, want)
		}
	}
}

func pod(phase corev1.PodPhase, grace *int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: grace},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

// Pins NS-29a.
func TestGraceOf(t *testing.T) {
	seconds := func(s int64) *int64 { return &s }
	for name, tc := range map[string]struct {
		pods  []*corev1.Pod
		since time.Duration
		want  int64
	}{
		"no pods":                  {nil, 0, 0},
		"longest of the running":   {[]*corev1.Pod{pod(corev1.PodRunning, seconds(5)), pod(corev1.PodPending, seconds(60)), pod("", seconds(30))}, 0, 60},
		"ended pods do not count":  {[]*corev1.Pod{pod(corev1.PodSucceeded, seconds(90)), pod(corev1.PodFailed, seconds(80)), pod(corev1.PodRunning, seconds(5))}, 0, 5},
		"grace not set":            {[]*corev1.Pod{pod(corev1.PodRunning, nil)}, 0, 0},
		"unknown phase counts":     {[]*corev1.Pod{pod(corev1.PodUnknown, seconds(7))}, 0, 7},
		"not over yet":             {[]*corev1.Pod{pod(corev1.PodRunning, seconds(30))}, 29 * time.Second, 30},
		"over":                     {[]*corev1.Pod{pod(corev1.PodRunning, seconds(30))}, 30 * time.Second, 0},
		"our clock is behind":      {[]*corev1.Pod{pod(corev1.PodRunning, seconds(30))}, -time.Minute, 30},
		"no grace, clock is ahead": {[]*corev1.Pod{pod(corev1.PodRunning, seconds(0))}, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := graceOf(tc.pods, tc.since); got != tc.want {
				t.Errorf("graceOf = %d, want %d", got, tc.want)
			}
		})
	}
}

// No grace period is so long that the namespace is swept again at once. Pins NS-69.
func TestTheLongestGracePeriods(t *testing.T) {
	for _, grace := range []int64{20_000_000_000, math.MaxInt64} {
		estimate := graceOf([]*corev1.Pod{pod(corev1.PodRunning, &grace)}, time.Hour)
		if pause := repeatAfter(estimate); estimate != longestEstimate || pause < 100*365*24*time.Hour {
			t.Errorf("a grace period of %d s is taken for %d s, and the namespace is swept again after %v", grace, estimate, pause)
		}
	}
}

func TestJudge(t *testing.T) {
	item := func(finalizers ...string) metav1.Object { return &metav1.ObjectMeta{Finalizers: finalizers} }
	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		items    []metav1.Object
		estimate int64
		want     outcome
		err      string
	}{
		"NS-29d: nothing left drops the estimate": {pods, nil, 30, outcome{resource: pods}, ""},
		"NS-29e: pods that still run": {pods, []metav1.Object{item(), item()}, 30,
			outcome{resource: pods, estimate: 30, remaining: 2, finalizers: map[string]int{}}, ""},
		"NS-29e: the estimate wins over finalizers": {pods, []metav1.Object{item("a")}, 30,
			outcome{resource: pods, estimate: 30, remaining: 1, finalizers: map[string]int{"a": 1}}, ""},
		"NS-29e: finalizers are counted": {widgets, []metav1.Object{item("a", "b"), item("a"), item()}, 0,
			outcome{resource: widgets, estimate: 15, remaining: 3, finalizers: map[string]int{"a": 2, "b": 1}}, ""},
		"NS-29e, NS-53: nothing explains what is left": {pods, []metav1.Object{item()}, 0,
			outcome{resource: pods, remaining: 1, finalizers: map[string]int{}},
			"unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods"},
		"NS-29e: nor in a named group": {widgets, []metav1.Object{item()}, 0,
			outcome{resource: widgets, remaining: 1, finalizers: map[string]int{}},
			"unexpected items still remain in namespace: ns for gvr: example.com/v1, Resource=widgets"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge("ns", tc.resource, tc.items, tc.estimate)
			if text := textOf(got.err); text != tc.err {
				t.Errorf("error = %q, want %q", text, tc.err)
			}
			got.err = nil
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("judge (-want +got):\n%s", diff)
			}
		})
	}
}

// Pins NS-63.
func TestStages(t *testing.T) {
	found := resourceTypes{pods: allVerbs, secrets: allVerbs, widgets: allVerbs}
	type types = []schema.GroupVersionResource
	for name, tc := range map[string]struct {
		found    resourceTypes
		clean    sets.Set[schema.GroupVersionResource]
		together bool
		want     []types
	}{
		"nothing known":             {found, nil, false, []types{{pods}, {secrets, widgets}}},
		"clean types come last":     {found, sets.New(secrets), false, []types{{pods}, {widgets}, {secrets}}},
		"clean pods":                {found, sets.New(pods), false, []types{{pods}, {secrets, widgets}}},
		"clean types that are gone": {found, sets.New(deployments), false, []types{{pods}, {secrets, widgets}}},
		"everything is clean":       {found, sets.New(pods, secrets, widgets), false, []types{{pods}, {secrets, widgets}}},
		"NS-28c: no pods served":    {resourceTypes{secrets: nil}, nil, false, []types{{secrets}}},
		"nothing served":            {resourceTypes{}, nil, false, nil},
		"NS-67: pods with the rest": {found, sets.New(secrets), true, []types{{pods, widgets}, {secrets}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []types
			for _, s := range stages(tc.found, tc.clean, !tc.together) {
				if alone := len(s.types) == 1 && s.types[0] == pods; s.podsFirst != alone {
					t.Errorf("stage %v: podsFirst = %v", s.types, s.podsFirst)
				}
				got = append(got, s.types)
			}
			byName := cmp.Transformer("set", func(s types) sets.Set[schema.GroupVersionResource] { return sets.New(s...) })
			if diff := cmp.Diff(tc.want, got, byName); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAStageIsFollowedByTheNext(t *testing.T) {
	for name, tc := range map[string]struct {
		swept sweep
		want  bool
	}{
		"clean":                                 {sweep{{resource: secrets}}, true},
		"items remain":                          {sweep{{resource: secrets}, {resource: widgets, remaining: 1, estimate: 15}}, false},
		"an error":                              {sweep{{resource: secrets, err: errors.New("boom")}}, false},
		"NS-28a: no pods":                       {sweep{{resource: pods, podsFirst: true}}, true},
		"NS-28a: pods remain":                   {sweep{{resource: pods, podsFirst: true, remaining: 1, estimate: 30}}, false},
		"NS-28a: pods remain that should not":   {sweep{{resource: pods, podsFirst: true, remaining: 1, err: errors.New("boom")}}, false},
		"NS-28b: pods cannot be swept":          {sweep{{resource: pods, podsFirst: true, err: errors.New("boom")}}, true},
		"NS-28b: pods cannot be deleted":        {sweep{{resource: pods, podsFirst: true, estimate: 30, err: errors.New("boom")}}, true},
		"NS-28b: pods cannot be listed at last": {sweep{{resource: pods, podsFirst: true, estimate: 30}}, true},
		"the deletion of pods is stopped":       {sweep{{resource: pods, podsFirst: true, err: &controller.StoppedError{Resource: pods.GroupResource()}}}, false},
		"pods with the rest remain":             {sweep{{resource: pods, remaining: 1, estimate: 30}}, false},
	} {
		if got := tc.swept.allowsMore(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Pins NS-28d.
func TestSweepTotals(t *testing.T) {
	boom := errors.New("boom")
	s := sweep{
		{resource: pods, podsFirst: true, err: boom},
		{resource: secrets},
		{resource: widgets, remaining: 2, estimate: 15},
		{resource: deployments, remaining: 1, estimate: 7},
	}
	if got := s.estimate(); got != 15 {
		t.Errorf("estimate = %d, want the maximum 15", got)
	}
	failure := s.failure("ns", discovered{failed: errors.New("no discovery")})
	if failure.Error() != "[no discovery, failed to delete pods for namespace: ns, err: boom]" {
		t.Errorf("failure = %v", failure)
	}
	if !errors.Is(failure, boom) {
		t.Error("failure does not wrap the cause")
	}
	if err := (sweep{{resource: secrets}}).failure("ns", discovered{}); err != nil {
		t.Errorf("failure of a clean sweep = %v", err)
	}
}

func TestConditions(t *testing.T) {
	boom := errors.New("boom")
	type fields struct {
		Status          corev1.ConditionStatus
		Reason, Message string
	}
	good := []fields{
		{"False", "ResourcesDiscovered", "All resources successfully discovered"},
		{"False", "ParsedGroupVersions", "All legacy kube types successfully parsed"},
		{"False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"},
		{"False", "ContentRemoved", "All content successfully removed"},
		{"False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"},
	}
	partial := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1"}: boom}}
	for name, tc := range map[string]struct {
		found discovered
		swept sweep
		index int
		want  fields
	}{
		"NS-34: all good": {want: good[0]},
		"NS-35: partial discovery": {found: discovered{failed: partial},
			want: fields{"True", "DiscoveryFailed", "Discovery failed for some groups, 1 failing: " + partial.Error()}},
		"NS-35: no discovery": {found: discovered{failed: boom}, want: fields{"True", "DiscoveryFailed", "boom"}},
		"NS-36: unparsable":   {found: discovered{unparsable: boom}, index: 1, want: fields{"True", "GroupVersionParsingFailed", "boom"}},
		"NS-37: errors are counted and sorted": {swept: sweep{{resource: widgets, err: errors.New("z")}, {resource: pods, err: errors.New("a")}}, index: 2,
			want: fields{"True", "ContentDeletionFailed", "Failed to delete all resource types, 2 remaining: a, z"}},
		"NS-38: items are counted and sorted": {swept: sweep{{resource: secrets, remaining: 2}, {resource: deployments, remaining: 1}}, index: 3,
			want: fields{"True", "SomeResourcesRemain", "Some resources are remaining: deployments.apps has 1 resource instances, secrets. has 2 resource instances"}},
		"NS-39: finalizers add up over types": {swept: sweep{
			{resource: secrets, remaining: 2, finalizers: map[string]int{"b": 2}},
			{resource: deployments, remaining: 3, finalizers: map[string]int{"b": 1, "a": 3}}}, index: 4,
			want: fields{"True", "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: a in 3 resource instances, b in 3 resource instances"}},
		"NS-41: remaining pods are not told":     {swept: sweep{{resource: pods, podsFirst: true, remaining: 2}}, index: 3, want: good[3]},
		"NS-41: finalizers of pods neither":      {swept: sweep{{resource: pods, podsFirst: true, remaining: 2, finalizers: map[string]int{"a": 2}}}, index: 4, want: good[4]},
		"NS-29f: errors of pods are not wrapped": {swept: sweep{{resource: pods, err: boom}}, index: 2, want: fields{"True", "ContentDeletionFailed", "Failed to delete all resource types, 1 remaining: boom"}},
	} {
		t.Run(name, func(t *testing.T) {
			order := []corev1.NamespaceConditionType{
				"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
				"NamespaceDeletionContentFailure", "NamespaceContentRemaining", "NamespaceFinalizersRemaining",
			}
			got := findingsOf(tc.found, tc.swept).conditions()
			for i, c := range got {
				if c.Type != order[i] {
					t.Errorf("condition %d is %s, want %s", i, c.Type, order[i])
				}
				want := good[i]
				if i == tc.index {
					want = tc.want
				} else if c.Status == corev1.ConditionTrue {
					continue // a finding can concern two conditions; each has its own case
				}
				if diff := cmp.Diff(want, fields{c.Status, c.Reason, c.Message}); diff != "" {
					t.Errorf("%s (-want +got):\n%s", c.Type, diff)
				}
			}
			if len(got) != len(order) {
				t.Errorf("%d conditions, want %d", len(got), len(order))
			}
		})
	}
}

// Pins NS-40.
func TestMerge(t *testing.T) {
	before, now := metav1.NewTime(epoch), epoch.Add(time.Minute)
	is := func(kind, status, message string, at time.Time) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: corev1.NamespaceConditionType(kind), Status: corev1.ConditionStatus(status), Message: message, LastTransitionTime: metav1.NewTime(at)}
	}
	want := func(kind, status, message string) corev1.NamespaceCondition {
		return is(kind, status, message, time.Time{})
	}
	for name, tc := range map[string]struct {
		current, wanted, merged []corev1.NamespaceCondition
		changed                 bool
	}{
		"new condition":     {nil, []corev1.NamespaceCondition{want("A", "True", "m")}, []corev1.NamespaceCondition{is("A", "True", "m", now)}, true},
		"unchanged":         {[]corev1.NamespaceCondition{is("A", "True", "m", before.Time)}, []corev1.NamespaceCondition{want("A", "True", "m")}, []corev1.NamespaceCondition{is("A", "True", "m", before.Time)}, false},
		"message changed":   {[]corev1.NamespaceCondition{is("A", "True", "m", before.Time)}, []corev1.NamespaceCondition{want("A", "True", "n")}, []corev1.NamespaceCondition{is("A", "True", "n", before.Time)}, true},
		"status changed":    {[]corev1.NamespaceCondition{is("A", "True", "m", before.Time)}, []corev1.NamespaceCondition{want("A", "False", "m")}, []corev1.NamespaceCondition{is("A", "False", "m", now)}, true},
		"foreign condition": {[]corev1.NamespaceCondition{is("X", "True", "x", before.Time)}, []corev1.NamespaceCondition{want("A", "True", "m")}, []corev1.NamespaceCondition{is("X", "True", "x", before.Time), is("A", "True", "m", now)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			untouched := append([]corev1.NamespaceCondition(nil), tc.current...)
			got, changed := merge(tc.current, tc.wanted, now)
			if diff := cmp.Diff(tc.merged, got); diff != "" || changed != tc.changed {
				t.Errorf("merge changed %v, want %v (-want +got):\n%s", changed, tc.changed, diff)
			}
			if diff := cmp.Diff(untouched, tc.current); diff != "" {
				t.Errorf("the current conditions were changed:\n%s", diff)
			}
		})
	}
}

// Pins NS-30.
func TestWithoutOurs(t *testing.T) {
	type list = []corev1.FinalizerName
	for name, tc := range map[string]struct{ have, want list }{
		"ours alone":            {list{"kubernetes"}, list{}},
		"others are sorted":     {list{"z", "kubernetes", "a"}, list{"a", "z"}},
		"duplicates go as well": {list{"a", "kubernetes", "a", "kubernetes"}, list{"a"}},
		"no finalizers":         {nil, list{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, withoutOurs(tc.have)); diff != "" {
				t.Errorf("withoutOurs (-want +got):\n%s", diff)
			}
		})
	}
}

// Pins NS-61.
func TestDiscoveredServes(t *testing.T) {
	complete := func(began time.Duration) discovered {
		return discovered{began: epoch.Add(began), ended: epoch.Add(began + time.Second)}
	}
	broken := complete(5 * time.Second)
	broken.failed = errors.New("boom")
	unparsable := complete(5 * time.Second)
	unparsable.unparsable = errors.New("boom")
	for name, tc := range map[string]struct {
		d          discovered
		asked, now time.Duration
		want       bool
	}{
		"none yet":                             {discovered{}, 6 * time.Second, 6 * time.Second, false},
		"began after the deletion was seen":    {complete(5 * time.Second), 6 * time.Second, 6 * time.Second, true},
		"began before":                         {complete(-5 * time.Second), 6 * time.Second, 6 * time.Second, false},
		"began too soon after":                 {complete(settleTime - 1), 6 * time.Second, 6 * time.Second, false},
		"began just late enough":               {complete(settleTime), 6 * time.Second, 6 * time.Second, true},
		"too old":                              {complete(5 * time.Second), 65 * time.Second, 65 * time.Second, false},
		"failed":                               {broken, 6 * time.Second, 6 * time.Second, false},
		"failed while one was waiting for it":  {broken, 5500 * time.Millisecond, 6 * time.Second, true},
		"unparsable":                           {unparsable, 6 * time.Second, 6 * time.Second, false},
		"unparsable, one was waiting for that": {unparsable, 5500 * time.Millisecond, 6 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.d.serves(epoch, epoch.Add(tc.asked), epoch.Add(tc.now)); got != tc.want {
				t.Errorf("serves = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDiscover(t *testing.T) {
	t.Run("NS-27b: only types that can be deleted", func(t *testing.T) {
		s := serving(pods, widgets)
		s.add(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "localsubjectaccessreviews"}, "create")
		s.add(secrets, "delete", "list")
		got := discover(s)
		if got.failed != nil || got.unparsable != nil || len(got.types) != 3 {
			t.Fatalf("discover = %+v", got)
		}
		if !got.types.supports(pods, "deletecollection") || got.types.supports(secrets, "deletecollection") || !got.types.supports(secrets, "list") {
			t.Errorf("verbs = %v", got.types)
		}
	})
	t.Run("NS-27a: a partial failure keeps the rest", func(t *testing.T) {
		s := serving(pods)
		s.err = &discovery.ErrGroupDiscoveryFailed{}
		if got := discover(s); got.failed == nil || len(got.types) != 1 {
			t.Errorf("discover = %+v", got)
		}
	})
	t.Run("NS-27b: one unparsable group version loses all", func(t *testing.T) {
		s := serving(pods)
		s.lists = append(s.lists, &metav1.APIResourceList{GroupVersion: "a/b/c", APIResources: []metav1.APIResource{{Name: "x", Verbs: allVerbs}}})
		if got := discover(s); got.unparsable == nil || got.failed != nil || len(got.types) != 0 {
			t.Errorf("discover = %+v", got)
		}
	})
	t.Run("NS-66: an empty answer is not believed", func(t *testing.T) {
		if got := discover(&server{}); !errors.Is(got.failed, errNothingDiscovered) {
			t.Errorf("discover = %+v", got)
		}
	})
}

// Pins NS-20 and NS-50.
func TestBackoff(t *testing.T) {
	b := newBackoff()
	var last time.Duration
	for range 20 {
		last = b.TypedRateLimiter.When("ns")
	}
	if last != time.Minute {
		t.Errorf("delay after 20 failures = %v, want the cap of one minute", last)
	}
	b.keep("ns")
	b.Forget("ns")
	if got := b.NumRequeues("ns"); got != 20 {
		t.Errorf("failures = %d after a reconcile that left content, want 20", got)
	}
	b.Forget("ns")
	if got := b.NumRequeues("ns"); got != 0 {
		t.Errorf("failures = %d after a success, want 0", got)
	}
	if got := b.When("ns"); got != 5*time.Millisecond {
		t.Errorf("first delay = %v, want 5ms", got)
	}
}
