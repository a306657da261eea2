package horizontalpodautoscaler

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tenth = tolerances{down: 0.1, up: 0.1}
)

// aPod is a ready pod that started long ago and requests one CPU.
func aPod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	long := metav1.NewTime(epoch.Add(-time.Hour))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:      "main",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
		}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			StartTime:  &long,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: long}},
		},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func phase(p corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = p }
}

// readySince sets the start of a pod and its last change of readiness, both before now.
func readySince(status corev1.ConditionStatus, started, changed time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.StartTime = ptr.To(metav1.NewTime(epoch.Add(-started)))
		pod.Status.Conditions[0].Status = status
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(epoch.Add(-changed))
	}
}

func podsNamed(count int, edits ...func(*corev1.Pod)) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range count {
		pods = append(pods, aPod("p"+strconv.Itoa(i), edits...))
	}
	return pods
}

// amounts gives p0, p1, … these samples.
func amounts(all ...int64) samples {
	s := samples{}
	for i, amount := range all {
		s["p"+strconv.Itoa(i)] = sample{amount: amount, at: epoch, window: time.Minute}
	}
	return s
}

// Pins HPA-31.
func TestTolerancesAreInclusive(t *testing.T) {
	for ratio, want := range map[float64]bool{0.9: true, 1.1: true, 0.8999: false, 1.1001: false, 1: true} {
		if got := tenth.within(ratio); got != want {
			t.Errorf("%v: got %v", ratio, got)
		}
	}
}

// Pins HPA-31.
func TestTolerancesComeFromBehaviorIfConfigurable(t *testing.T) {
	b := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp:   &autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.5"))},
		ScaleDown: &autoscalingv2.HPAScalingRules{},
	}
	for _, tc := range []struct {
		behavior     *autoscalingv2.HorizontalPodAutoscalerBehavior
		configurable bool
		want         tolerances
	}{
		{nil, true, tolerances{0.1, 0.1}},
		{b, false, tolerances{0.1, 0.1}},
		{b, true, tolerances{0.1, 0.5}},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: &autoscalingv2.HPAScalingRules{Tolerance: ptr.To(resource.MustParse("0.2"))},
		}, true, tolerances{0.2, 0.1}},
		{&autoscalingv2.HorizontalPodAutoscalerBehavior{}, true, tolerances{0.1, 0.1}},
	} {
		if got := tolerancesOf(tc.behavior, 0.1, tc.configurable); got != tc.want {
			t.Errorf("%+v: got %+v", tc, got)
		}
	}
}

// Pins HPA-32.
func TestFromRatio(t *testing.T) {
	unready := readySince(corev1.ConditionFalse, time.Hour, time.Minute)
	for name, tc := range map[string]struct {
		ratio float64
		size  sizes
		pods  []*corev1.Pod
		want  int32
		err   error
	}{
		"within the tolerance nothing changes":             {1.1, sizes{spec: 3}, nil, 3, nil},
		"shared by the ready pods":                         {1.5, sizes{spec: 3}, podsNamed(3), 5, nil},
		"pods that are not ready do not count":             {2, sizes{spec: 3}, append(podsNamed(2), aPod("x", unready)), 4, nil},
		"nor do ready pods that do not run":                {2, sizes{spec: 3}, append(podsNamed(2), aPod("x", phase(corev1.PodPending))), 4, nil},
		"no pods":                                          {2, sizes{spec: 3}, nil, 0, errNoPods},
		"from zero there is no tolerance, no pods":         {1.05, sizes{}, nil, 2, nil},
		"from zero with nothing to do":                     {0, sizes{}, nil, 0, nil},
		"more than there can be":                           {1e12, sizes{spec: 3}, podsNamed(3), math.MaxInt32, nil},
		"nobody ready asks for none":                       {2, sizes{spec: 1}, podsNamed(1, unready), 0, nil},
		"HPA-53: the size of the spec counts, not of pods": {0.95, sizes{spec: 7, status: 2}, podsNamed(2), 7, nil},
		"down to what the ready pods would need":           {0.5, sizes{spec: 4}, podsNamed(4), 2, nil},
		"an exact multiple is not rounded up again":        {2, sizes{spec: 4}, podsNamed(4), 8, nil},
	} {
		got, err := fromRatio(tc.ratio, tc.size, tc.pods, tenth)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %d, %v", name, got, err)
		}
	}
}

// Pins HPA-33.
func TestFromTotal(t *testing.T) {
	for name, tc := range map[string]struct {
		value, target int64
		size          sizes
		want          int32
		share         int64
	}{
		"HPA-53: within the tolerance the replicas stay": {310, 100, sizes{spec: 9, status: 3}, 3, 104},
		"shared at the target":                           {501, 100, sizes{status: 3}, 6, 167},
		"down":                                           {150, 100, sizes{status: 3}, 2, 50},
		"from zero":                                      {250, 100, sizes{}, 3, 250},
		"from zero with nothing to do":                   {0, 100, sizes{}, 0, 0},
		"saturated":                                      {math.MaxInt64, 1, sizes{status: 2}, math.MaxInt32, math.MaxInt64},
		"HPA-71: almost saturated":                       {math.MaxInt64 - 1, 1, sizes{status: 1}, math.MaxInt32, math.MaxInt64 - 1},
	} {
		if got, share := fromTotal(tc.value, tc.target, tc.size, tenth); got != tc.want || share != tc.share {
			t.Errorf("%s: got %d, %d", name, got, share)
		}
	}
}

