package csrcleaner

import (
	"context"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
	"kcmd.dev/test/simulation"
)

// model is a world in which requests come and go under the same names, are decided and issued.
type model struct {
	*simulation.World
	t *testing.T
	// wall is the clock of the process, which is never ahead.
	wall *simulation.Wall
	// pace is how rarely anything happens to a request in its first 23 hours: once in so many times.
	pace int
	// issued has certificates, by the time when they expire.
	issued map[time.Duration][]byte
}

// isWaitedFor reports whether somebody may still want to read a request, or decide about it.
func (m *model) isWaitedFor(r *certificatesv1.CertificateSigningRequest) bool {
	at := m.Clock.Now()
	for end, certificate := range m.issued {
		if string(r.Status.Certificate) == string(certificate) && at.After(now.Add(end)) {
			return false
		}
	}
	last, decided := r.CreationTimestamp.Time, false
	for _, c := range r.Status.Conditions {
		last = c.LastUpdateTime.Time // they are added one after the other
		decided = decided || c.Type != certificatesv1.CertificateApproved
	}
	if !decided && len(r.Status.Certificate) == 0 {
		return at.Sub(last) <= 24*time.Hour
	}
	for _, c := range r.Status.Conditions { // the first of them is enough
		if c.Type == certificatesv1.CertificateApproved && len(r.Status.Certificate) == 0 {
			continue
		}
		if at.Sub(c.LastUpdateTime.Time) > time.Hour {
			return false
		}
	}
	return true
}

func (m *model) edit() {
	name := fmt.Sprint("r", m.Rand.IntN(4))
	r, ok := simulation.Get[*certificatesv1.CertificateSigningRequest](m.World, "", name)
	if !ok {
		m.Create(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}})
		return
	}
	if m.Clock.Since(r.CreationTimestamp.Time) < 23*time.Hour && !m.OneIn(m.pace) {
		return
	}
	kind := []certificatesv1.RequestConditionType{"Approved", "Denied", "Failed"}[m.Rand.IntN(3)]
	has := len(r.Status.Conditions)
	isApproved := has == 1 && r.Status.Conditions[0].Type == "Approved"
	switch {
	case m.OneIn(4):
		m.Delete(r, nil)
	case has == 0 && m.OneIn(2), isApproved && kind == "Failed" && len(r.Status.Certificate) == 0:
		m.Note("%s: %s", name, kind)
		simulation.Change(m.World, r, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: kind, Status: "True", LastUpdateTime: metav1.NewTime(m.Clock.Now().Truncate(time.Second)),
			})
		})
	case isApproved:
		ends := []time.Duration{2 * time.Hour, 10 * time.Hour, 10000 * time.Hour}
		end := ends[m.Rand.IntN(3)]
		m.Note("%s is issued until %v", name, now.Add(end))
		simulation.Change(m.World, r, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Certificate = m.issued[end]
		})
	}
}

// TestWhateverHappensOldRequestsGoAndOthersStay has requests created, decided, issued, deleted and created again, the
// clock of the process set, requests fail and the controller restarted, while the cache is behind.
func TestWhateverHappensOldRequestsGoAndOthersStay(t *testing.T) {
	issued := map[time.Duration][]byte{}
	for _, end := range []time.Duration{2 * time.Hour, 10 * time.Hour, 10000 * time.Hour} {
		issued[end] = pki.CA(t, now, func(c *x509.Certificate) { c.NotAfter = now.Add(end) }).Cert
	}
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, wall: simulation.NewWall(w), issued: issued}).run()
	})
}

func (m *model) run() {
	m.Deleted = func(object runtime.Object) {
		if r := object.(*certificatesv1.CertificateSigningRequest); m.isWaitedFor(r) {
			m.t.Errorf("%s %s of %v is deleted: %v, issued %v", r.Name, r.UID, r.CreationTimestamp, r.Status.Conditions,
				len(r.Status.Certificate) > 0)
		}
	}
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		env.Clock = m.wall
		c := must.Get(newCleaner(env))(m.t)
		passes := simulation.NewPasses(m.World, 0, passPeriod, func(ctx context.Context) { c.pass(ctx, ctx) })
		return simulation.Instance{Runners: []simulation.Runner{passes}}
	}
	m.pace = []int{1, 12}[m.Rand.IntN(2)]
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 2}[m.Rand.IntN(2)]
	m.MayBeLossy(2)
	m.Play(func() {
		m.edit()
		m.Clock.Step(time.Duration(m.Rand.IntN(90)) * time.Minute)
	}, func() {
		m.wall.Ahead = -time.Duration(m.Rand.IntN(3)) * 12 * time.Hour
		m.Note("the clock is set to %v", m.wall.Now())
	})
	m.wall.Ahead = 0
	m.Note("the clock is right")
	m.Settle(26*time.Hour, nil)
	for _, r := range simulation.All[*certificatesv1.CertificateSigningRequest](m.World) {
		m.t.Errorf("after a day there is still %s of %v: %v", r.Name, r.CreationTimestamp, r.Status.Conditions)
	}
}
