package tainteviction

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

func TestTolerances(t *testing.T) {
	greater := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpGt, Value: "5"}
	valued := func(value string) corev1.Taint {
		return corev1.Taint{Key: "a", Value: value, Effect: corev1.TaintEffectNoExecute}
	}
	for name, tc := range map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		comparison  bool
		want        time.Duration // -1 if a taint is not tolerated
	}{
		"TAINT-17a: none":                                 {nil, []corev1.Taint{taint("a")}, false, -1},
		"TAINT-17a: of another taint":                     {[]corev1.Toleration{tolerates("b")}, []corev1.Taint{taint("a")}, false, -1},
		"TAINT-17a: of one of two taints":                 {[]corev1.Toleration{tolerates("a", 60)}, []corev1.Taint{taint("a"), taint("b")}, false, -1},
		"TAINT-17a, TAINT-34: the first counts":           {[]corev1.Toleration{tolerates("a", 60), tolerates("a", 10)}, []corev1.Taint{taint("a")}, false, time.Minute},
		"TAINT-34: the first may be for everything":       {[]corev1.Toleration{tolerates(""), tolerates("a", 10)}, []corev1.Taint{taint("a")}, false, forever},
		"TAINT-17b: the shortest of two taints":           {[]corev1.Toleration{tolerates("a", 60), tolerates("b", 10)}, []corev1.Taint{taint("a"), taint("b")}, false, 10 * time.Second},
		"TAINT-17b: a limit and none":                     {[]corev1.Toleration{tolerates("a", 1), tolerates("b")}, []corev1.Taint{taint("a"), taint("b")}, false, time.Second},
		"TAINT-17b: none and a limit":                     {[]corev1.Toleration{tolerates("a"), tolerates("b", 1)}, []corev1.Taint{taint("a"), taint("b")}, false, time.Second},
		"TAINT-17b: a toleration that is not used":        {[]corev1.Toleration{tolerates("a", 60), tolerates("b", 1)}, []corev1.Taint{taint("a")}, false, time.Minute},
		"TAINT-17b: no limit":                             {[]corev1.Toleration{tolerates("a")}, []corev1.Taint{taint("a")}, false, forever},
		"TAINT-17b: zero":                                 {[]corev1.Toleration{tolerates("a", 0)}, []corev1.Taint{taint("a")}, false, 0},
		"TAINT-17b: negative":                             {[]corev1.Toleration{tolerates("a", -7)}, []corev1.Taint{taint("a")}, false, 0},
		"TAINT-47: more seconds than a duration can hold": {[]corev1.Toleration{tolerates("a", 9_300_000_000)}, []corev1.Taint{taint("a")}, false, forever},
		"TAINT-47: the largest number":                    {[]corev1.Toleration{tolerates("a", math.MaxInt64)}, []corev1.Taint{taint("a")}, false, forever},
		"TAINT-3: comparison is off":                      {[]corev1.Toleration{greater}, []corev1.Taint{valued("6")}, false, -1},
		"TAINT-3: greater":                                {[]corev1.Toleration{greater}, []corev1.Taint{valued("6")}, true, forever},
		"TAINT-3: not greater":                            {[]corev1.Toleration{greater}, []corev1.Taint{valued("5")}, true, -1},
		"TAINT-3: no number":                              {[]corev1.Toleration{greater}, []corev1.Taint{valued("06")}, true, -1},
		"TAINT-17a: of another effect":                    {[]corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}}, []corev1.Taint{taint("a")}, false, -1},
		"TAINT-17a: an operator that there is not":        {[]corev1.Toleration{{Key: "a", Operator: "Like"}}, []corev1.Taint{taint("a")}, false, -1},
		"TAINT-17a: equal by default":                     {[]corev1.Toleration{{Key: "a", Value: "6"}}, []corev1.Taint{valued("6")}, false, forever},
		"TAINT-17a: of another value":                     {[]corev1.Toleration{{Key: "a", Value: "7"}}, []corev1.Taint{valued("6")}, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			got := time.Duration(-1)
			if all, ok := (config{comparisonOperators: tc.comparison}).tolerances(klog.Background(), tc.tolerations, tc.taints); ok {
				got = shortest(all)
			}
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	at := func(created, due time.Duration) *appointment {
		return &appointment{uid: "pod", node: "node", created: epoch.Add(created), due: epoch.Add(due)}
	}
	tried := func(a *appointment) *appointment { a.begun = true; return a }
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		existing  *appointment
		cancelled bool
		want      *appointment
	}{
		"TAINT-17a: not tolerated":                                   {tolerating(), nil, false, at(0, 0)},
		"TAINT-17a: no longer tolerated":                             {tolerating(), at(-9*time.Second, time.Minute), true, at(0, 0)},
		"TAINT-43: being evicted at once":                            {tolerating(), at(-1, -1), false, nil},
		"TAINT-43: being evicted after some time":                    {tolerating(), tried(at(-time.Minute, -1)), false, nil},
		"TAINT-17c: tolerated":                                       {tolerating(tolerates("a")), nil, false, nil},
		"TAINT-17c: tolerated by now":                                {tolerating(tolerates("a")), at(-9*time.Second, time.Minute), true, nil},
		"TAINT-17d: tolerated for some time":                         {tolerating(tolerates("a", 60)), nil, false, at(0, time.Minute)},
		"TAINT-17e: for longer than before":                          {tolerating(tolerates("a", 600)), at(-9*time.Second, time.Minute), false, nil},
		"TAINT-17e: for a shorter time than before":                  {tolerating(tolerates("a", 1)), at(-9*time.Second, time.Minute), false, nil},
		"TAINT-17e: the clock was set back":                          {tolerating(tolerates("a", 60)), at(9*time.Second, 2*time.Minute), true, at(9*time.Second, time.Minute)},
		"TAINT-17e: judged again in the same moment":                 {tolerating(tolerates("a", 60)), at(0, time.Minute), false, nil},
		"TAINT-18: for some time, but it is being evicted at once":   {tolerating(tolerates("a", 60)), tried(at(0, 0)), false, nil},
		"TAINT-50: for some time, and it was not tolerated":          {tolerating(tolerates("a", 60)), at(-9*time.Second, -9*time.Second), true, at(0, time.Minute)},
		"TAINT-50: for no time, as before":                           {tolerating(tolerates("a", 0)), at(-9*time.Second, -9*time.Second), false, nil},
		"TAINT-17f: the taint is older than the controller's notice": {tolerating(tolerates("a", 60)), nil, false, at(0, time.Minute)},
		"TAINT-21: what is being deleted, or has ended, is like other": {func() *corev1.Pod {
			p := tolerating()
			p.DeletionTimestamp, p.Status.Phase = &metav1.Time{Time: epoch}, corev1.PodSucceeded
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: ptr.To(true)}}
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			return p
		}(), nil, false, at(0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			got := config{}.judge(klog.Background(), tc.pod, []corev1.Taint{taint("a", epoch.Add(-time.Minute))}, tc.existing, epoch, sinceNow)
			if got.cancelled != tc.cancelled || (got.made == nil) != (tc.want == nil) || got.made != nil && *got.made != *tc.want {
				t.Errorf("got %v, %+v, want %v, %+v", got.cancelled, got.made, tc.cancelled, tc.want)
			}
		})
	}
}