// Pins HPA-35.
func TestReadings(t *testing.T) {
	perPod := utilizationGoal{percent: 50, requests: map[string]int64{"p0": 1000, "p1": 300}}
	const tera, most = 1e12 * 1000, math.MaxInt64
	huge := utilizationGoal{percent: 50, requests: map[string]int64{"p0": 70 * tera, "p1": 50 * tera}}
	tiny := utilizationGoal{percent: 50, requests: map[string]int64{"p0": 512, "p1": 512}}
	full := utilizationGoal{percent: 50, requests: map[string]int64{"p0": most, "p1": most}}
	for name, tc := range map[string]struct {
		goal goal
		s    samples
		want reading
		err  error
	}{
		"average is whole":                       {averageGoal(100), amounts(100, 101), reading{ratio: 1, average: 100}, nil},
		"average of pods nobody listed":          {averageGoal(10), amounts(10, 30, 50), reading{ratio: 3, average: 30}, nil},
		"HPA-51: utilization is truncated":       {perPod, amounts(400, 255), reading{ratio: 1, average: 327, utilization: 50}, nil},
		"pods without request are left out":      {perPod, amounts(500, 150, 9999), reading{ratio: 1, average: 325, utilization: 50}, nil},
		"no pod has a request":                   {perPod, samples{"other": {amount: 5}}, reading{}, errNoRequests},
		"requests of nothing cannot be utilized": {utilizationGoal{50, map[string]int64{"p0": 0}}, amounts(5), reading{}, errNoRequests},
		"HPA-71: more than 92 terabytes":         {huge, amounts(63*tera, 45*tera), reading{ratio: 1.8, average: 54 * tera, utilization: 90}, nil},
		"HPA-71: a tiny request":                 {tiny, amounts(20e9, 20e9), reading{ratio: math.MaxInt32 / 50.0, average: 20e9, utilization: math.MaxInt32}, nil},
		"HPA-71: the most there can be":          {full, amounts(most, most), reading{ratio: 2, average: most, utilization: 100}, nil},
		"HPA-71: an average of the most":         {averageGoal(most), amounts(most, most), reading{ratio: 1, average: most}, nil},
		"HPA-71: an average of the least":        {averageGoal(most), amounts(-most, -most), reading{ratio: -1, average: -most}, nil},
	} {
		got, err := tc.goal.read(tc.s)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// Pins HPA-36.
func TestFromPods(t *testing.T) {
	const goal100 = averageGoal(100)
	half := utilizationGoal{percent: 50, requests: map[string]int64{"p0": 1000, "p1": 1000, "p2": 1000, "p3": 1000}}
	high := utilizationGoal{percent: 150, requests: map[string]int64{"p0": 1000, "p1": 1000, "p2": 1000}}
	const tera = 1e12 * 1000
	huge := utilizationGoal{percent: 50, requests: map[string]int64{"p0": 100 * tera, "p1": 100 * tera}}
	tiny := utilizationGoal{percent: 50, requests: map[string]int64{"p0": 512}}
	for name, tc := range map[string]struct {
		known   samples
		groups  podGroups
		goal    goal
		current int32
		want    int32
		average int64
	}{
		"within the tolerance":                   {amounts(105, 105), podGroups{ready: 2}, goal100, 5, 5, 105},
		"up by the ready pods":                   {amounts(200, 200), podGroups{ready: 2}, goal100, 2, 4, 200},
		"down by the ready pods":                 {amounts(50, 50, 50), podGroups{ready: 3}, goal100, 3, 2, 50},
		"unready pods do not hold a scale down":  {amounts(50, 50), podGroups{ready: 2, unready: []string{"p2"}}, goal100, 3, 1, 50},
		"unready pods are idle going up":         {amounts(300, 300), podGroups{ready: 2, unready: []string{"p2"}}, goal100, 3, 6, 300},
		"unready pods can use up a scale up":     {amounts(150, 150), podGroups{ready: 2, unready: []string{"p2"}}, goal100, 3, 3, 150},
		"a scale up does not turn into a down":   {amounts(150), podGroups{ready: 1, unready: []string{"p1", "p2"}}, goal100, 3, 3, 150},
		"missing pods are at the goal down":      {amounts(20, 20), podGroups{ready: 2, missing: []string{"p2"}}, goal100, 3, 2, 20},
		"missing pods are idle going up":         {amounts(300, 300), podGroups{ready: 2, missing: []string{"p2"}}, goal100, 3, 6, 300},
		"missing and unready pods are both idle": {amounts(500), podGroups{ready: 1, missing: []string{"p1"}, unready: []string{"p2"}}, goal100, 3, 5, 500},
		"exactly at the goal nothing is assumed": {amounts(100), podGroups{ready: 1, missing: []string{"p1"}}, goal100, 7, 7, 100},
		"HPA-47: a surge does not turn a down into an up": {amounts(50, 50, 50, 50, 50, 50), podGroups{ready: 6, missing: []string{"p6"}},
			goal100, 3, 3, 50},
		"HPA-47: a surge does not turn an up into a down": {amounts(300, 300), podGroups{ready: 2, missing: []string{"p2"}}, goal100, 9, 9, 300},
		"utilization: missing use their request":          {amounts(100, 100, 100), podGroups{ready: 3, missing: []string{"p3"}}, half, 4, 3, 100},
		"utilization: or more if the goal is":             {amounts(300, 300), podGroups{ready: 2, missing: []string{"p2"}}, high, 3, 2, 300},
		"HPA-71: up from a tiny request":                  {amounts(20e9), podGroups{ready: 1}, tiny, 1, math.MaxInt32/50 + 1, 20e9},
		"HPA-71: missing use a huge request":              {amounts(10 * tera), podGroups{ready: 1, missing: []string{"p1"}}, huge, 2, 2, 10 * tera},
	} {
		got, r, err := fromPods(tc.known, tc.groups, tc.goal, tc.current, tenth)
		if got != tc.want || r.average != tc.average || err != nil {
			t.Errorf("%s: got %d, %+v, %v", name, got, r, err)
		}
	}
}
