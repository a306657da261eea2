package runtime_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/ports"
)

// What is found out only when an edit is prepared is reported like what is wrong in the file: with its place, its field
// and what is allowed.
func TestWhatCannotBePreparedNamesItsField(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	cfg, files := base(t, newLeaseServer(t))
	cfg.Serving.BindAddress, cfg.Serving.Port = "127.0.0.1", ptr.To(ports.FreeFor(t))
	cfg.Metrics.AllowListMappingManifest = files["allow list"]
	cfg.Serving.Authentication.ClientCAFile = filepath.Join(files["folder"], "client-ca.crt")
	copyOf(t, files["CA"], cfg.Serving.Authentication.ClientCAFile)
	w := begin(t, cfg)
	for _, c := range []struct {
		name              string
		spoiled           string // a file that was good when it came into force, so that only an edit that has it read again is at fault
		change            func(*plan.Config)
		field, start, end string
	}{
		{
			"a port that is taken", "",
			func(c *plan.Config) { c.Serving.Port = ptr.To(int32(taken.Addr().(*net.TCPAddr).Port)) },
			"serving.port", "must be a port that nothing else uses, or 0: ", "address already in use",
		},
		{
			"the address of somebody else", "",
			func(c *plan.Config) { c.Serving.BindAddress = "192.0.2.1" },
			"serving.bindAddress", "must be an address of this machine: ", "cannot assign requested address",
		},
		{
			"label values that are bad now", cfg.Metrics.AllowListMappingManifest,
			func(c *plan.Config) { c.Metrics.DisabledMetrics = []string{"workqueue_adds_total"} },
			"metrics.allowListMappingManifest", "reading the allowed label values: ", "",
		},
		{
			"a CA that is bad now", cfg.Serving.Authentication.ClientCAFile,
			func(c *plan.Config) { c.Serving.HTTP2.MaxStreamsPerConnection = ptr.To[int32](50) },
			"serving.authentication.clientCAFile", "serving on 127.0.0.1 port ", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spoiled != "" {
				if err := os.WriteFile(c.spoiled, []byte("["), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			next := with(cfg, c.change)
			w.write(t, next)
			document, err := config.Load(w.file, []byte(marshalled(t, next)))
			if err != nil {
				t.Fatal(err)
			}
			at := document.Position(c.field)
			want := fmt.Sprintf("%s:%d:%d: %s: %s", w.file, at.Line, at.Column, c.field, c.start)
			w.wait(t, "the edit is rejected", func() error {
				if got := w.runtime.Status().Configuration.Rejected; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, c.end) {
					return fmt.Errorf("got %q, want %q and %q", got, want, c.end)
				}
				return nil
			})
		})
	}
}

// Nothing tells when a port is free. Pins MGR-216.
func TestARejectedEditIsTriedAgain(t *testing.T) {
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	k := newKeeper(t)
	k.clock = hasty{}
	k.write(t, k.cfg)
	k.start(t)
	k.runs(t, k.cfg)
	next := with(k.cfg, func(c *plan.Config) {
		c.Serving.BindAddress = "127.0.0.1"
		c.Serving.Port = ptr.To(int32(taken.Addr().(*net.TCPAddr).Port))
	})
	k.write(t, next)
	k.wait(t, "the edit is rejected", func() error {
		if got := k.runtime.Status().Configuration.Rejected; !strings.HasSuffix(got, "address already in use") {
			return fmt.Errorf("the reason is %q", got)
		}
		return nil
	})
	must.Succeed(t, taken.Close())
	k.runs(t, next)
	if reloads := k.runtime.Status().Reloads; len(reloads) != 2 {
		t.Errorf("reloads are %+v: attempts that change nothing are none", reloads)
	}
}

// What a controller cannot be built for is attributed to the field that was changed, or to its block if there are several.
func TestAControllerThatCannotBeBuiltNamesItsField(t *testing.T) {
	cfg, _ := base(t, newLeaseServer(t))
	all := fakes()
	for n, d := range all {
		if d.Name == jobs || d.Name == cronJobs {
			all[n] = controller.Describe(controller.Descriptor{Name: d.Name}, func(c *plan.Config) opaque { return opaque{d.Value(c)} },
				func(_ controller.Env, of opaque) (controller.Controller, error) {
					if strings.Contains(fmt.Sprintf("%+v", of), "77") {
						return nil, errors.New("77 is too many")
					}
					return idle{}, nil
				})
		}
	}
	w := beginWith(t, cfg, all)
	next := with(cfg, func(c *plan.Config) {
		c.Controllers.Job.ConcurrentSyncs = ptr.To[int32](77)
		c.Controllers.CronJob.ConcurrentSyncs = ptr.To[int32](77)
	})
	w.write(t, next)
	document, err := config.Load(w.file, []byte(marshalled(t, next)))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range []string{cronJobs, jobs} {
		field := "controllers." + name + ".concurrentSyncs"
		at := document.Position(field)
		want = append(want, fmt.Sprintf("%s:%d:%d: %s: %s cannot be built: 77 is too many", w.file, at.Line, at.Column, field, name))
	}
	w.wait(t, "the edit is rejected", func() error {
		if got := w.runtime.Status().Configuration.Rejected; got != strings.Join(want, "\n") {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is wrong in the program itself does not end the process that has another configuration in force. Pins MGR-270.
func TestAPanicRejectsTheEdit(t *testing.T) {
	cfg, _ := base(t, newLeaseServer(t))
	all := fakes()
	for n, d := range all {
		if d.Name == jobs {
			all[n] = controller.Describe(controller.Descriptor{Name: d.Name}, func(c *plan.Config) opaque {
				if *c.Controllers.Job.ConcurrentSyncs == 77 {
					panic("77 is too many")
				}
				return opaque{d.Value(c)}
			}, func(controller.Env, opaque) (controller.Controller, error) { return idle{}, nil })
		}
	}
	w := beginWith(t, cfg, all)
	w.write(t, with(cfg, func(c *plan.Config) { c.Controllers.Job.ConcurrentSyncs = ptr.To[int32](77) }))
	w.wait(t, "the edit is rejected", func() error {
		if got, want := w.runtime.Status().Configuration.Rejected, "panic while checking the file: 77 is too many"; got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	w.edit(t, with(cfg, func(c *plan.Config) { c.Controllers.Job.ConcurrentSyncs = ptr.To[int32](7) }))
}
