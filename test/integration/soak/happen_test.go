package soak

import (
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// happening is one thing that can happen.
type happening struct {
	name   string
	weight int
	happen func()
}

func (s *storm) all() []happening {
	return []happening{
		{"good edit", 8, s.goodEdit},
		{"bad edit", 5, s.badEdit},
		{"rotation", 4, s.rotateAndWait},
		{"half a rotation", 2, s.halfRotation},
		{"stolen lease", 2, s.stealLease},
		{"hanging API server", 2, s.hangAPIServer},
		{"restart of the API server", 1, s.restartAPIServer},
		{"change of work", 12, s.work.change},
	}
}

// pick draws one by weight.
func (s *storm) pick() happening {
	all, total := s.all(), 0
	for _, h := range all {
		total += h.weight
	}
	n := s.random.IntN(total)
	for _, h := range all {
		if n -= h.weight; n < 0 {
			return h
		}
	}
	return all[0]
}

// edit makes an edit, different from all before, and waits until it is in force.
func (s *storm) edit(change func(*manager.Config)) {
	s.t.Helper()
	s.edits++
	must.Succeed(s.t, s.manager.Edit(s.t.Context(), func(c *manager.Config) {
		change(c)
		c.Resync.MinPeriod = &metav1.Duration{Duration: 12*time.Hour + time.Duration(s.edits)*time.Second}
	}))
}

// plain sets everything that goodEdit changes.
func plain(c *manager.Config) {
	c.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](5)
	c.Controllers.ReplicaSet.ConcurrentSyncs = ptr.To[int32](5)
	c.Controllers.Job.Enabled = nil
	c.Controllers.StatefulSet.Enabled = nil
	c.Controllers.GarbageCollector.Enabled = nil
	c.ClientConnection.QPS = ptr.To[float32](0)
}

func (s *storm) goodEdit() {
	s.t.Helper()
	n := int32(1 + s.random.IntN(20))
	on := ptr.To(s.random.IntN(2) == 0)
	changes := []func(*manager.Config){
		func(c *manager.Config) { c.Controllers.Deployment.ConcurrentSyncs = &n },
		func(c *manager.Config) { c.Controllers.ReplicaSet.ConcurrentSyncs = &n },
		func(c *manager.Config) { c.Controllers.Job.Enabled = on },
		func(c *manager.Config) { c.Controllers.StatefulSet.Enabled = on },
		func(c *manager.Config) { c.Controllers.GarbageCollector.Enabled = on },
		func(c *manager.Config) { c.ClientConnection.QPS = ptr.To(float32(n) * 20) },
	}
	s.edit(changes[s.random.IntN(len(changes))])
}

// badEdit writes something that cannot be used, and waits until it is refused.
func (s *storm) badEdit() {
	s.t.Helper()
	data, err := config.Marshal(s.manager.Config())
	must.Succeed(s.t, err)
	missing := s.manager.Config()
	missing.ServiceAccounts.RootCAFile = fmt.Sprintf("/nowhere/%d", s.random.Int())
	late, err := config.Marshal(missing)
	must.Succeed(s.t, err)
	number := fmt.Sprintf("# %d\n", s.random.Int()) // each is refused again
	contents := [][]byte{
		append([]byte(number), data[:len(data)/2]...),
		append(data, number+"unknown: field\n"...),
		[]byte(number + "{]"),
		late,
	}
	before, err := s.manager.Status(s.t.Context())
	must.Succeed(s.t, err)
	must.Succeed(s.t, s.manager.Write(contents[s.random.IntN(len(contents))]))
	s.wait("the bad edit is refused", func(st *runtime.Status) error {
		if st.Configuration.Rejected == "" || !newestReload(st).After(newestReload(&before)) {
			return fmt.Errorf("generation %d is in force, rejected: %s", st.Configuration.Generation, st.Configuration.Rejected)
		}
		if st.Configuration.Hash != before.Configuration.Hash {
			s.t.Errorf("the bad edit changed what is in force")
		}
		return nil
	})
}

// newestReload is when a file was judged last; the one before may have been refused too.
func newestReload(st *runtime.Status) (at time.Time) {
	if n := len(st.Reloads); n > 0 {
		at = st.Reloads[n-1].Time
	}
	return at
}

// rotate writes the kubeconfig with another certificate.
func (s *storm) rotate() {
	s.t.Helper()
	kubeconfig, err := clientcmd.LoadFromFile(plane.ManagerKubeconfig())
	must.Succeed(s.t, err)
	issued, err := plane.Config(controlplane.ManagerUser)
	must.Succeed(s.t, err)
	for _, user := range kubeconfig.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = issued.CertData, issued.KeyData
	}
	data, err := clientcmd.Write(*kubeconfig)
	must.Succeed(s.t, err)
	s.writeAccess(data)
}

func (s *storm) writeAccess(data []byte) {
	s.t.Helper()
	must.Succeed(s.t, os.WriteFile(s.access+".new", data, 0o600))
	must.Succeed(s.t, os.Rename(s.access+".new", s.access))
}

func (s *storm) rotateAndWait() {
	s.t.Helper()
	before, err := s.manager.Status(s.t.Context())
	must.Succeed(s.t, err)
	s.rotate()
	s.wait("the new certificate is in use", func(st *runtime.Status) error {
		if st.Connection.Renewed == before.Connection.Renewed || st.Connection.Error != "" {
			return fmt.Errorf("renewed %d times, error %s", st.Connection.Renewed, st.Connection.Error)
		}
		return nil
	})
}

// halfRotation leaves half a kubeconfig for a moment.
func (s *storm) halfRotation() {
	s.t.Helper()
	whole, err := os.ReadFile(s.access)
	must.Succeed(s.t, err)
	s.writeAccess(whole[:len(whole)/2])
	s.wait("the half is refused", func(st *runtime.Status) error {
		if st.Connection.Error == "" {
			return fmt.Errorf("renewed %d times", st.Connection.Renewed)
		}
		return nil
	})
	s.rotateAndWait()
}

// stealLease gives the lease to somebody who does not renew it.
func (s *storm) stealLease() {
	s.t.Helper()
	leases := plane.AdminClient().CoordinationV1().Leases(metav1.NamespaceSystem)
	name := s.manager.Config().LeaderElection.ResourceName
	before, err := s.manager.Status(s.t.Context())
	must.Succeed(s.t, err)
	err = func() error {
		lease, err := leases.Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("thief"), ptr.To[int32](1)
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, err = leases.Update(s.t.Context(), lease, metav1.UpdateOptions{})
		return err
	}()
	if err != nil {
		return // a renewal was faster, or the API server is just coming back
	}
	s.wait("it leads again", func(st *runtime.Status) error {
		if !st.Leadership.Leading || st.Leadership.Term == before.Leadership.Term && before.Leadership.Leading {
			return fmt.Errorf("leading %v, term %d", st.Leadership.Leading, st.Leadership.Term)
		}
		return nil
	})
}

// hangAPIServer suspends the API server, sometimes for longer than the lease allows.
func (s *storm) hangAPIServer() {
	s.t.Helper()
	must.Succeed(s.t, plane.PauseAPIServer())
	timer := time.NewTimer(time.Duration(s.random.Int64N(int64(5 * time.Second))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.manager.Done():
		s.t.Error("the manager has ended")
	}
	must.Succeed(s.t, plane.ResumeAPIServer())
}

func (s *storm) restartAPIServer() {
	s.t.Helper()
	must.Succeed(s.t, plane.RestartAPIServer(s.t.Context()))
}