func TestWhatIsFoundAtTheBeginningHasBeenCounting(t *testing.T) {
	ago := func(d time.Duration) time.Time { return epoch.Add(-d) }
	bound := func(p *corev1.Pod, at time.Time) *corev1.Pod {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "True", LastTransitionTime: metav1.NewTime(epoch)},
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
		return p
	}
	edited := func(p *corev1.Pod, generation int64) *corev1.Pod { p.Generation = generation; return p }
	minute := tolerates("a", 60)
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		taints []corev1.Taint
		want   time.Duration // from now
	}{
		"TAINT-40: since the taint was added, to the second": {tolerating(minute), []corev1.Taint{taint("a", ago(20*time.Second))}, 41 * time.Second},
		"TAINT-53: overdue": {tolerating(minute), []corev1.Taint{taint("a", ago(5*time.Minute))}, 30 * time.Second},
		"TAINT-53: overdue, tolerated for less than that":     {tolerating(tolerates("a", 8)), []corev1.Taint{taint("a", ago(5*time.Minute))}, 8 * time.Second},
		"TAINT-53: overdue, tolerated for no time":            {tolerating(tolerates("a", 0)), []corev1.Taint{taint("a", ago(5*time.Minute))}, -299 * time.Second},
		"TAINT-40: since the pod was bound":                   {bound(tolerating(minute), ago(10*time.Second)), []corev1.Taint{taint("a", ago(20*time.Minute))}, 51 * time.Second},
		"TAINT-40: bound before the taint was added":          {bound(tolerating(minute), ago(30*time.Minute)), []corev1.Taint{taint("a", ago(20*time.Second))}, 41 * time.Second},
		"TAINT-40: created on the node":                       {tolerating(tolerates("a", 3639)), []corev1.Taint{taint("a", ago(5*time.Hour))}, 40 * time.Second},
		"TAINT-53: due soon":                                  {tolerating(tolerates("a", 3601)), []corev1.Taint{taint("a", ago(5*time.Hour))}, 30 * time.Second},
		"TAINT-40: nobody knows when the taint was added":     {tolerating(minute), []corev1.Taint{taint("a")}, time.Minute},
		"TAINT-40: the pod was changed":                       {edited(tolerating(minute), 2), []corev1.Taint{taint("a", ago(20*time.Second))}, time.Minute},
		"TAINT-40: nobody knows whether the pod was changed":  {edited(tolerating(minute), 0), []corev1.Taint{taint("a", ago(20*time.Second))}, time.Minute},
		"TAINT-40: the taint is from the future":              {tolerating(minute), []corev1.Taint{taint("a", epoch.Add(time.Hour))}, time.Minute},
		"TAINT-40: the first of two taints":                   {tolerating(minute, tolerates("b", 30)), []corev1.Taint{taint("b", ago(10*time.Second)), taint("a", ago(20*time.Second))}, 41 * time.Second},
		"TAINT-40: two taints of the same moment":             {tolerating(minute, tolerates("b", 52)), []corev1.Taint{taint("a", ago(20*time.Second)), taint("b", ago(20*time.Second))}, 33 * time.Second},
		"TAINT-40: a taint that is tolerated without a limit": {tolerating(minute, tolerates("b")), []corev1.Taint{taint("b", ago(time.Hour)), taint("a", ago(20*time.Second))}, 41 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := fixture(t, tc.pod, node(tc.taints...))
			wantPending(t, env, c, tc.want)
			env.Clock.Step(time.Second)
			nodeChanged(t, env, c, node(tc.taints...)) // replayed to the new instance
			wantPending(t, env, c, tc.want-time.Second)
			env.WantEvents(t)
		})
	}
}
