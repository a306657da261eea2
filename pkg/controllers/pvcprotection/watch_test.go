package pvcprotection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func metaOfPage(next string) metav1.ListMeta { return metav1.ListMeta{Continue: next} }

func TestWhatIsQueued(t *testing.T) {
	seen := func(p *corev1.Pod) func(*protectionController) {
		return func(c *protectionController) { c.podSeen(reconcile.Fresh, p) }
	}
	gone := func(p *corev1.Pod) func(*protectionController) {
		return func(c *protectionController) { c.enqueueClaimsOf(reconcile.Fresh, p) }
	}
	isClaim := func(changes ...func(*corev1.PersistentVolumeClaim)) func(*protectionController) {
		return func(c *protectionController) { c.claimSeen(reconcile.Fresh, claim("claim", changes...)) }
	}
	replayed := func(changes ...func(*corev1.PersistentVolumeClaim)) func(*protectionController) {
		return func(c *protectionController) { c.claimSeen(reconcile.Backlog, claim("claim", changes...)) }
	}
	added := func(lane reconcile.Lane, changes ...func(*corev1.PersistentVolumeClaim)) func(*protectionController) {
		return func(c *protectionController) { c.claimAdded(lane, claim("claim", changes...)) }
	}
	own := controllertest.Pod(namespace, "claim-of")
	ofEphemeral := []runtime.Object{claim("claim-of-web", deleted, madeFor(own))}
	waits := []runtime.Object{claim("claim", deleted)}
	recreated := func(p *corev1.Pod) { p.UID = "second" }
	for name, tc := range map[string]struct {
		gate   bool
		cached []runtime.Object
		event  func(*protectionController)
		want   int
	}{
		"PVCP-7: a claim is deleted":         {event: isClaim(deleted), want: 1},
		"PVCP-7: a claim is not protected":   {event: isClaim(unprotected), want: 1},
		"PVCP-7: any other claim":            {event: isClaim(), want: 0},
		"PVCP-7: a claim was released":       {event: isClaim(deleted, unprotected), want: 0},
		"PVCP-8: a pod runs":                 {cached: waits, event: seen(pod("p")), want: 0},
		"PVCP-8: a pod is pending on a node": {cached: waits, event: seen(pod("p", controllertest.InPhase(corev1.PodPending))), want: 0},
		"PVCP-8: a pod is not scheduled":     {cached: waits, event: seen(pod("p", unscheduled)), want: 1},
		"PVCP-8: a pod has succeeded":        {cached: waits, event: seen(pod("p", controllertest.InPhase(corev1.PodSucceeded))), want: 1},
		"PVCP-8: a pod has failed":           {cached: waits, event: seen(pod("p", controllertest.InPhase(corev1.PodFailed))), want: 1},
		"PVCP-8: a pod is deleted":           {cached: waits, event: gone(pod("p")), want: 1},
		"PVCP-8: an ephemeral volume":        {cached: ofEphemeral, event: gone(controllertest.Pod(namespace, "claim-of", ephemeral("web"))), want: 1},
		"PVCP-8: a claim without a name":     {cached: waits, event: gone(controllertest.Pod(namespace, "p", referring(""))), want: 0},
		"PVCP-8: a pod of another claim":     {cached: waits, event: gone(controllertest.Pod(namespace, "p", referring("another"))), want: 0},
		"PVCP-47: the claim stays":           {cached: []runtime.Object{claim("claim")}, event: gone(pod("p")), want: 0},
		"PVCP-47: the claim is unknown":      {event: gone(pod("p")), want: 0},
		"PVCP-47: the claim was released":    {cached: []runtime.Object{claim("claim", deleted, unprotected)}, event: gone(pod("p")), want: 0},
		"PVCP-47: a pod is shut down":        {cached: waits, event: seen(pod("p", shutDown, func(p *corev1.Pod) { p.Status.ContainerStatuses = containers(running) })), want: 1},
		"PVCP-8a, PVCP-32: a pod is replaced": {cached: waits, event: func(c *protectionController) {
			c.podUpdated(reconcile.Fresh, pod("p"), controllertest.Pod(namespace, "p", recreated))
		}, want: 1},
		"PVCP-8: a pod changes":                  {cached: waits, event: func(c *protectionController) { c.podUpdated(reconcile.Fresh, pod("p", unscheduled), pod("p")) }, want: 0},
		"PVCP-22: no condition":                  {gate: true, event: isClaim(), want: 1},
		"PVCP-22: no condition, deleted":         {gate: true, event: isClaim(deleted, unprotected), want: 1},
		"PVCP-22: a condition":                   {gate: true, cached: []runtime.Object{pod("p")}, event: isClaim(condition(corev1.ConditionFalse)), want: 0},
		"PVCP-22: a condition, unused":           {gate: true, event: isClaim(condition(corev1.ConditionTrue)), want: 0},
		"PVCP-53: shown as used, and has no pod": {gate: true, event: isClaim(condition(corev1.ConditionFalse)), want: 1},
		"PVCP-53: shown as unused, and has one":  {gate: true, cached: []runtime.Object{pod("p")}, event: isClaim(condition(corev1.ConditionTrue)), want: 1},
		"PVCP-53: shown as used, deleted":        {gate: true, event: isClaim(condition(corev1.ConditionFalse), deleted, unprotected), want: 0},
		"PVCP-53: without the gate":              {event: isClaim(condition(corev1.ConditionFalse)), want: 0},
		"PVCP-50: replayed, not unused":          {gate: true, event: replayed(condition(corev1.ConditionFalse)), want: 1},
		"PVCP-50: replayed, unknown":             {gate: true, event: replayed(condition(corev1.ConditionUnknown)), want: 1},
		"PVCP-50: replayed, unused":              {gate: true, event: replayed(condition(corev1.ConditionTrue)), want: 0},
		"PVCP-50: replayed, deleted":             {gate: true, event: replayed(condition(corev1.ConditionFalse), deleted, unprotected), want: 0},
		"PVCP-7: replayed, without the gate":     {event: replayed(condition(corev1.ConditionFalse)), want: 0},
		"PVCP-51: shown again, not unused":       {gate: true, event: added(reconcile.Fresh, condition(corev1.ConditionFalse)), want: 1},
		"PVCP-51: shown again, unused":           {gate: true, event: added(reconcile.Fresh, condition(corev1.ConditionTrue)), want: 1},
		"PVCP-51: shown again, deleted":          {gate: true, event: added(reconcile.Fresh, condition(corev1.ConditionFalse), deleted, unprotected), want: 0},
		"PVCP-7: shown again, without the gate":  {event: added(reconcile.Fresh, condition(corev1.ConditionFalse)), want: 0},
		"PVCP-7: shown again, to be released":    {gate: true, event: added(reconcile.Fresh, condition(corev1.ConditionFalse), deleted), want: 1},
		"PVCP-50: added by the replay":           {gate: true, event: added(reconcile.Backlog, condition(corev1.ConditionTrue)), want: 0},
		"PVCP-22: a pod runs":                    {gate: true, cached: []runtime.Object{claim("claim")}, event: seen(pod("p")), want: 1},
		"PVCP-47: a pod runs, deleted claim":     {gate: true, cached: waits, event: seen(pod("p")), want: 1},
		"PVCP-47: a pod runs, a released claim":  {gate: true, cached: []runtime.Object{claim("claim", deleted, unprotected)}, event: seen(pod("p")), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, config{unusedSince: tc.gate})
			f.Cache(t, tc.cached...)
			tc.event(f.c)
			if depth := f.c.loop.Inspect().Depth; depth != tc.want {
				t.Errorf("%d keys are queued, want %d", depth, tc.want)
			}
		})
	}
}

