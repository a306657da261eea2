package devicetainteviction

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// printed is a verdict as "seconds: reasons", empty for none.
func printed(v verdict) string {
	if v.stays() {
		if len(v.reasons) > 0 {
			return "reasons without a time"
		}
		return ""
	}
	var reasons []string
	for _, r := range v.reasons {
		if r.isRule() {
			reasons = append(reasons, r.rule)
		} else {
			reasons = append(reasons, fmt.Sprintf("%s/%s/%d", r.pool, r.device, r.position))
		}
	}
	return fmt.Sprintf("%v: %s", v.due.Sub(epoch).Seconds(), strings.Join(reasons, " "))
}

// known makes the taints of slices and rules.
func known(pool []*resourcev1.ResourceSlice, rules ...*resourcev1beta2.DeviceTaintRule) taints {
	t := newTaints()
	if found := taintedIn(pool); len(found) > 0 {
		t.pools[poolKey{driver, "p"}] = found
	}
	for _, r := range rules {
		t.rules[r.Name] = r
	}
	return t
}

func TestWhenAClaimIsNoLongerTolerated(t *testing.T) {
	type rules = []*resourcev1beta2.DeviceTaintRule
	type tolerations = []resourcev1.DeviceToleration
	valued := taint("a", 0)
	valued.Value = "x"
	timeless := taint("a", 0)
	timeless.TimeAdded = nil
	matching := func(change func(*resourcev1.DeviceToleration)) resourcev1.DeviceToleration {
		t := tolerates("a")
		change(&t)
		return t
	}
	for name, tc := range map[string]struct {
		device      resourcev1.Device
		rules       rules
		tolerations tolerations
		want        string
	}{
		"DTE-9: no taint":                                     {device("d"), nil, nil, ""},
		"DTE-9, DTE-10: a taint":                              {device("d", taint("a", 5)), nil, nil, "5: p/d/0"},
		"DTE-9: of another device":                            {device("e", taint("a", 5)), nil, nil, ""},
		"DTE-12: other effects":                               {device("d", soft("a"), resourcev1.DeviceTaint{Key: "b", Effect: "None"}, resourcev1.DeviceTaint{Key: "c", Effect: "Later"}), nil, nil, ""},
		"DTE-11, DTE-44: by its position":                     {device("d", soft("a"), taint("a", 5)), nil, nil, "5: p/d/1"},
		"DTE-11: the earliest of several, and all of them":    {device("d", taint("a", 9), taint("b", 5)), nil, nil, "5: p/d/0 p/d/1"},
		"DTE-9: a rule":                                       {device("d"), rules{rule("r", everything, noExecute)}, nil, "0: r"},
		"DTE-9: a rule for the driver":                        {device("d"), rules{rule("r", driver+"//", noExecute)}, nil, "0: r"},
		"DTE-9: a rule for another driver":                    {device("d"), rules{rule("r", "x//", noExecute)}, nil, ""},
		"DTE-9: a rule for the pool":                          {device("d"), rules{rule("r", "/p/", noExecute)}, nil, "0: r"},
		"DTE-9: a rule for another pool":                      {device("d"), rules{rule("r", "/q/", noExecute)}, nil, ""},
		"DTE-9: a rule for the device":                        {device("d"), rules{rule("r", "//d", noExecute)}, nil, "0: r"},
		"DTE-9: a rule for another device":                    {device("d"), rules{rule("r", "//e", noExecute)}, nil, ""},
		"DTE-9: a rule for a device that nobody publishes":    {device("e"), rules{rule("r", driver+"/p/d", noExecute)}, nil, "0: r"},
		"DTE-9: a rule without a selector":                    {device("d"), rules{rule("r", "", noExecute)}, nil, ""},
		"DTE-11: rules come before slices, by name":           {device("d", taint("a", 5)), rules{rule("s", everything, noExecute), rule("r", everything, noExecute)}, nil, "0: r s p/d/0"},
		"DTE-10: tolerated":                                   {device("d", taint("a", 5)), nil, tolerations{tolerates("a")}, ""},
		"DTE-10: tolerated for some time":                     {device("d", taint("a", 5)), nil, tolerations{tolerates("a", 60)}, "65: p/d/0"},
		"DTE-10: the shortest of several":                     {device("d", taint("a", 5)), nil, tolerations{tolerates("a", 60), tolerates("", 30), tolerates("a", 90)}, "35: p/d/0"},
		"DTE-10: one of them has no limit":                    {device("d", taint("a", 5)), nil, tolerations{tolerates("a", 60), tolerates("")}, ""},
		"DTE-10: for less than no time":                       {device("d", taint("a", 5)), nil, tolerations{tolerates("a", -60)}, "5: p/d/0"},
		"DTE-10: longer than a duration":                      {device("d", taint("a", 5)), nil, tolerations{tolerates("a", math.MaxInt64)}, ""},
		"DTE-10: another key":                                 {device("d", taint("a", 5)), nil, tolerations{tolerates("b")}, "5: p/d/0"},
		"DTE-10: an empty effect":                             {device("d", taint("a", 5)), nil, tolerations{matching(func(t *resourcev1.DeviceToleration) { t.Effect = "" })}, "5: p/d/0"},
		"DTE-10: another effect":                              {device("d", taint("a", 5)), nil, tolerations{matching(func(t *resourcev1.DeviceToleration) { t.Effect = "NoSchedule" })}, "5: p/d/0"},
		"DTE-10: an equal value":                              {device("d", valued), nil, tolerations{matching(func(t *resourcev1.DeviceToleration) { t.Operator, t.Value = "Equal", "x" })}, ""},
		"DTE-10: no operator":                                 {device("d", valued), nil, tolerations{matching(func(t *resourcev1.DeviceToleration) { t.Operator, t.Value = "", "x" })}, ""},
		"DTE-10: another value":                               {device("d", valued), nil, tolerations{matching(func(t *resourcev1.DeviceToleration) { t.Operator, t.Value = "Equal", "y" })}, "0: p/d/0"},
		"DTE-10: one of two is tolerated":                     {device("d", taint("a", 5), taint("b", 9)), nil, tolerations{tolerates("a")}, "9: p/d/1"},
		"DTE-10: a rule is tolerated":                         {device("d"), rules{rule("a", everything, noExecute)}, tolerations{tolerates("a", 60)}, "60: a"},
		"DTE-11: of no time":                                  {device("d", timeless), nil, nil, ""},
		"DTE-11: of no time, tolerated for some":              {device("d", timeless), nil, tolerations{tolerates("a", 60)}, ""},
		"DTE-11: a reason without a time beside one with one": {device("d", timeless, taint("b", 5)), nil, nil, "5: p/d/0 p/d/1"},
	} {
		t.Run(name, func(t *testing.T) {
			by := known([]*resourcev1.ResourceSlice{slice("p", 1, tc.device)}, tc.rules...)
			if got := printed(by.of(claim("claim", "p", "d", tc.tolerations...), "node")); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	by := known([]*resourcev1.ResourceSlice{slice("p", 1, device("d", taint("a", 5)))})
	if got := printed(by.of(&resourcev1.ResourceClaim{}, "node")); got != "" {
		t.Errorf("nothing is allocated: %q", got)
	}
}

func TestTaintsOfAPool(t *testing.T) {
	bad := taint("a", 5)
	named := func(name string, s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
		s.Name = name
		return s
	}
	for name, tc := range map[string]struct {
		pool []*resourcev1.ResourceSlice
		want string
	}{
		"DTE-9: the highest generation":                        {[]*resourcev1.ResourceSlice{slice("p", 1, device("d", bad)), slice("p", 2, device("d"), device("e", bad))}, "e"},
		"DTE-9: in whatever order":                             {[]*resourcev1.ResourceSlice{slice("p", 2, device("d"), device("e", bad)), slice("p", 1, device("d", bad))}, "e"},
		"DTE-9: several of a generation, though some may lack": {[]*resourcev1.ResourceSlice{named("x", slice("p", 2, device("d", bad))), named("y", slice("p", 2, device("e", bad)))}, "d e"},
		"DTE-43: twice, the first is tainted":                  {[]*resourcev1.ResourceSlice{named("y", slice("p", 2, device("d"))), named("x", slice("p", 2, device("d", bad)))}, "d"},
		"DTE-43: twice, the first is not":                      {[]*resourcev1.ResourceSlice{named("y", slice("p", 2, device("d", bad))), named("x", slice("p", 2, device("d")))}, ""},
		"DTE-9: no slice":                                      {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for device := range taintedIn(tc.pool).on("node") {
				got = append(got, device)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Pins DTE-64.
func TestSlicesOfANodeCountForPodsOnIt(t *testing.T) {
	bad := taint("a", 5)
	for name, tc := range map[string]struct {
		pool []*resourcev1.ResourceSlice
		want string // the devices that are tainted for pods on the nodes a, b and c
	}{
		"another node taints its devices": {
			[]*resourcev1.ResourceSlice{ofNode("b", slice("p", 1, device("d"))), ofNode("a", slice("p", 9, device("d", bad)))},
			"a:d b: c:",
		},
		"another node hides its taints": {
			[]*resourcev1.ResourceSlice{ofNode("b", slice("p", 1, device("d", bad))), ofNode("a", slice("p", 9, device("d")))},
			"a: b:d c:",
		},
		"each node has a generation": {
			[]*resourcev1.ResourceSlice{ofNode("b", slice("p", 1, device("d", bad))), ofNode("b", slice("p", 2, device("e", bad))), ofNode("a", slice("p", 1, device("d", bad)))},
			"a:d b:e c:",
		},
		"a node taints what all share": {
			[]*resourcev1.ResourceSlice{slice("p", 1, device("d")), ofNode("a", slice("p", 9, device("d", bad)))},
			"a:d b: c:",
		},
		"a node hides taints of what all share": {
			[]*resourcev1.ResourceSlice{slice("p", 1, device("d", bad)), ofNode("a", slice("p", 9, device("d")))},
			"a: b:d c:d",
		},
		"a newer generation for all": {
			[]*resourcev1.ResourceSlice{slice("p", 9, device("d", bad)), ofNode("a", slice("p", 1, device("e", bad)))},
			"a:d b:d c:d",
		},
		"one generation for all and for nodes": {
			[]*resourcev1.ResourceSlice{slice("p", 1, device("d", bad)), ofNode("a", slice("p", 1, device("e", bad))), ofNode("b", slice("p", 1, device("f", bad)))},
			"a:d,e b:d,f c:d",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, node := range []string{"a", "b", "c"} {
				devices := slices.Sorted(maps.Keys(taintedIn(tc.pool).on(node)))
				got = append(got, node+":"+strings.Join(devices, ","))
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	if found := taintedIn([]*resourcev1.ResourceSlice{ofNode("a", slice("p", 1, device("d")))}); found != nil {
		t.Errorf("nothing is tainted, but kept is %v", found)
	}
}

// Each node has what follows from its slices and those that all share, put together. Pins DTE-9, DTE-43 and DTE-64.
func TestTaintsOfAnyPool(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	nodes := []string{"", "a", "b", "c"}
	for n := range 5000 {
		var pool []*resourcev1.ResourceSlice
		for i := range random.IntN(8) {
			s := slice("p", random.Int64N(3))
			s.Name = fmt.Sprint("s", (i*5+n)%8)
			if node := nodes[random.IntN(3)]; node != "" { // c has no slice
				s.Spec.NodeName = &node
			}
			for range random.IntN(3) {
				d := device(string(rune('d' + random.IntN(3))))
				if random.IntN(2) == 0 {
					d.Taints = []resourcev1.DeviceTaint{soft("s"), taint("a", i)}[random.IntN(2):]
				}
				s.Spec.Devices = append(s.Spec.Devices, d)
			}
			pool = append(pool, s)
		}
		found := taintedIn(pool)
		for _, node := range nodes {
			counts := slices.DeleteFunc(slices.Clone(pool), func(s *resourcev1.ResourceSlice) bool { return nodeOf(s) != "" && nodeOf(s) != node })
			want := devicesOf(newest(counts)).tainted()
			if diff := cmp.Diff(want, found.on(node), cmp.AllowUnexported(positioned{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("pool %d, node %q (-want +got):\n%s", n, node, diff)
			}
		}
	}
}

// A node costs no memory because of what it shares with all others.
func TestNodesShareWhatTheyDoNotChange(t *testing.T) {
	for name, own := range map[string]*resourcev1.ResourceSlice{
		"an older generation":                   slice("p", 1, device("e", taint("a", 5))),
		"the same generation, nothing tainted":  slice("p", 2, device("e")),
		"the same generation, in a later slice": slice("p", 2, device("d")),
		"the same generation, without a device": slice("p", 2),
	} {
		t.Run(name, func(t *testing.T) {
			shared := slice("p", 2, device("d", taint("a", 5)))
			shared.Name = "a"
			pool := []*resourcev1.ResourceSlice{shared}
			for n := range 3 {
				pool = append(pool, ofNode(fmt.Sprint("node-", n), own.DeepCopy()))
			}
			if found := taintedIn(pool); len(found) > 1 {
				t.Errorf("kept is %v", found)
			}
		})
	}
}

// Many nodes have a slice each beside those that all share, in the same generation or an older one.
func BenchmarkTaintedIn(b *testing.B) {
	const size = 1000
	for name, generation := range map[string]int64{"older": 1, "same": 2} {
		b.Run(name, func(b *testing.B) {
			var pool []*resourcev1.ResourceSlice
			for n := range size {
				shared := slice("p", 2, device(fmt.Sprint("shared-", n), taint("a", 5)))
				shared.Name = fmt.Sprint("shared-", n)
				pool = append(pool, shared, ofNode(fmt.Sprint("node-", n), slice("p", generation, device(fmt.Sprint("own-", n)))))
			}
			b.ReportAllocs()
			for b.Loop() {
				taintedIn(pool)
			}
		})
	}
}

func TestDiffering(t *testing.T) {
	in := func(devices ...resourcev1.Device) tainted {
		return devicesOf([]*resourcev1.ResourceSlice{slice("p", 1, devices...)}).tainted()
	}
	valued := taint("a", 0)
	valued.Value = "x"
	for name, tc := range map[string]struct {
		before, after tainted
		want          string
	}{
		"DTE-15: nothing before and after":    {in(device("d")), in(device("d"), device("e", soft("a"))), ""},
		"DTE-15: the same":                    {in(device("d", taint("a", 0))), in(device("d", taint("a", 0))), ""},
		"DTE-15: added":                       {in(), in(device("d", taint("a", 0))), "d"},
		"DTE-15: removed":                     {in(device("d", taint("a", 0))), nil, "d"},
		"DTE-15: another time":                {in(device("d", taint("a", 0))), in(device("d", taint("a", 1))), "d"},
		"DTE-15: another value":               {in(device("d", taint("a", 0))), in(device("d", valued)), "d"},
		"DTE-15: one of several":              {in(device("d", taint("a", 0)), device("e", taint("a", 0))), in(device("d", taint("a", 0)), device("e", taint("a", 0), taint("b", 0))), "e"},
		"DTE-44, DTE-59: at another position": {in(device("d", taint("a", 0))), in(device("d", soft("b"), taint("a", 0))), "d"},
	} {
		if got := strings.Join(differing(tc.before, tc.after), " "); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestWhenAPodIsEvicted(t *testing.T) {
	by := known([]*resourcev1.ResourceSlice{slice("p", 1, device("d", taint("a", 5)), device("e", taint("a", 9)), device("f"))}, rule("r", "//g", noExecute))
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "pod"}
	group := metav1.OwnerReference{APIVersion: "scheduling.k8s.io/v1alpha2", Kind: "PodGroup", Name: "group", UID: "group"}
	d := func(change ...func(*resourcev1.ResourceClaim)) []*resourcev1.ResourceClaim {
		c := claim("d", "p", "d")
		for _, f := range change {
			f(c)
		}
		return []*resourcev1.ResourceClaim{c}
	}
	for name, tc := range map[string]struct {
		claims []*resourcev1.ResourceClaim
		change func(*corev1.Pod, *resourcev1.ResourceClaim)
		groups bool
		want   string
	}{
		"DTE-13: a claim":                     {d(), nil, false, "5: p/d/0"},
		"DTE-13: the first of several claims": {[]*resourcev1.ResourceClaim{claim("e", "p", "e"), claim("d", "p", "d"), claim("f", "p", "f")}, nil, false, "5: p/d/0 p/e/0"},
		"DTE-13, DTE-40: each reason once":    {[]*resourcev1.ResourceClaim{claim("g", "p", "g"), claim("h", "q", "g")}, nil, false, "0: r"},
		"DTE-13: not scheduled":               {d(), func(p *corev1.Pod, _ *resourcev1.ResourceClaim) { p.Spec.NodeName = "" }, false, ""},
		"DTE-13: uses no claim":               {d(), func(p *corev1.Pod, _ *resourcev1.ResourceClaim) { p.Spec.ResourceClaims = nil }, false, ""},
		"DTE-13: the claim is not there": {d(), func(p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			p.Spec.ResourceClaims[0].ResourceClaimName = ptr.To("x")
		}, false, ""},
		"DTE-13: an unknown kind of claim": {d(), func(p *corev1.Pod, _ *resourcev1.ResourceClaim) { p.Spec.ResourceClaims[0].ResourceClaimName = nil }, false, ""},
		"DTE-13: not allocated":            {d(func(c *resourcev1.ResourceClaim) { c.Status.Allocation = nil }), nil, false, ""},
		"DTE-13: reserved for nobody":      {d(func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor = nil }), nil, false, ""},
		"DTE-13: reserved for another pod": {d(func(c *resourcev1.ResourceClaim) { c.Status.ReservedFor[0].UID = "x" }), nil, false, ""},
		"DTE-13: finished or being deleted": {d(), func(p *corev1.Pod, _ *resourcev1.ResourceClaim) {
			p.Status.Phase, p.DeletionTimestamp = corev1.PodSucceeded, &metav1.Time{Time: epoch}
		}, false, "5: p/d/0"},
		"DTE-13: of a template": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) { generated(p, c, owner) }, false, "5: p/d/0"},
		"DTE-13: of a template, not made yet": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			generated(p, c, owner)
			p.Status.ResourceClaimStatuses = nil
		}, false, ""},
		"DTE-13: of a template, none needed": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			generated(p, c, owner)
			p.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
		}, false, ""},
		"DTE-13: of a template, somebody else's": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			generated(p, c, owner)
			c.OwnerReferences[0].UID = "x"
		}, false, ""},
		"DTE-13: of the template of a group": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) { generated(p, c, group); inPodGroup(p, c) }, true, "5: p/d/0"},
		"DTE-13: of that of another group": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			generated(p, c, group)
			inPodGroup(p, c)
			c.OwnerReferences[0].Name = "x"
		}, true, ""},
		"DTE-69: of extended resources": {d(), extended, false, "5: p/d/0"},
		"DTE-69: of extended resources, somebody else's": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) {
			extended(p, c)
			c.OwnerReferences[0].UID = "x"
		}, false, ""},
		"DTE-1, DTE-13: groups do not count":           {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) { generated(p, c, group); inPodGroup(p, c) }, false, ""},
		"DTE-1: a reservation does not count":          {d(), inPodGroup, false, ""},
		"DTE-13: reserved for a group":                 {d(), inPodGroup, true, "5: p/d/0"},
		"DTE-13: of the group, without the claim":      {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) { inPodGroup(p, c); p.Spec.ResourceClaims = nil }, true, ""},
		"DTE-45: a claim of a group, the pod has none": {d(), func(p *corev1.Pod, c *resourcev1.ResourceClaim) { generated(p, c, group) }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, c := range tc.claims {
				names = append(names, c.Name)
			}
			p := pod(names...)
			if tc.change != nil {
				tc.change(p, tc.claims[0])
			}
			got := printed(by.ofPod(p, tc.groups, func(name string) *resourcev1.ResourceClaim {
				for _, c := range tc.claims {
					if c.Name == name {
						return c
					}
				}
				return nil
			}))
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Pins DTE-26.
func TestConditionFor(t *testing.T) {
	for name, tc := range map[string]struct {
		effect  resourcev1beta2.DeviceTaintEffect
		counted counts
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"DTE-27: nothing yet":                {noExecute, counts{}, "False", "NotStarted", ""},
		"DTE-27: one pod":                    {noExecute, counts{pods: 1, namespaces: 1}, "True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."},
		"DTE-27, DTE-30: several, one done":  {noExecute, counts{pods: 3, namespaces: 2, evicted: 1}, "True", "PodsPendingEviction", "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller."},
		"DTE-27, DTE-30: done":               {noExecute, counts{evicted: 1000}, "False", "Completed", "1000 pods evicted since starting the controller."},
		"DTE-28: without an effect":          {noEffect, counts{published: 3, allocated: 1, pods: 1, namespaces: 1}, "False", "NoEffect", "3 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."},
		"DTE-28: on one device":              {noEffect, counts{published: 1, allocated: 3, pods: 2, namespaces: 2}, "False", "NoEffect", "1 published device selected. 3 allocated devices selected. 2 pods would be evicted in 2 different namespaces if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."},
		"DTE-28, DTE-30: on none":            {noEffect, counts{evicted: 2}, "False", "NoEffect", "0 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 different namespaces if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update. 2 pods evicted since starting the controller."},
		"DTE-29: of another effect":          {"NoSchedule", counts{}, "False", "OtherEffect", "Eviction only happens for the NoExecute effect."},
		"DTE-29, DTE-30: of another, by now": {"Unknown", counts{evicted: 2}, "False", "OtherEffect", "Eviction only happens for the NoExecute effect. 2 pods evicted since starting the controller."},
	} {
		t.Run(name, func(t *testing.T) {
			got := conditionFor(rule("r", everything, tc.effect), tc.counted)
			want := metav1.Condition{Type: "EvictionInProgress", Status: tc.status, Reason: tc.reason, Message: tc.message, ObservedGeneration: 1}
			if got != want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Pins DTE-10.
func TestSecondsThatDoNotFitIntoADurationAreForever(t *testing.T) {
	most := int64(math.MaxInt64 / time.Second)
	if durationOf(most) == forever || durationOf(most+1) != forever || durationOf(-1) != 0 {
		t.Error("wrong duration")
	}
}
