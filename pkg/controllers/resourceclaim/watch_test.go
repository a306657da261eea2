package resourceclaim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// handlers are what the controller adds to the informers.
type handlers struct{ pods, claims, templates, groups cache.ResourceEventHandler }

func handlersOf(s *subject) handlers {
	var pods, claims, templates, groups controllertest.Captured
	s.c.watch(&pods, &claims, &templates, &groups)
	return handlers{pods.Handler, claims.Handler, templates.Handler, groups.Handler}
}

func TestPodEvents(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	done := controllertest.InPhase(corev1.PodSucceeded)
	needy := pod(with(gpu))
	finished := pod(done, with(gpu, ofTemplate("nic", "template"), ofClaim("x", "static"), ofTemplate("y", "template")), recorded("gpu", "claim"), notNeeded("y"),
		func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
		})
	all := []string{"claim:ns/claim", "claim:ns/static", "claim:ns/extended"}
	unrecorded := pod(controllertest.InPhase(corev1.PodFailed), with(gpu), uid[*corev1.Pod]("unrecorded"))
	for name, tc := range map[string]struct {
		event func(handlers)
		want  []string
	}{
		"RCLM-9, RCLM-16: added": {func(h handlers) { h.pods.OnAdd(needy, false) }, []string{"pod:ns/pod"}},
		"RCLM-9: replayed":       {func(h handlers) { h.pods.OnAdd(needy, true) }, []string{"backlog pod:ns/pod"}},
		"RCLM-9: updated": {func(h handlers) {
			h.pods.OnUpdate(pod(uid[*corev1.Pod]("pod")), pod(with(gpu), func(p *corev1.Pod) { p.ResourceVersion = "2" }))
		}, []string{"pod:ns/pod"}},
		"RCLM-9: resynced":                   {func(h handlers) { h.pods.OnUpdate(needy, needy) }, []string{"backlog pod:ns/pod"}},
		"RCLM-10: has no claims":             {func(h handlers) { h.pods.OnAdd(pod(done), false) }, nil},
		"RCLM-10, RCLM-30: done":             {func(h handlers) { h.pods.OnAdd(finished, false) }, all},
		"RCLM-10: deleted":                   {func(h handlers) { h.pods.OnDelete(finished) }, all},
		"RCLM-8: deleted, as seen later":     {func(h handlers) { h.pods.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/pod", Obj: finished}) }, all},
		"RCLM-8: something else":             {func(h handlers) { h.pods.OnAdd(template(), false) }, nil},
		"RCLM-10: deleted, nothing recorded": {func(h handlers) { h.pods.OnDelete(needy) }, nil},
		"RCLM-10: terminating without a node": {func(h handlers) {
			h.pods.OnAdd(pod(controllertest.Terminating, with(gpu), recorded("gpu", "claim")), false)
		}, []string{"claim:ns/claim"}},
		"RCLM-11: terminating on its node": {func(h handlers) {
			h.pods.OnAdd(pod(controllertest.Terminating, controllertest.OnNode("node"), with(gpu)), false)
		}, nil},
		"RCLM-62: failed, nothing recorded": {func(h handlers) { h.pods.OnAdd(unrecorded, false) }, []string{"claim:ns/generated"}},
		"RCLM-62: deleted, nothing recorded": {func(h handlers) {
			h.pods.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/pod", Obj: unrecorded})
		}, []string{"claim:ns/generated"}},
		"RCLM-57: replaced while nobody watched": {func(h handlers) {
			h.pods.OnUpdate(pod(with(gpu), recorded("gpu", "claim")), pod(uid[*corev1.Pod]("another"), with(gpu)))
		}, []string{"claim:ns/claim", "pod:ns/pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, podKey, claim(generatedFor("unrecorded", "gpu"), named("generated")))
			tc.event(handlersOf(s))
			s.Queued.Want(t, tc.want...)
		})
	}
}

// Pins RCLM-10 and RCLM-73.
func TestDeletedPodsAreRemembered(t *testing.T) {
	s := begin(t, defaults, podKey)
	h := handlersOf(s)
	h.pods.OnDelete(pod(with(ofTemplate("gpu", "template")), uid[*corev1.Pod]("a")))
	h.pods.OnUpdate(pod(with(ofTemplate("gpu", "template")), uid[*corev1.Pod]("b")), pod(uid[*corev1.Pod]("c")))
	h.pods.OnDelete(pod(uid[*corev1.Pod]("d")))
	for of, want := range map[types.UID]bool{"a": true, "b": false, "c": false, "d": false} {
		if got := s.c.memory.isGone(of); got != want {
			t.Errorf("%s: %v", of, got)
		}
	}
}

// A list after a break of the watch lacks a pod or a PodGroup that exists, or that was deleted, or shows another one of
// its name. Pins RCLM-70 and RCLM-73.
func TestAConsumerThatAListLacksIsReadLive(t *testing.T) {
	gpu := ofClaim("gpu", "claim")
	user := pod(controllertest.OnNode("node"), controllertest.InPhase(corev1.PodRunning), with(gpu))
	member := group(groupWith(gpu))
	formerUser, formerGroup := pod(uid[*corev1.Pod]("former")), group(uid[*schedulingv1alpha2.PodGroup]("former"))
	for name, tc := range map[string]struct {
		consumer runtime.Object
		claim    claimChange
		former   runtime.Object // that the list shows in its place, if any
		lack     func(handlers)
		asking   string
		uid      types.UID
	}{
		"a pod": {
			user, inUse("pod"), nil,
			func(h handlers) { h.pods.OnDelete(cache.DeletedFinalStateUnknown{Obj: user}) }, askingPod, "pod",
		},
		"a PodGroup": {
			member, controllertest.All(inUse(), reservedForGroup), nil,
			func(h handlers) { h.groups.OnDelete(cache.DeletedFinalStateUnknown{Obj: member}) }, "get podgroups group", "group",
		},
		"a pod that is replaced": {
			user, inUse("pod"), formerUser, func(h handlers) { h.pods.OnUpdate(user, formerUser) }, askingPod, "pod",
		},
		"a PodGroup that is replaced": {
			member, controllertest.All(inUse(), reservedForGroup), formerGroup,
			func(h handlers) { h.groups.OnUpdate(member, formerGroup) }, "get podgroups group", "group",
		},
	} {
		begin := func(t *testing.T) *subject {
			t.Helper()
			s := begin(t, gated, claimKey, tc.consumer, claim(tc.claim))
			s.c.memory.doubt(tc.uid)
			s.Uncache(t, tc.consumer)
			if tc.former != nil {
				s.Cache(t, tc.former)
			}
			tc.lack(handlersOf(s))
			s.Queued.Want(t, "claim:ns/claim")
			return s
		}
		doubted := func(s *subject) bool {
			_, ok := s.c.memory.doubts.age(tc.uid)
			return ok
		}
		t.Run(name+" exists", func(t *testing.T) {
			s := begin(t)
			s.MustReconcile(t)
			s.WantRequests(t, tc.asking)
			s.Queued.Want(t, "claim:ns/claim in 30s")
			if c := stored(t, s, "claim"); len(c.Status.ReservedFor) != 1 || c.Status.Allocation == nil || !isProtected(c) {
				t.Errorf("the claim is %+v, %v", c.Status, c.Finalizers)
			}
			if !doubted(s) {
				t.Error("it was forgotten that a claim may have been created for it")
			}
		})
		t.Run(name+" was deleted", func(t *testing.T) {
			s := begin(t)
			s.Remove(t, tc.consumer)
			s.MustReconcile(t)
			s.WantRequests(t, tc.asking, ending, freeing)
			s.Queued.Want(t)
			if doubted(s) {
				t.Error("it is remembered for ever that a claim may have been created for it")
			}
		})
	}
}

func TestPodNeedsWork(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	known := controllertest.All(with(gpu), recorded("gpu", "claim"))
	onNode := controllertest.OnNode("node")
	own := generatedFor("pod", "gpu")
	for name, tc := range map[string]struct {
		config  config
		pod     *corev1.Pod
		objects []runtime.Object
		want    bool
	}{
		"RCLM-11: nothing recorded":                  {pod: pod(with(gpu)), want: true},
		"RCLM-11: of an unknown kind":                {pod: pod(with(entry{Name: "x"})), want: true},
		"RCLM-11, RCLM-44: not needed":               {pod: pod(with(gpu), notNeeded("gpu"))},
		"RCLM-11: recorded":                          {pod: pod(known), objects: []runtime.Object{claim(own)}},
		"RCLM-11: recorded, and gone":                {pod: pod(known), want: true},
		"RCLM-11: the user has not created it":       {pod: pod(with(ofClaim("gpu", "claim")))},
		"RCLM-11: that of another":                   {pod: pod(known, onNode), objects: []runtime.Object{claim(inUse(), generatedFor("another", "gpu"))}},
		"RCLM-11: that of another, then one missing": {pod: pod(with(gpu, ofTemplate("nic", "t")), recorded("gpu", "claim")), objects: []runtime.Object{claim(generatedFor("another", "gpu"))}, want: true},
		"RCLM-11: allocated, without a node":         {pod: pod(known), objects: []runtime.Object{claim(own, inUse())}},
		"RCLM-11: allocated, on a node":              {pod: pod(known, onNode), objects: []runtime.Object{claim(own, inUse())}, want: true},
		"RCLM-11: reserved":                          {pod: pod(known, onNode), objects: []runtime.Object{claim(own, inUse("pod"))}},
		"RCLM-11: not allocated, on a node":          {pod: pod(known, onNode), objects: []runtime.Object{claim(own)}},
		"RCLM-11: terminating":                       {pod: pod(with(gpu), onNode, controllertest.Terminating)},
		"RCLM-11: reserved for its group":            {config: gated, pod: pod(known, onNode, inGroup("group")), objects: []runtime.Object{claim(generatedForGroup("group", "gpu"), inUse(), reservedForGroup)}},
		"RCLM-11: gone, that of the group":           {config: gated, pod: pod(known, inGroup("group")), objects: []runtime.Object{group(groupWith(gpu))}},
		"RCLM-11: gone, the group has another":       {config: gated, pod: pod(known, inGroup("group")), objects: []runtime.Object{group()}, want: true},
		"RCLM-71: the group got another since":       {config: gated, pod: pod(known, inGroup("group")), objects: []runtime.Object{group(groupWith(gpu)), claim(named("new"), generatedForGroup("group", "gpu"))}, want: true},
		"RCLM-72: being deleted, on a node":          {pod: pod(known, onNode), objects: []runtime.Object{claim(own, inUse("a"), terminating)}},
		"RCLM-74: as many as there can be":           {pod: pod(known, onNode), objects: []runtime.Object{claim(own, full)}},
		"RCLM-11: gone, the group is unknown":        {config: gated, pod: pod(known, inGroup("group")), want: true},
		"RCLM-11: gone, the group is malformed":      {config: gated, pod: pod(known, inGroup("group")), objects: []runtime.Object{group(groupWith(entry{Name: "x"}))}},
		"RCLM-38: that of another, without a group":  {config: gated, pod: pod(known, onNode), objects: []runtime.Object{claim(inUse(), generatedForGroup("group", "gpu"))}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, tc.config, podKey, tc.objects...)
			if got := s.c.podNeedsWork(tc.pod); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestClaimEvents(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	user := pod(controllertest.OnNode("node"), with(ofClaim("gpu", "claim")))
	waiting := pod(with(gpu), recorded("gpu", "claim"))
	member := group(groupWith(gpu), groupRecorded("gpu", "claim"))
	for name, tc := range map[string]struct {
		objects []runtime.Object
		event   func(handlers)
		want    []string
	}{
		"RCLM-12: reserved":        {nil, func(h handlers) { h.claims.OnAdd(claim(inUse("a")), false) }, []string{"claim:ns/claim"}},
		"RCLM-12: replayed":        {nil, func(h handlers) { h.claims.OnAdd(claim(inUse("a")), true) }, []string{"backlog claim:ns/claim"}},
		"RCLM-12: resynced":        {nil, func(h handlers) { h.claims.OnUpdate(claim(inUse("a")), claim(inUse("a"))) }, []string{"backlog claim:ns/claim"}},
		"RCLM-12: terminating":     {nil, func(h handlers) { h.claims.OnAdd(claim(terminating), false) }, []string{"claim:ns/claim"}},
		"RCLM-12: generated":       {nil, func(h handlers) { h.claims.OnAdd(claim(generatedFor("pod", "gpu")), false) }, []string{"claim:ns/claim"}},
		"RCLM-58: nothing to free": {nil, func(h handlers) { h.claims.OnAdd(claim(allocated), false) }, nil},
		"RCLM-8: something else":   {nil, func(h handlers) { h.claims.OnAdd(template(), false) }, nil},
		"RCLM-12: allocated, for a pod on a node": {[]runtime.Object{user, claim(allocated)}, func(h handlers) {
			h.claims.OnUpdate(claim(), claim(allocated, func(c *resourcev1.ResourceClaim) { c.ResourceVersion = "2" }))
		},
			[]string{"pod:ns/pod"}},
		"RCLM-12: deleted":             {[]runtime.Object{waiting}, func(h handlers) { h.claims.OnDelete(claim(inUse("a"))) }, []string{"pod:ns/pod"}},
		"RCLM-12: deleted, of a group": {[]runtime.Object{member}, func(h handlers) { h.claims.OnDelete(claim()) }, []string{"podgroup:ns/group"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, podKey, tc.objects...)
			tc.event(handlersOf(s))
			s.Queued.Want(t, tc.want...)
		})
	}
}

// Pins RCLM-9 and RCLM-37.
func TestTemplateEvents(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	elsewhere := pod(with(gpu), func(p *corev1.Pod) { p.Namespace = "elsewhere" })
	s := begin(t, gated, podKey, pod(with(gpu)), elsewhere, group(groupWith(gpu)), pod(with(ofTemplate("gpu", "other")), func(p *corev1.Pod) { p.Name = "other" }))
	h := handlersOf(s)
	h.templates.OnAdd(template(), false)
	s.Queued.Want(t, "pod:ns/pod", "podgroup:ns/group")
	h.templates.OnUpdate(template(), template())
	s.Queued.Want(t, "backlog pod:ns/pod", "backlog podgroup:ns/group")
	h.templates.OnDelete(template())
	s.Queued.Want(t)
}

func TestPodGroupEvents(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	member := pod(with(gpu), inGroup("group"))
	plain := pod(inGroup("group"), func(p *corev1.Pod) { p.Name = "plain" })
	stranger := pod(with(gpu), inGroup("other"), func(p *corev1.Pod) { p.Name = "stranger" })
	for name, tc := range map[string]struct {
		event func(handlers)
		want  []string
	}{
		"RCLM-13: lacks a claim": {func(h handlers) { h.groups.OnAdd(group(groupWith(gpu)), false) }, []string{"podgroup:ns/group", "pod:ns/pod"}},
		"RCLM-13: updated":       {func(h handlers) { h.groups.OnUpdate(group(), group(groupWith(gpu))) }, []string{"backlog podgroup:ns/group", "backlog pod:ns/pod"}},
		"RCLM-13: has its claim": {func(h handlers) { h.groups.OnAdd(group(groupWith(gpu), groupRecorded("gpu", "claim")), false) }, []string{"pod:ns/pod"}},
		"RCLM-13: has lost it":   {func(h handlers) { h.groups.OnAdd(group(groupWith(gpu), groupRecorded("gpu", "missing")), false) }, []string{"podgroup:ns/group", "pod:ns/pod"}},
		"RCLM-13: names a claim": {func(h handlers) { h.groups.OnAdd(group(groupWith(ofClaim("gpu", "missing"))), false) }, []string{"pod:ns/pod"}},
		"RCLM-13: needs none": {func(h handlers) {
			h.groups.OnAdd(group(groupWith(gpu), func(g *schedulingv1alpha2.PodGroup) {
				g.Status.ResourceClaimStatuses = []schedulingv1alpha2.PodGroupResourceClaimStatus{{Name: "gpu"}}
			}), false)
		}, []string{"pod:ns/pod"}},
		"RCLM-13: has no claims":    {func(h handlers) { h.groups.OnUpdate(group(), group()) }, nil},
		"RCLM-59: has none, is new": {func(h handlers) { h.groups.OnAdd(group(), false) }, []string{"pod:ns/pod"}},
		"RCLM-13: being deleted": {func(h handlers) {
			h.groups.OnAdd(group(groupWith(gpu), func(g *schedulingv1alpha2.PodGroup) { g.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch} }), false)
		}, []string{"pod:ns/pod"}},
		"RCLM-13: deleted":                {func(h handlers) { h.groups.OnDelete(group(groupWith(gpu), groupRecorded("gpu", "claim"))) }, []string{"claim:ns/claim", "pod:ns/pod"}},
		"RCLM-13: deleted, had no claims": {func(h handlers) { h.groups.OnDelete(group()) }, nil},
		"RCLM-62: deleted, nothing recorded": {func(h handlers) {
			h.groups.OnDelete(group(groupWith(gpu), uid[*schedulingv1alpha2.PodGroup]("former")))
		}, []string{"claim:ns/claim", "pod:ns/pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, gated, podKey, member, plain, stranger, claim(generatedForGroup("former", "gpu")))
			tc.event(handlersOf(s))
			s.Queued.Want(t, tc.want...)
			if deleted := strings.Contains(name, "RCLM-13: deleted"); s.c.memory.isGone("group") != (deleted && tc.want != nil) {
				t.Errorf("remembered as gone: %v", !deleted)
			}
		})
	}
}

// Pins RCLM-5, RCLM-7 and RCLM-60.
func TestWithoutTheGatePodGroupsAreNotWatched(t *testing.T) {
	s := begin(t, defaults, podKey, pod(with(ofTemplate("gpu", "template")), inGroup("group")))
	indexes := s.CacheOf(t, &corev1.Pod{}).GetIndexers()
	for name, want := range map[string]bool{"podResourceClaim": true, "podResourceClaimTemplate": true, index.PodsByGroup: false} {
		if _, got := indexes[name]; got != want {
			t.Errorf("index %s: %v", name, got)
		}
	}
	if d := Descriptor(); len(d.Resources(defaults)) != 3 || len(d.Resources(gated)) != 4 {
		t.Errorf("needs %v, with the gate %v", d.Resources(defaults), d.Resources(gated))
	}
}

// Pins RCLM-7 and RCLM-42.
func TestIndexes(t *testing.T) {
	gpu := ofTemplate("gpu", "template")
	p := pod(with(gpu, ofTemplate("nic", "other"), ofClaim("x", "static"), entry{Name: "y"}), recorded("gpu", "claim"), inGroup("group"))
	g := group(groupWith(gpu, ofTemplate("nic", "other"), ofClaim("x", "static")), groupRecorded("gpu", "claim"))
	newer := claim(generatedForGroup("group", "gpu"), func(c *resourcev1.ResourceClaim) { c.OwnerReferences[0].APIVersion = "scheduling.k8s.io/v9" })
	foreign := claim(generatedForGroup("group", "gpu"), func(c *resourcev1.ResourceClaim) { c.OwnerReferences[0].APIVersion = "example.com/v1" })
	for name, tc := range map[string]struct {
		index  cache.IndexFunc
		object any
		want   []string
	}{
		"pods by claim":                        {claimsOfPod, p, []string{"ns/claim", "ns/static"}},
		"pods by template":                     {templatesOfPod, p, []string{"ns/template", "ns/other"}},
		"groups by claim":                      {claimsOfGroup, g, []string{"ns/claim", "ns/static"}},
		"groups by template":                   {templatesOfGroup, g, []string{"ns/template", "ns/other"}},
		"RCLM-63: claims by pod":               {podsOfClaim, claim(generatedFor("uid", "gpu")), []string{"ns/uid"}},
		"claims by pod, of a group":            {podsOfClaim, newer, nil},
		"claims by group":                      {groupsOfClaim, newer, []string{"ns/group"}},
		"claims by group, of something else":   {groupsOfClaim, foreign, nil},
		"claims by group, of a pod":            {groupsOfClaim, claim(generatedFor("uid", "gpu")), nil},
		"pods by claim, something else":        {claimsOfPod, 1, nil},
		"pods by template, something else":     {templatesOfPod, 1, nil},
		"groups by claim, something else":      {claimsOfGroup, 1, nil},
		"groups by template, something else":   {templatesOfGroup, 1, nil},
		"claims by pod, something else":        {podsOfClaim, 1, nil},
		"claims by group, something different": {groupsOfClaim, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := tc.index(tc.object); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// Pins RCLM-28 and RCLM-49.
func TestClaimsAreCounted(t *testing.T) {
	s := begin(t, defaults, claimKey)
	h := handlersOf(s)
	h.claims.OnAdd(claim(), true)
	h.claims.OnAdd(claim(), false)
	h.claims.OnAdd(claim(generatedFor("pod", "gpu")), false)
	h.claims.OnUpdate(claim(), claim(allocated))
	want := `
# HELP resourceclaim_controller_resource_claims [ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).
# TYPE resourceclaim_controller_resource_claims gauge
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source=""} 1
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source="resource_claim_template"} 1
resourceclaim_controller_resource_claims{admin_access="false",allocated="true",source=""} 1
`
	if err := testutil.GatherAndCompare(s.Metrics, strings.NewReader(want), "resourceclaim_controller_resource_claims"); err != nil {
		t.Error(err)
	}
	h.claims.OnDelete(claim())
	h.claims.OnDelete(claim(allocated))
	if got := s.Series(t, "resourceclaim_controller_resource_claims"); len(got) != 1 {
		t.Errorf("classes without claims are shown: %q", got)
	}
}

// Pins RCLM-1, RCLM-2, RCLM-6 and RCLM-16.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if on, _ := d.Enabled(cfg); !on || !slices.Equal(d.Aliases, []string{"resource-claim-controller"}) || d.ServiceAccount != "resource-claim-controller" || d.EventSource != "resource_claim" {
		t.Errorf("it is %+v", d)
	}
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*claimController).loop.Inspect(); s.Workers != 50 || s.Queue != "resource_claim" {
		t.Errorf("loop: %+v", s)
	}
	cfg.EmulatedVersion, cfg.FeatureGates = "1.34", map[string]bool{"DynamicResourceAllocation": false}
	if on, reason := d.Enabled(cfg); on || reason != "needs the feature gate DynamicResourceAllocation" {
		t.Errorf("without its gate: %v %q", on, reason)
	}
}

// Pins RCLM-3.
func TestGates(t *testing.T) {
	cfg := v1beta1.NewDefault()
	if got := configOf(cfg); got != (config{workers: 50, adminAccess: true, prioritizedLists: true}) {
		t.Errorf("by default: %+v", got)
	}
	cfg.FeatureGates = map[string]bool{"DRAPrioritizedList": false, "DRAWorkloadResourceClaims": true, "GenericWorkload": true, "DRAAdminAccess": false}
	if got := configOf(cfg); got != (config{workers: 50, adminAccess: true, podGroups: true}) {
		t.Errorf("with gates: %+v", got)
	}
}

// A claim in use costs no request, however many others there are.
func BenchmarkIdleClaim(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint("claims=", n), func(b *testing.B) {
			objects := []runtime.Object{pod(controllertest.OnNode("node")), claim(inUse("pod"), generatedFor("pod", "gpu"))}
			for i := range n {
				objects = append(objects, claim(named(fmt.Sprint("claim-", i)), inUse("pod")))
			}
			begin(b, defaults, claimKey, objects...).MeasureIdle(b)
		})
	}
}
