package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/supervisor"
)

// replacing are the controllers of fakes, of which some are built by the test, and may require resources.
func replacing(build map[string]func(controller.Env) error, requires map[string]schema.GroupVersionResource) []controller.Descriptor {
	all := fakes()
	for n, d := range all {
		bare := controller.Descriptor{Name: d.Name, Gate: d.Gate, RunsWithoutLease: d.RunsWithoutLease}
		if resource, some := requires[d.Name]; some {
			bare.Requires = []schema.GroupVersionResource{resource}
		}
		all[n] = controller.Describe(bare, func(c *plan.Config) opaque { return opaque{d.Value(c)} },
			func(env controller.Env, _ opaque) (controller.Controller, error) {
				if prepare := build[d.Name]; prepare != nil {
					if err := prepare(env); err != nil {
						return nil, err
					}
				}
				return idle{}, nil
			})
	}
	return all
}

// An edit that is rejected stops a controller that caches pods. While it is prepared, another controller is built again
// after a failure, and stays: it uses the cache that the configuration in force has.
func TestAnInstanceThatIsBuiltDuringAnEditThatIsRejectedCachesWhatIsInForce(t *testing.T) {
	const collector, pods = "garbage-collector-controller", "deployment-controller"
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	preparing, built := make(chan struct{}), make(chan struct{})
	beginsToPrepare, isBuilt := sync.OnceFunc(func() { close(preparing) }), sync.OnceFunc(func() { close(built) })
	var edited atomic.Bool
	spoiled := errors.New("spoiled")
	cfg, _ := base(t, newLeaseServer(t))
	next := cfg.DeepCopy()
	next.Controllers.Deployment.Enabled = ptr.To(false)
	next.Controllers.Job.ConcurrentSyncs = ptr.To[int32](77)

	w := &world{file: filepath.Join(t.TempDir(), "config.yaml"), inForce: cfg}
	w.write(t, cfg)
	r, err := runtime.New(runtime.Options{
		ConfigFile:  w.file,
		Supervision: supervisor.Options{BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond},
		Descriptors: replacing(map[string]func(controller.Env) error{
			collector: func(env controller.Env) error {
				select {
				case <-preparing:
				default:
					return errors.New("not now")
				}
				defer isBuilt()
				_, err := env.Informers.AnyFor(resource)
				return err
			},
			jobs: func(controller.Env) error {
				if !edited.Load() {
					return nil
				}
				beginsToPrepare()
				<-built
				return spoiled
			},
		}, map[string]schema.GroupVersionResource{pods: resource}),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.runtime = r
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.wait(t, "the process has started", func() error {
		if s := of(r.Status(), jobs); s.State != supervisor.Running {
			return fmt.Errorf("%s: %s", jobs, s.State)
		}
		return nil
	})
	edited.Store(true)
	w.write(t, next)
	w.wait(t, "the edit is rejected, and the other controller runs", func() error {
		s := r.Status()
		if !strings.Contains(s.Configuration.Rejected, spoiled.Error()) || of(s, collector).State != supervisor.Running {
			return fmt.Errorf("rejected: %q; %+v", s.Configuration.Rejected, of(s, collector))
		}
		return nil
	})
	var forms []informers.Form
	for _, cache := range r.Status().Informers {
		if cache.Resource == resource.Resource {
			forms = append(forms, cache.Form)
		}
	}
	if !slices.Equal(forms, []informers.Form{informers.Typed}) {
		t.Errorf("pods are cached as %v; in the configuration in force a controller caches whole pods", forms)
	}
}
