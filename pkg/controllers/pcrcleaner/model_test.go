package pcrcleaner

import (
	"context"
	"fmt"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world in which requests come and go under the same names.
type model struct {
	*simulation.World
	t *testing.T
	// wall is the clock of the process, which is never ahead.
	wall *simulation.Wall
}

func (m *model) isOver(r *certificatesv1beta1.PodCertificateRequest) bool {
	return m.Clock.Since(r.CreationTimestamp.Time) >= 15*time.Minute
}

func (m *model) edit() {
	namespace, name := fmt.Sprint("ns", m.Rand.IntN(2)), fmt.Sprint("r", m.Rand.IntN(3))
	switch r, ok := simulation.Get[*certificatesv1beta1.PodCertificateRequest](m.World, namespace, name); {
	case !ok:
		r = &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if m.OneIn(4) {
			r.Finalizers = []string{"example.com/hold"}
		}
		m.Create(r)
	case m.OneIn(3):
		m.Delete(r, nil)
	case m.OneIn(2):
		m.Note("%s/%s is released", namespace, name)
		simulation.Change(m.World, r, func(r *certificatesv1beta1.PodCertificateRequest) { r.Finalizers = nil })
	default:
		m.Note("%s/%s is issued", namespace, name)
		simulation.Change(m.World, r, func(r *certificatesv1beta1.PodCertificateRequest) {
			r.Status.Conditions = []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue}}
		})
	}
}

// TestWhateverHappensOldRequestsGoAndOthersStay has requests created, issued, deleted and created again, the clock of
// the process set, requests fail and the controller restarted, while the cache is behind.
func TestWhateverHappensOldRequestsGoAndOthersStay(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, wall: simulation.NewWall(w)}).run()
	})
}

func (m *model) run() {
	m.Deleted = func(object runtime.Object) {
		if r := object.(*certificatesv1beta1.PodCertificateRequest); !m.isOver(r) {
			m.t.Errorf("%s/%s %s is deleted, and was created at %v", r.Namespace, r.Name, r.UID, r.CreationTimestamp)
		}
	}
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		env.Clock = m.wall
		c := must.Get(newCleaner(env))(m.t)
		passes := simulation.NewPasses(m.World, 0, passPeriod, func(ctx context.Context) { c.pass(ctx, ctx) })
		return simulation.Instance{Runners: []simulation.Runner{passes}}
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 2}[m.Rand.IntN(2)]
	m.MayBeLossy(2)
	m.Play(func() {
		m.edit()
		m.Clock.Step(time.Duration(m.Rand.IntN(90)) * time.Second)
	}, func() {
		m.wall.Ahead = -time.Duration(m.Rand.IntN(3)) * time.Hour
		m.Note("the clock is set to %v", m.wall.Now())
	})
	m.wall.Ahead = 0
	m.Note("the clock is right")
	m.Settle(passPeriod, func() bool {
		return simulation.Release[*certificatesv1beta1.PodCertificateRequest](m.World, true)
	})
	for _, r := range simulation.All[*certificatesv1beta1.PodCertificateRequest](m.World) {
		if m.Clock.Since(r.CreationTimestamp.Time) >= 15*time.Minute+passPeriod {
			m.t.Errorf("%s/%s of %v is left at %v", r.Namespace, r.Name, r.CreationTimestamp, m.Clock.Now())
		}
	}
}
