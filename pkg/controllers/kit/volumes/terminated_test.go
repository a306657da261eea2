package volumes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

// Pins PVB-85a.
func TestIsTerminated(t *testing.T) {
	with := func(state corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{State: state})
		}
	}
	initialising := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	debugged := func(p *corev1.Pod) {
		p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	running := with(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	terminated := with(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
	waiting := with(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}})
	unknown := with(corev1.ContainerState{})
	type changes = []func(*corev1.Pod)
	for name, tc := range map[string]struct {
		changes changes
		want    bool
	}{
		"it runs":                          {changes{running}, false},
		"it waits":                         {changes{waiting}, false},
		"it failed":                        {changes{controllertest.InPhase(corev1.PodFailed)}, true},
		"it succeeded":                     {changes{controllertest.InPhase(corev1.PodSucceeded)}, true},
		"deleted, a container runs":        {changes{controllertest.Terminating, terminated, running}, false},
		"deleted, none was started":        {changes{controllertest.Terminating}, true},
		"deleted, all stopped or waiting":  {changes{controllertest.Terminating, terminated, waiting}, true},
		"deleted, the state is not known":  {changes{controllertest.Terminating, unknown}, false},
		"deleted, an init container runs":  {changes{controllertest.Terminating, terminated, initialising}, false},
		"deleted, an ephemeral one runs":   {changes{controllertest.Terminating, terminated, debugged}, false},
		"not deleted, although it stopped": {changes{terminated}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsTerminated(controllertest.Pod("ns", "pod", tc.changes...)); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
