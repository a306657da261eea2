package controllers

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// TestNothingIsLeftOfAnInstance is about what an instance leaves behind when its Run has returned and its scope is
// closed: no handler, no goroutine and no key. The indexes of the shared informers stay. A successor uses these informers
// without a request, and has the same queues and metrics as its predecessor. Pins MGR-154.
func TestNothingIsLeftOfAnInstance(t *testing.T) {
	for name, handlers := range map[string]int{
		"EP-55: endpoints-controller":                3,
		"EPS-57: endpointslice-controller":           4,
		"EPM-40: endpointslice-mirroring-controller": 3,
		"EPHV-26: ephemeral-volume-controller":       2,
		"SAT-66: serviceaccount-token-controller":    2,
		"WL-92: cronjob-controller":                  2,
		"WL-92: daemonset-controller":                4,
		"WL-92: deployment-controller":               3,
		"WL-92: job-controller":                      2,
		"WL-92: replicaset-controller":               2,
		"WL-92: replicationcontroller-controller":    2,
		"WL-92: statefulset-controller":              4,
	} {
		t.Run(name, func(t *testing.T) {
			_, of, _ := strings.Cut(name, ": ")
			i := newInstances(t, of)
			first := i.live(handlers)
			i.env.Fake.ClearActions()
			second := i.live(handlers)
			for _, action := range i.env.Fake.Actions() {
				if action.GetVerb() == "list" || action.GetVerb() == "watch" {
					t.Errorf("the successor sends a %s of %s", action.GetVerb(), action.GetResource().Resource)
				}
			}
			if !slices.Equal(first.queues, second.queues) || !slices.Equal(first.metrics, second.metrics) || !slices.Equal(first.indexes, second.indexes) {
				t.Errorf("the successor has the queues %q, metrics %q and indexes %q; its predecessor had %q, %q and %q",
					second.queues, second.metrics, second.indexes, first.queues, first.metrics, first.indexes)
			}
		})
	}
}

// instances are those of one controller, one after the other, on the same informers.
type instances struct {
	t          *testing.T
	descriptor controller.Descriptor
	value      any
	env        *controllertest.Env
	shared     *informers.Informers
	began      int // loops of all instances so far
}

// lived is what an instance had.
type lived struct{ queues, metrics, indexes []string }

func newInstances(t *testing.T, name string) *instances {
	t.Helper()
	cfg := v1beta1.NewDefault()
	cfg.ServiceAccounts.PrivateKeyFile = filepath.Join(t.TempDir(), "sa.key")
	pki.WriteFile(t, cfg.ServiceAccounts.PrivateKeyFile, pki.KeyPEM(t, pki.Key(t)))
	env := controllertest.New(t)
	shared := informers.New(informers.Options{Client: env.Client, Metadata: env.Metadata})
	shared.SetGracePeriod(time.Hour)
	t.Cleanup(shared.Shutdown)
	shared.Start(t.Context())
	d := descriptorOf(t, name)
	return &instances{t: t, descriptor: d, value: d.Value(cfg), env: env, shared: shared}
}

// live builds an instance, runs and stops it, and wants nothing to be left.
func (i *instances) live(handlers int) lived {
	i.t.Helper()
	i.env.Succeed(nil)
	scope := i.shared.NewScope(informers.ScopeOptions{Name: i.descriptor.Name, OnPanic: func(err error) { i.t.Error(err) }})
	defer scope.Close()
	i.env.Informers = scope
	c := must.Get(i.descriptor.New(i.env.Env, i.value))(i.t)
	i.env.Start(i.t)
	if got := i.handlers(); got != handlers {
		i.t.Errorf("it has %d handlers, want %d", got, handlers)
	}
	ignore := []goleak.Option{ // those of informers, which may begin after they have listed
		goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/cache.(*processorListener).run"),
		goleak.IgnoreAnyFunction("k8s.io/client-go/tools/cache.(*processorListener).pop"),
	}
	stop := i.env.Run(i.t, c)
	controllertest.Eventually(i.t, "all loops begin", func() bool {
		return !slices.ContainsFunc(i.env.Loops(), func(l controller.LoopStatus) bool { return l.Began.IsZero() })
	})
	stop()
	scope.Close()
	if got := i.handlers(); got != 0 {
		i.t.Errorf("%d handlers are left", got)
	}
	if err := goleak.Find(ignore...); err != nil {
		i.t.Error(err)
	}
	return i.left()
}

func (i *instances) handlers() (n int) {
	for _, s := range i.shared.Status() {
		n += s.Handlers
	}
	return n
}

// left wants no key to be left in the queues of the newest instance, and returns what it had.
func (i *instances) left() (l lived) {
	i.t.Helper()
	for _, loop := range i.env.Loops()[i.began:] {
		i.began++
		l.queues = append(l.queues, loop.Queue)
		if loop.Depth > 0 || len(loop.InFlight) > 0 {
			i.t.Errorf("%d keys are left in the queue %s, %d in flight", loop.Depth, loop.Queue, len(loop.InFlight))
		}
	}
	for _, family := range must.Get(i.env.Metrics.Gather())(i.t) {
		l.metrics = append(l.metrics, family.GetName())
	}
	for _, s := range i.shared.Status() {
		for _, name := range s.Indexes {
			l.indexes = append(l.indexes, s.Resource+" "+name)
		}
	}
	return l
}
