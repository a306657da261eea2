package disruption

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/controllertest"
)

// queued is "all/backlog" of the keys that wait for a budget to be looked at.
func (b *bench) queued() string {
	s := b.c.budgetLoop.Inspect()
	return fmt.Sprintf("%d/%d", s.Depth, s.Backlog)
}

// newIdle makes a controller with nothing queued whose caches hold the budgets.
func newIdle(t *testing.T, budgets ...*policyv1.PodDisruptionBudget) *bench {
	t.Helper()
	b := newBench(t)
	for _, pdb := range budgets {
		b.Cache(t, pdb)
	}
	if got := b.queued(); got != "0/0" {
		t.Fatalf("%s are queued", got)
	}
	return b
}

func named(name string, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	return budget(func(p *policyv1.PodDisruptionBudget) { p.Name, p.Spec.Selector = name, selector })
}

// Pins PDB-5.
func TestPodsWakeTheBudgetThatSelectsThem(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	invalid := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Is", Values: []string{"web"}}}}
	for _, tc := range []struct {
		name   string
		budget *policyv1.PodDisruptionBudget
		want   string
	}{
		{"its labels", named("x", web), "1/0"},
		{"PDB-28: everything", named("x", &metav1.LabelSelector{}), "1/0"},
		{"nothing", named("x", nil), "0/0"},
		{"other labels", named("x", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}), "0/0"},
		{"its labels and more", named("x", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web", "tier": "back"}}), "0/0"},
		{"nobody can tell what", named("x", invalid), "0/0"},
		{"elsewhere", budget(func(p *policyv1.PodDisruptionBudget) { p.Namespace = "m" }), "0/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newIdle(t, tc.budget)
			b.c.wakeBudgets(reconcile.Fresh, pod("a"))
			if got := b.queued(); got != tc.want {
				t.Errorf("%s are queued, want %s", got, tc.want)
			}
			if events := b.RecordedEvents(); len(events) > 0 {
				t.Errorf("events %q", events)
			}
		})
	}
}

// Pins PDB-5 and PDB-46.
func TestAllBudgetsThatSelectAPodAreWoken(t *testing.T) {
	b := newIdle(t, named("x", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}), named("y", &metav1.LabelSelector{}))
	b.c.wakeBudgets(reconcile.Fresh, pod("a"))
	if got := b.queued(); got != "2/0" {
		t.Errorf("%s are queued, want both", got)
	}
	events := b.RecordedEvents()
	const want = `Warning MultiplePodDisruptionBudgets Pod "n"/"a" matches multiple PodDisruptionBudgets.  Chose `
	if len(events) != 1 || events[0] != want+`"x" arbitrarily.` && events[0] != want+`"y" arbitrarily.` {
		t.Errorf("events %q", events)
	}
}

// A pod that a budget does not select any more was one of its healthy pods. Pins PDB-46.
func TestLabelsThatChangeWakeTheBudgetsOfBoth(t *testing.T) {
	labeled := func(app string) *corev1.Pod {
		return pod("a", controllertest.Labeled(map[string]string{"app": app}))
	}
	web := named("web", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
	db := named("db", &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}})
	all := named("all", &metav1.LabelSelector{})
	for _, tc := range []struct {
		name    string
		budgets []*policyv1.PodDisruptionBudget
		want    string
		events  int
	}{
		{"from one to another", []*policyv1.PodDisruptionBudget{web, db}, "2/0", 0},
		{"away", []*policyv1.PodDisruptionBudget{web}, "1/0", 0},
		{"within one", []*policyv1.PodDisruptionBudget{all}, "1/0", 0},
		{"from two to one of them", []*policyv1.PodDisruptionBudget{web, all}, "2/0", 0},
		{"from one to that and another", []*policyv1.PodDisruptionBudget{db, all}, "2/0", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newIdle(t, tc.budgets...)
			b.c.podUpdated(reconcile.Fresh, labeled("web"), labeled("db"))
			if got := b.queued(); got != tc.want {
				t.Errorf("%s are queued, want %s", got, tc.want)
			}
			if events := b.RecordedEvents(); len(events) != tc.events {
				t.Errorf("events %q", events)
			}
		})
	}
}

