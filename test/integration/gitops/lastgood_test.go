package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/lastgood"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// A manager that is killed while its file is good, and started again while it is not, works with
// the configuration that was in force, says so everywhere, and takes the file when it is good
// again, as it would have without the restart.
func TestAManagerIsKilledAndItsFileSpoilt(t *testing.T) {
	k := newKilled(t)
	k.start(t)
	k.keeps(t, k.text(t))

	k.kill(t)
	k.volume.write(t, []byte("controllers: [\n"))
	k.start(t)
	k.lastGood(t, "config.yaml:2:1: not valid YAML")
	k.rollOut(t)

	before := k.status(t)
	k.inForce.Controllers.Deployment.ConcurrentSyncs = ptr.To[int32](20)
	k.volume.write(t, k.text(t))
	k.wait(t, "the repaired file is in force", func(s *runtime.Status) error { return inForce(s, 2) })
	must.Succeed(t, k.process.WaitRunning(t.Context()))
	k.unchanged(t, before, []string{"deployment-controller"})
	k.shown(t, false)
	k.keeps(t, k.text(t))

	// The same with a file that is gone, and then is there again as it was.
	k.kill(t)
	must.Succeed(t, os.Remove(filepath.Join(k.volume.dir, "..data", "config.yaml")))
	k.start(t)
	k.lastGood(t, "no such file or directory")
	before = k.status(t)
	k.volume.write(t, k.text(t))
	k.wait(t, "the file is there again", func(s *runtime.Status) error { return inForce(s, 1) })
	k.unchanged(t, before, nil)
	k.shown(t, false)
	k.rollOut(t)
}

// inForce is nil if the file is in force, in a generation.
func inForce(s *runtime.Status, generation uint64) error {
	if c := s.Configuration; c.LastGood != nil || c.Rejected != "" || c.Generation != generation {
		return fmt.Errorf("in force is %+v", c)
	}
	return nil
}

// killed is a manager that is killed and started again, with one mounted ConfigMap and one
// directory for the last good configuration.
type killed struct {
	walker
	store *lastgood.Store
	lease string
	// args are the arguments that the process is started with.
	args []string
}

func newKilled(t *testing.T) *killed {
	t.Helper()
	dir := t.TempDir()
	k := &killed{walker: walker{volume: newVolume(t)}, lease: harness.LeaseOf(t)}
	store, err := lastgood.Open(dir, k.volume.file())
	must.Succeed(t, err)
	k.store, k.args = store, []string{"--config=" + k.volume.file(), "--last-good=" + dir}
	return k
}

// start starts the process, the first time with a file that it writes, and returns when every
// controller runs.
func (k *killed) start(t *testing.T) {
	t.Helper()
	k.process = manager.JoinProcess(t, plane, func(c *manager.Config) {
		if k.inForce == nil {
			c.LeaderElection.ResourceName = k.lease
			harness.Lease(3*time.Second, 2*time.Second, 300*time.Millisecond)(c)
			harness.Settle(10 * time.Millisecond)(c)
			k.inForce = c.DeepCopy()
			k.volume.write(t, k.text(t))
		}
		*c = *k.inForce.DeepCopy() // it serves where the first one did
	}, k.args...)
	must.Succeed(t, k.process.WaitRunning(t.Context()))
}

func (k *killed) kill(t *testing.T) {
	t.Helper()
	must.Succeed(t, k.process.Kill())
}

// text is that of a file with the configuration that was in force last.
func (k *killed) text(t *testing.T) []byte {
	t.Helper()
	return k.encode(t, k.inForce)
}

// keeps waits until a text is kept.
func (k *killed) keeps(t *testing.T, text []byte) {
	t.Helper()
	await.That(t, "the configuration is kept", func(context.Context) error {
		kept, err := k.store.Read()
		if err == nil && string(kept.Text) != string(text) {
			err = fmt.Errorf("kept is\n%s", kept.Text)
		}
		return err
	})
}

// lastGood waits until the last good configuration is in force, and everything says so. reason
// is part of why the file is not.
func (k *killed) lastGood(t *testing.T, reason string) {
	t.Helper()
	s := harness.Wait(t, k.process, "the last good configuration is in force", func(s *runtime.Status) error {
		if c := s.Configuration; c.LastGood == nil || c.LastGood.File != k.store.Path() || c.Generation != 1 || !strings.Contains(c.Rejected, reason) || c.NotKept != "" {
			return fmt.Errorf("in force is %+v", c)
		}
		return nil
	})
	k.shown(t, true)
	await.That(t, "an event says so", func(ctx context.Context) error {
		list, err := plane.AdminClient().CoreV1().Events(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
			FieldSelector: fields.Set{"involvedObject.kind": "Lease", "involvedObject.name": k.lease, "reason": "LastGoodConfiguration"}.String(),
		})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if strings.Contains(e.Message, "Generation 1 is the last good configuration") && strings.Contains(e.Message, reason) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none of them does", len(list.Items))
	})
	log, err := os.ReadFile(k.process.LogFile())
	must.Succeed(t, err)
	if want := "The last good configuration is in force, because the file cannot be used"; !strings.Contains(string(log), want) {
		t.Errorf("the log is without %q", want)
	}
	if flags, err := k.process.Get(t.Context(), "/flagz"); err != nil || !strings.Contains(string(flags), filepath.Dir(k.store.Path())) {
		t.Errorf("/flagz is without the directory, %v:\n%s", err, flags)
	}
	if got := annotation(t, k.lease); got != "sha256:"+s.Configuration.Hash {
		t.Errorf("the lease has the annotation %q, in force is %s", got, s.Configuration.Hash)
	}
}

// shown waits until the metric and the lease say whether the last good configuration is in
// force, while the process is healthy.
func (k *killed) shown(t *testing.T, want bool) {
	t.Helper()
	await.That(t, "metrics, lease and health show it", func(ctx context.Context) error {
		page, err := k.process.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		value := map[bool]int{true: 1}[want]
		for _, series := range []string{"kcmd_config_last_good_in_force", "kcmd_config_rejected"} {
			if line := fmt.Sprintf("\n%s %d\n", series, value); !strings.Contains(string(page), line) {
				return fmt.Errorf("the metrics are without %q", line)
			}
		}
		if got := annotation(t, k.lease); (got != "") != want {
			return fmt.Errorf("the lease has the annotation %q", got)
		}
		for _, path := range []string{"/livez", "/readyz", "/healthz"} {
			if _, err := k.process.Get(ctx, path); err != nil {
				return err
			}
		}
		return nil
	})
}

func annotation(t *testing.T, lease string) string {
	t.Helper()
	l, err := plane.AdminClient().CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), lease, metav1.GetOptions{})
	must.Succeed(t, err)
	return l.Annotations[leadership.LastGoodAnnotation]
}

// Without the option, nothing is kept, and a process that cannot start with its file ends.
func TestNothingIsKeptUnlessAsked(t *testing.T) {
	k := newKilled(t)
	k.args = k.args[:1]
	k.start(t)
	k.kill(t)
	if _, err := k.store.Read(); !errors.Is(err, lastgood.ErrNothing) {
		t.Errorf("something is kept: %v", err)
	}
	k.volume.write(t, []byte("controllers: [\n"))
	again := manager.JoinProcess(t, plane, nil, k.args...)
	if err := again.WaitExit(t.Context()); err == nil || !strings.Contains(err.Error(), "config.yaml:2:1: not valid YAML") {
		t.Errorf("it ended with %v", err)
	}
}
