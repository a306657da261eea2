package horizontalpodautoscaler

import (
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Pins HPA-34.
func TestGroup(t *testing.T) {
	start := startup{initialization: 5 * time.Minute, readinessDelay: 30 * time.Second}
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(epoch)) }
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		resource corev1.ResourceName
		sampled  time.Duration // before now; negative for no sample
		want     string
	}{
		"settled":                                {aPod("p"), "cpu", 0, "ready"},
		"deleted":                                {aPod("p", deleted), "cpu", 0, "ignored"},
		"deleted and pending":                    {aPod("p", deleted, phase(corev1.PodPending)), "cpu", 0, "ignored"},
		"failed":                                 {aPod("p", phase(corev1.PodFailed)), "cpu", 0, "ignored"},
		"pending":                                {aPod("p", phase(corev1.PodPending)), "memory", 0, "unready"},
		"pending without a sample":               {aPod("p", phase(corev1.PodPending)), "memory", -1, "unready"},
		"without a sample":                       {aPod("p"), "cpu", -1, "missing"},
		"succeeded without a sample":             {aPod("p", phase(corev1.PodSucceeded)), "cpu", -1, "missing"},
		"succeeded with a sample":                {aPod("p", phase(corev1.PodSucceeded)), "memory", 0, "ready"},
		"without readiness":                      {aPod("p", func(p *corev1.Pod) { p.Status.Conditions = nil }), "cpu", 0, "unready"},
		"without a start":                        {aPod("p", func(p *corev1.Pod) { p.Status.StartTime = nil }), "cpu", 0, "unready"},
		"starts and is not ready":                {aPod("p", readySince(no, time.Minute, time.Minute)), "cpu", 0, "unready"},
		"starts, sampled before it was ready":    {aPod("p", readySince(yes, 2*time.Minute, 90*time.Second)), "cpu", 31 * time.Second, "unready"},
		"starts, sampled since it was ready":     {aPod("p", readySince(yes, 2*time.Minute, 90*time.Second)), "cpu", 30 * time.Second, "ready"},
		"later, never was ready":                 {aPod("p", readySince(no, 10*time.Minute, 10*time.Minute-29*time.Second)), "cpu", 0, "unready"},
		"later, was ready once":                  {aPod("p", readySince(no, 10*time.Minute, 10*time.Minute-30*time.Second)), "cpu", 0, "ready"},
		"later, ready, sampled long ago":         {aPod("p", readySince(yes, 10*time.Minute, time.Second)), "cpu", time.Minute, "ready"},
		"the period of starting ends":            {aPod("p", readySince(no, 5*time.Minute, time.Minute)), "cpu", 0, "ready"},
		"other resources do not care":            {aPod("p", readySince(no, time.Minute, time.Minute)), "memory", 0, "ready"},
		"nor do metrics that are none":           {aPod("p", readySince(no, time.Minute, time.Minute)), "", 0, "ready"},
		"readiness unknown is not not ready":     {aPod("p", readySince(corev1.ConditionUnknown, 10*time.Minute, 10*time.Minute)), "cpu", 0, "ready"},
		"unknown in its start, sampled too soon": {aPod("p", readySince(corev1.ConditionUnknown, time.Minute, time.Second)), "cpu", 0, "unready"},
	} {
		s := samples{}
		if tc.sampled >= 0 {
			s["p"] = sample{at: epoch.Add(-tc.sampled), window: time.Minute}
		}
		g := group([]*corev1.Pod{tc.pod}, s, tc.resource, start, epoch)
		got := map[bool]string{
			g.ready == 1:                           "ready",
			slices.Equal(g.unready, []string{"p"}): "unready",
			slices.Equal(g.missing, []string{"p"}): "missing",
			slices.Equal(g.ignored, []string{"p"}): "ignored",
		}[true]
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// Pins HPA-34.
func TestSamplesOfIgnoredAndUnreadyPodsDoNotCount(t *testing.T) {
	all := amounts(1, 2, 3)
	all["stranger"] = sample{amount: 4}
	kept := podGroups{ignored: []string{"p0"}, unready: []string{"p2"}}.counted(all)
	if len(kept) != 2 || kept["p1"].amount != 2 || kept["stranger"].amount != 4 {
		t.Errorf("kept %v", kept)
	}
	if len(all) != 4 {
		t.Error("the samples of other metrics were changed")
	}
}

// Pins HPA-37.
func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name, cpu string) corev1.Container {
		c := corev1.Container{Name: name}
		if cpu != "" {
			c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		}
		return c
	}
	sidecar := container("sidecar", "50m")
	sidecar.RestartPolicy = &always
	pod := func(edit func(*corev1.PodSpec)) *corev1.Pod {
		return aPod("p", func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{container("a", "100m"), container("b", "200m")}
			edit(&p.Spec)
		})
	}
	plain := pod(func(*corev1.PodSpec) {})
	withInit := pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{container("init", "9"), sidecar} })
	lacking := pod(func(s *corev1.PodSpec) { s.Containers[1] = container("b", "") })
	list := func(pairs ...string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return l
	}
	podLevel := func(edit func(*corev1.PodSpec), pairs ...string) *corev1.Pod {
		return pod(func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: list(pairs...)}
			edit(s)
		})
	}
	asIs := func(*corev1.PodSpec) {}
	overhead := func(s *corev1.PodSpec) { s.Overhead = list("cpu", "25m") }
	gpus := func(s *corev1.PodSpec) {
		for i := range s.Containers {
			s.Containers[i].Resources.Requests["example.com/gpu"] = resource.MustParse("2")
		}
	}
	limited := pod(func(s *corev1.PodSpec) { s.Resources = &corev1.ResourceRequirements{Limits: list("cpu", "2")} })
	for name, tc := range map[string]struct {
		pod       *corev1.Pod
		resource  corev1.ResourceName
		container string
		podLevel  bool
		want      int64
		err       string
	}{
		// M11 (b)
		"sum of the containers":         {plain, "cpu", "", true, 300, ""},
		"with sidecars, not init":       {withInit, "cpu", "", true, 350, ""},
		"without overhead":              {pod(overhead), "cpu", "", true, 300, ""},
		"one container":                 {plain, "cpu", "b", true, 200, ""},
		"a sidecar by name":             {withInit, "cpu", "sidecar", true, 50, ""},
		"an init container by name":     {withInit, "cpu", "init", true, 0, "container init not found in Pod p"},
		"no such container":             {plain, "cpu", "z", true, 0, "container z not found in Pod p"},
		"one container lacks it":        {lacking, "cpu", "", true, 0, "missing request for cpu in container b of Pod p"},
		"another container lacks it":    {lacking, "cpu", "a", true, 100, ""},
		"limits of the pod alone":       {limited, "cpu", "", true, 300, ""},
		"nothing supported for the pod": {podLevel(asIs, "example.com/gpu", "1"), "cpu", "", true, 300, ""},
		// M11 (a)
		"of the pod":                             {podLevel(asIs, "cpu", "700m"), "cpu", "", true, 700, ""},
		"of the pod, gate off":                   {podLevel(asIs, "cpu", "700m"), "cpu", "", false, 300, ""},
		"of the pod, a container is named":       {podLevel(asIs, "cpu", "700m"), "cpu", "a", true, 100, ""},
		"of the pod, with overhead":              {podLevel(overhead, "cpu", "700m"), "cpu", "", true, 725, ""},
		"of the pod, gate off, with overhead":    {podLevel(overhead, "cpu", "700m"), "cpu", "", false, 300, ""},
		"of the pod, another resource":           {podLevel(asIs, "memory", "1Gi"), "cpu", "", true, 300, ""},
		"another resource, with overhead":        {podLevel(overhead, "memory", "1Gi"), "cpu", "", true, 325, ""},
		"another resource, a container lacks it": {podLevel(func(s *corev1.PodSpec) { s.Containers[1] = container("b", "") }, "memory", "1Gi"), "cpu", "", true, 100, ""},
		"another resource, init needs more": {podLevel(func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{container("init", "9"), sidecar}
		}, "memory", "1Gi"), "cpu", "", true, 9000, ""},
		"a resource that pods cannot request": {podLevel(gpus, "cpu", "1"), "example.com/gpu", "", true, 4000, ""},
		"HPA-71: more than fits, together": {pod(func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{container("a", "9000000000000000"), container("b", "9000000000000000")}
		}), "cpu", "", true, math.MaxInt64, ""},
		"HPA-71: more than fits, of the pod": {podLevel(asIs, "cpu", "10Pi"), "cpu", "", true, math.MaxInt64, ""},
		"a resource that nothing requests":   {podLevel(asIs, "cpu", "1"), "memory", "", true, 0, "missing pod-level request for memory in Pod p"},
	} {
		got, err := requestsOf([]*corev1.Pod{tc.pod}, tc.resource, tc.container, tc.podLevel)
		if tc.err != "" {
			if err == nil || err.Error() != tc.err {
				t.Errorf("%s: got error %v", name, err)
			}
			continue
		}
		if err != nil || got["p"] != tc.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if _, err := requestsOf([]*corev1.Pod{plain, lacking}, "cpu", "", true); err == nil {
		t.Error("one pod without request must fail the metric")
	}
}
