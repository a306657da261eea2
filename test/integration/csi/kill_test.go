package csi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// A manager is killed in each step of the life of a volume, after it has begun an operation. Its
// successor starts while the driver's program still works on that, or finds it done. Each step ends
// in the state in which it ends when nobody is killed.
func TestAKilledManagerLeavesNoTrace(t *testing.T) {
	cluster.Rest(t, enabled)
	for name, interrupt := range map[string]func(*life, step){
		"nobody is killed":                   (*life).undisturbed,
		"the successor finds it in progress": (*life).killedInProgress,
		"the successor finds it done":        (*life).killedBeforeItsEnd,
	} {
		t.Run(name, func(t *testing.T) {
			l := &life{T: t, namespace: cluster.Namespace(t)}
			createClass(t, l.namespace, corev1.PersistentVolumeReclaimDelete)
			l.launch()
			var volume *corev1.PersistentVolume
			for _, s := range []step{provisioned, attached, expanded, detached, deleted} {
				t.Log(s.name)
				interrupt(l, s)
				awaitState(t, l.namespace, s.state)
				if volume == nil {
					volume = must.Get(volumeOf(t.Context(), l.namespace))(t)
				}
			}
			awaitVolumeGone(t, volume.Name)
		})
	}
}

// life is that of a volume, and of the managers meanwhile.
type life struct {
	*testing.T
	namespace string
	manager   *manager.Process
}

// launch starts a manager in a process of its own.
func (l *life) launch() {
	l.Helper()
	l.manager = manager.StartProcess(l.T, cluster.ControlPlane, harness.All(harness.Only(enabled), harness.WithoutLease))
}

func (l *life) undisturbed(s step) {
	l.Helper()
	s.act(l.T, l.namespace)
}

// kill has the manager begin an operation that the driver does not answer, and kills it.
func (l *life) kill(s step) (resumeDriver func()) {
	l.Helper()
	resumeDriver = pauseDriver(l.T)
	s.act(l.T, l.namespace)
	awaitOf(l.T, l.namespace, "the operation has begun", s.begun)
	must.Succeed(l.T, l.manager.Kill())
	return resumeDriver
}

func (l *life) killedInProgress(s step) {
	l.Helper()
	resumeDriver := l.kill(s)
	l.launch()
	resumeDriver()
}

func (l *life) killedBeforeItsEnd(s step) {
	l.Helper()
	resumeDriver := l.kill(s)
	resumeDriver()
	awaitOf(l.T, l.namespace, "the driver's program has done its part", s.answered)
	l.launch()
}