// The last pod of a claim goes while no instance runs, and no event is left. Pins PVCP-50.
func TestANewInstanceLooksAtWhatIsShownAsUsed(t *testing.T) {
	env := controllertest.New(t, claim("claim", condition(corev1.ConditionFalse)), claim("used", condition(corev1.ConditionFalse)),
		pod("p", func(p *corev1.Pod) { p.Spec.Volumes = nil }, referring("used")))
	c := must.Get(newController(env.Env, config{unusedSince: true}))(t)
	env.Start(t)
	env.Run(t, c)
	env.AwaitIdle(t)
	if writes := env.Writes(); len(writes) != 1 {
		t.Errorf("wrote %v", writes)
	}
	if stored := controllertest.MustStored[*corev1.PersistentVolumeClaim](t, env, namespace, "claim"); !isShownUnused(stored) {
		t.Errorf("conditions are %+v", stored.Status.Conditions)
	}
}

// The handlers are on the informers: the deletion of a claim, and of its last pod. Pins PVCP-36
// and PVCP-9.
func TestAClaimGoesAfterItsPod(t *testing.T) {
	env := controllertest.New(t, claim("claim"), pod("p"))
	env.CompleteWrites("persistentvolumeclaims")
	c := must.Get(newController(env.Env, config{}))(t)
	env.Start(t)
	env.Run(t, c)
	controllertest.Change(t, env, namespace, "claim", deleted)
	controllertest.Eventually(t, "the deletion was seen", func() bool { return c.loop.Inspect().Reconciled == 1 })
	if writes := env.Writes(); len(writes) != 0 {
		t.Fatalf("wrote %v", writes)
	}
	env.Remove(t, pod("p"))
	controllertest.Eventually(t, "the claim is released", func() bool {
		return len(controllertest.MustStored[*corev1.PersistentVolumeClaim](t, env, namespace, "claim").Finalizers) == 1
	})
}
