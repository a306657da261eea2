package pvcprotection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

func containers(states ...corev1.ContainerState) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, state := range states {
		all = append(all, corev1.ContainerStatus{State: state})
	}
	return all
}

var (
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	ended   = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	unknown = corev1.ContainerState{}
)

func TestWhetherAPodHoldsAClaimThatIsDeleted(t *testing.T) {
	own := controllertest.Pod(namespace, "claim-of")
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"PVCP-19: running":             {pod("p"), claim("claim", deleted), true},
		"PVCP-19: pending on a node":   {pod("p", controllertest.InPhase(corev1.PodPending)), claim("claim", deleted), true},
		"PVCP-19, PVCP-37: succeeded":  {pod("p", controllertest.InPhase(corev1.PodSucceeded)), claim("claim", deleted), true},
		"PVCP-19, PVCP-37: failed":     {pod("p", controllertest.InPhase(corev1.PodFailed)), claim("claim", deleted), true},
		"PVCP-19: shut down":           {pod("p", shutDown), claim("claim", deleted), true},
		"PVCP-18, PVCP-21: no node":    {pod("p", unscheduled), claim("claim", deleted), false},
		"PVCP-18: refers to others":    {controllertest.Pod(namespace, "p", referring("another")), claim("claim", deleted), false},
		"PVCP-18: its second claim":    {controllertest.Pod(namespace, "p", referring("another", "claim")), claim("claim", deleted), true},
		"PVCP-18: no volumes":          {controllertest.Pod(namespace, "p"), claim("claim", deleted), false},
		"of another namespace":         {controllertest.Pod("another", "p", referring("claim")), claim("claim", deleted), false},
		"PVCP-20, PVCP-33: made for":   {controllertest.Pod(namespace, "claim-of", ephemeral("web")), claim("claim-of-web", deleted, madeFor(own)), true},
		"PVCP-20, PVCP-31: shut down":  {controllertest.Pod(namespace, "claim-of", ephemeral("web"), shutDown), claim("claim-of-web", deleted, madeFor(own)), false},
		"PVCP-20: being deleted":       {controllertest.Pod(namespace, "claim-of", ephemeral("web"), controllertest.Terminating), claim("claim-of-web", deleted, madeFor(own)), true},
		"PVCP-20: of the same name":    {controllertest.Pod(namespace, "claim-of", ephemeral("web")), claim("claim-of-web", deleted), false},
		"PVCP-20: of a namesake":       {controllertest.Pod(namespace, "claim-of", ephemeral("web"), func(p *corev1.Pod) { p.UID = "second" }), claim("claim-of-web", deleted, madeFor(own)), false},
		"PVCP-20: made for, no node":   {controllertest.Pod(namespace, "claim-of", ephemeral("web"), unscheduled), claim("claim-of-web", deleted, madeFor(own)), false},
		"PVCP-19: owned and refers to": {controllertest.Pod(namespace, "p", referring("claim"), shutDown), claim("claim", deleted, madeFor(own)), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := uses(tc.pod, tc.claim); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Pins PVCP-23.
func TestWhetherAPodCountsForAClaimThatIsNotDeleted(t *testing.T) {
	own := controllertest.Pod(namespace, "claim-of")
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"running":       {pod("p"), claim("claim"), true},
		"not scheduled": {pod("p", unscheduled), claim("claim"), true},
		"succeeded":     {pod("p", controllertest.InPhase(corev1.PodSucceeded)), claim("claim"), false},
		"failed":        {pod("p", controllertest.InPhase(corev1.PodFailed)), claim("claim"), false},
		"being deleted, containers run": {pod("p", controllertest.Terminating, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = containers(running)
		}), claim("claim"), true},
		"shut down, containers run": {controllertest.Pod(namespace, "claim-of", ephemeral("web"), shutDown, func(p *corev1.Pod) {
			p.Status.ContainerStatuses = containers(running)
		}), claim("claim-of-web", madeFor(own)), true},
		"of the same name": {controllertest.Pod(namespace, "claim-of", ephemeral("web")), claim("claim-of-web"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := uses(tc.pod, tc.claim); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// Pins PVCP-8.
func TestAPodThatMayReleaseItsClaimsHasTerminated(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"running":                       {func(*corev1.Pod) {}, false},
		"pending":                       {controllertest.InPhase(corev1.PodPending), false},
		"succeeded":                     {controllertest.InPhase(corev1.PodSucceeded), true},
		"failed":                        {controllertest.InPhase(corev1.PodFailed), true},
		"deleted, nothing ran":          {controllertest.Terminating, true},
		"deleted, containers ended":     {changed(containers(ended, waiting), containers(ended), containers(ended)), true},
		"deleted, a container runs":     {changed(containers(ended, running), nil, nil), false},
		"deleted, of unknown state":     {changed(containers(unknown), nil, nil), false},
		"deleted, an init container":    {changed(nil, containers(running), nil), false},
		"deleted, an ephemeral one":     {changed(nil, nil, containers(running)), false},
		"not deleted, containers ended": {func(p *corev1.Pod) { p.Status.ContainerStatuses = containers(ended) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mayRelease(controllertest.Pod(namespace, "p", tc.change)); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// changed marks a pod as being deleted and sets the states of its containers.
func changed(regular, init, ephemeral []corev1.ContainerStatus) func(*corev1.Pod) {
	return controllertest.All(controllertest.Terminating, func(p *corev1.Pod) {
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses = regular, init, ephemeral
	})
}