// Pins PDB-35 and PDB-40.
func TestChangesOfPodsThatMatter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"nothing: a resync", func(p *corev1.Pod) { p.ResourceVersion = "5" }, "0/0"},
		{"an address", func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, "0/0"},
		{"readiness", notReady, "1/0"},
		{"deletion", beingDeleted, "1/0"},
		{"a controller", ownedBy("apps/v1", "ReplicaSet", "rs"), "1/0"},
		{"labels that still match", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", "v": "2"} }, "1/0"},
		{"labels that do not match any more", func(p *corev1.Pod) { p.Labels = nil }, "1/0"},
		{"another pod of the name", func(p *corev1.Pod) { p.UID = "b" }, "1/0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newIdle(t, budget())
			lane, changed := reconcile.Fresh, pod("a", func(p *corev1.Pod) { p.ResourceVersion = "6" }, tc.change)
			if changed.ResourceVersion == "5" {
				lane = reconcile.Backlog
			}
			b.c.podUpdated(lane, pod("a"), changed)
			if got := b.queued(); got != tc.want {
				t.Errorf("%s are queued, want %s", got, tc.want)
			}
		})
	}
}

// A pod that is marked is looked at with every update: its condition may become stale.
func TestUpdatesThatWakeTheHandler(t *testing.T) {
	pods := &controllertest.Captured{}
	newIdle(t).c.watch(&controllertest.Captured{}, pods)
	h := pods.Handler.(informers.Selective)
	address := func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }
	for name, test := range map[string]struct {
		old, now *corev1.Pod
		want     bool
	}{
		"an address":                 {pod("a"), pod("a", address), false},
		"readiness":                  {pod("a"), pod("a", notReady), true},
		"a mark":                     {pod("a"), pod("a", marked("", 0)), true},
		"an address of a marked pod": {pod("a", marked("", 0)), pod("a", marked("", 0), address), true},
		"a mark that is gone":        {pod("a", marked("", 0)), pod("a"), false},
	} {
		if got := h.WantsUpdate(test.old, test.now); got != test.want {
			t.Errorf("%s: wanted %v, want %v", name, got, test.want)
		}
	}
}

// Pins PDB-4 and PDB-40.
func TestTheEchoOfAWriteWakesNobody(t *testing.T) {
	b := newIdle(t)
	changed := func(version string) *policyv1.PodDisruptionBudget {
		return budget(func(p *policyv1.PodDisruptionBudget) { p.ResourceVersion = version })
	}
	b.c.writes.WroteStatus(budget(), "8")
	for _, step := range []struct {
		name string
		lane reconcile.Lane
		pdb  *policyv1.PodDisruptionBudget
		want string
	}{
		{"the echo", reconcile.Fresh, changed("8"), "0/0"},
		{"a resync", reconcile.Backlog, changed("8"), "1/1"},
		{"somebody else's write", reconcile.Fresh, changed("9"), "1/0"},
	} {
		b.c.budgetUpdated(step.lane, budget(), step.pdb)
		if got := b.queued(); got != step.want {
			t.Errorf("%s: %s are queued, want %s", step.name, got, step.want)
		}
	}
}

func TestReplayedObjectsAreBacklog(t *testing.T) {
	b := newBench(t, budget(), pod("a"), pod("stale", marked("", time.Hour)), pod("marked", marked("", time.Minute)))
	if got := b.queued(); got != "1/1" {
		t.Errorf("%s budgets are queued, want 1/1", got)
	}
	if s := b.c.staleLoop.Inspect(); s.Depth != 1 || s.Backlog != 1 {
		t.Errorf("%d pods are queued, %d of them in the backlog, want the stale one there", s.Depth, s.Backlog)
	}
}

// Pins PDB-2.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "disruption-controller" || strings.Join(d.Aliases, " ") != "disruption" ||
		d.ServiceAccount != "disruption-controller" || d.EventSource != "controllermanager" || len(d.Requires) != 6 {
		t.Errorf("got %+v", d)
	}
	if d.Value(nil) != any(struct{}{}) {
		t.Errorf("the value is %v", d.Value(nil))
	}
}
