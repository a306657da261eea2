package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/config/v1beta1"
	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/controlplane/process"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/ports"
)

// actor is a manager that runs the controllers of a scenario.
type actor string

const (
	ours   actor = "kcmd"
	theirs actor = "kube-controller-manager"
)

const (
	// stillness is how long nothing happens when a manager has done its work: upstream's does not say how long its
	// queues are.
	stillness = 2 * time.Second
	// agreement bounds the wait until two managers have come to the same end.
	agreement = 20 * time.Second
	// farewell is what a manager of upstream has to end by itself.
	farewell = 20 * time.Second
)

// engagement is a manager that runs for some steps.
type engagement struct {
	actor  actor
	proxy  *faultproxy.Proxy
	writes *faultproxy.Journal
	stop   func() error
}

func (e *engagement) end() error { return errors.Join(e.stop(), e.proxy.Close()) }

// ending is what came of a play.
type ending struct {
	history
	final state
	// events are those that managers have sent.
	events []event
	// writes are those of all managers together.
	writes []write
	// unasked are the changes that came when a manager had taken over, and nobody had done anything.
	unasked []string
}

// play is a scenario without faults, with a manager of one or the other for each step.
type play struct {
	scenario *Scenario
	world    *world
	plane    *controlplane.ControlPlane
	// cast says who runs the controllers in a step, counted from 0.
	cast func(step int) actor
	seen *observer
	now  *engagement
	// past are the engagements that have ended.
	past []*engagement
}

// perform plays until nothing happens any more, and until the end is the wanted one, if that is not nil, but not for
// ever.
func (p *play) perform(ctx context.Context, want *ending) (end ending, err error) {
	ctx, cancel := context.WithCancel(ctx)
	if err := p.world.begin(ctx, p.scenario.Kinds); err != nil {
		cancel()
		return ending{}, err
	}
	if p.seen, err = observe(ctx, p.world, p.scenario.Kinds); err != nil {
		cancel()
		return ending{}, err
	}
	began := time.Now()
	beside := make(chan error, len(p.scenario.Beside)+1)
	defer func() {
		cancel()
		for range cap(beside) {
			err = errors.Join(err, <-beside)
		}
		if p.now != nil {
			err = errors.Join(err, p.now.end())
		}
		p.seen.stop()
	}()
	for _, do := range append(slices.Clone(p.scenario.Beside), p.kubelets) {
		go func() {
			if err := do(ctx, p.world); err != nil && ctx.Err() == nil {
				beside <- err
				return
			}
			beside <- nil
		}()
	}
	for _, do := range p.scenario.Before {
		if err := do(ctx, p.world); err != nil {
			return ending{}, err
		}
	}
	for i, step := range p.scenario.Steps {
		unasked, err := p.engage(ctx, p.cast(i))
		if err != nil {
			return ending{}, fmt.Errorf("%s takes over before step %d: %w", p.cast(i), i+1, err)
		}
		for _, change := range unasked {
			end.unasked = append(end.unasked, fmt.Sprintf("before step %d, by %s: %s", i+1, p.cast(i), change))
		}
		if err := p.step(ctx, &step); err != nil {
			return ending{}, fmt.Errorf("step %d, %s, with %s: %w", i+1, step.Name, p.now.actor, err)
		}
	}
	if end.final, end.events, err = p.settle(ctx, began, want); err != nil {
		return ending{}, err
	}
	end.history = p.seen.sofar()
	for _, e := range append(p.past, p.now) {
		end.writes = append(end.writes, writesOf(e.writes.Entries())...)
	}
	return end, nil
}

// settle returns the state and the events when nothing happens any more. It waits for those that are wanted, but not for
// ever.
func (p *play) settle(ctx context.Context, began time.Time, want *ending) (final state, events []event, err error) {
	for deadline := time.Now().Add(agreement); ; {
		p.still(ctx)
		if final, err = p.world.state(ctx, p.scenario); err != nil {
			return nil, nil, err
		}
		if events, err = p.events(ctx, began); err != nil {
			return nil, nil, err
		}
		if want == nil || time.Now().After(deadline) || len(p.scenario.unexplained(compare(want, &ending{final: final, events: events}))) == 0 {
			return final, events, nil
		}
	}
}

// kubelets does what those of a cluster with nodes do.
func (p *play) kubelets(ctx context.Context, w *world) error {
	if !p.scenario.Bare {
		removePods(ctx, w)
	}
	return nil
}

// step has users do something, and waits for what comes of it.
func (p *play) step(ctx context.Context, step *Step) error {
	for _, do := range step.Do {
		if err := do(ctx, p.world); err != nil {
			return err
		}
	}
	for _, condition := range step.Until {
		if err := await.Nil(ctx, patience, func(ctx context.Context) error { return condition(ctx, p.world) }); err != nil {
			return err
		}
	}
	return nil
}

// engage has a manager run the controllers from now on, and returns what has changed because of that. The one before
// has ended then, as with a lease.
func (p *play) engage(ctx context.Context, who actor) (unasked []string, err error) {
	if p.now != nil && p.now.actor == who {
		return nil, nil
	}
	var before state
	if p.now != nil {
		p.still(ctx)
		if err := p.now.end(); err != nil {
			return nil, err
		}
		p.past = append(p.past, p.now)
		if before, err = p.world.state(ctx, p.scenario); err != nil {
			return nil, err
		}
	}
	first := p.now == nil
	if p.now, err = p.begin(ctx, who); err != nil {
		return nil, err
	}
	p.still(ctx)
	if first {
		return nil, nil
	}
	after, err := p.world.state(ctx, p.scenario)
	if err != nil {
		return nil, err
	}
	return differences(before, after), nil
}

// still returns when nothing has happened for some time.
func (p *play) still(ctx context.Context) {
	happened, since := -1, time.Now()
	_ = await.Nil(ctx, agreement, func(context.Context) error { // who is never still shows it in the end
		if now := p.seen.changes() + len(p.now.writes.Entries()); now != happened {
			happened, since = now, time.Now()
		}
		if time.Since(since) < stillness {
			return errors.New("something has happened")
		}
		return nil
	})
}

// begin starts a manager.
func (p *play) begin(ctx context.Context, who actor) (*engagement, error) {
	proxy, err := faultproxy.New(p.plane)
	if err != nil {
		return nil, err
	}
	e := &engagement{actor: who, proxy: proxy, writes: proxy.Record(selectWrites(p.world))}
	kubeconfig, err := proxy.Kubeconfig("manager", controlplane.ManagerUser)
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	if who == ours {
		err = p.beginOurs(ctx, e, kubeconfig)
	} else {
		err = p.beginTheirs(ctx, e, kubeconfig)
	}
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	return e, nil
}

func (p *play) beginOurs(ctx context.Context, e *engagement, kubeconfig string) error {
	m, err := manager.Begin(ctx, p.plane, kcmruntime.Options{}, func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = kubeconfig
		harness.Settle(time.Millisecond)(c)
		c.Serving.TLS.CertDirectory = filepath.Join(p.plane.Dir(), "serving") // made once: to make a key takes long
		harness.WithoutLease(c)
		p.configure(c)
	})
	if err != nil {
		return err
	}
	e.stop = m.Stop
	p.world.leader = func(context.Context) (*manager.Manager, error) { return m, nil }
	if err := m.WaitRunning(ctx); err != nil {
		return errors.Join(err, m.Stop())
	}
	return m.Wait(ctx, "the controllers have begun", harness.LoopsBegan)
}

// configure is what a scenario wants of our manager.
func (p *play) configure(c *manager.Config) {
	harness.Only(p.scenario.Controllers)(c)
	harness.All(p.scenario.Configure)(c)
}

// errSilent is that a manager does not tell what its caches show.
var errSilent = errors.New("the manager does not tell what it has seen")

// beginTheirs starts upstream's manager, of which the API server is told what kubeadm has it told.
func (p *play) beginTheirs(ctx context.Context, e *engagement, kubeconfig string) error {
	folder, err := os.MkdirTemp(p.plane.Dir(), "upstream-")
	if err != nil {
		return fmt.Errorf("creating the manager's folder: %w", err)
	}
	port, err := ports.Free()
	if err != nil {
		return err
	}
	bin, err := binaries.Build(ctx, os.Stderr, binaries.UpstreamManager)
	if err != nil {
		return err
	}
	started, err := process.Start(process.Spec{
		Name:    string(theirs),
		Path:    filepath.Join(bin, binaries.UpstreamManager),
		Args:    p.flags(kubeconfig, port),
		Env:     []string{"HOME=" + folder, "KUBECONFIG="},
		Dir:     folder,
		LogFile: filepath.Join(folder, "logs", "manager.log"),
	})
	if err != nil {
		return err
	}
	e.stop = func() error { return started.Stop(farewell) }
	p.world.leader = func(context.Context) (*manager.Manager, error) { return nil, errSilent }
	client, err := manager.NewClient(p.plane.AdminConfig())
	if err != nil {
		return errors.Join(err, e.stop())
	}
	defer client.CloseIdleConnections()
	err = await.Nil(ctx, patience, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/healthz", port), nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return errors.Join(err, started.Err())
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			return errors.Join(err, fmt.Errorf("it answers %s", response.Status))
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, e.stop())
	}
	return nil
}

// flags are those that kubeadm gives, and those that the scenario needs.
func (p *play) flags(kubeconfig string, port int) []string {
	c := v1beta1.NewDefault()
	p.configure(c)
	var names, gates []string
	for _, one := range c.Controllers.All() {
		if c.ControllerEnabled(one.Name) {
			names = append(names, one.Name)
		}
	}
	for gate, on := range c.FeatureGates {
		gates = append(gates, fmt.Sprintf("%s=%t", gate, on))
	}
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--client-ca-file=" + p.plane.RootCAFile(),
		"--root-ca-file=" + p.plane.RootCAFile(),
		"--cluster-signing-cert-file=" + p.plane.RootCAFile(),
		"--cluster-signing-key-file=" + p.plane.RootCAKeyFile(),
		"--service-account-private-key-file=" + p.plane.ServiceAccountKeyFile(),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--bind-address=127.0.0.1",
		"--kube-api-qps=5000", "--kube-api-burst=5000",
		fmt.Sprintf("--secure-port=%d", port),
		"--controllers=" + strings.Join(names, ","),
		"--feature-gates=" + strings.Join(gates, ","),
	}, p.scenario.Flags...)
}

// event is one that a manager has sent, without its times and numbers.
type event struct {
	// kind is what many events may have in common: who sent it about which object, and why.
	kind    string
	message string
}

// combined begins the message of an event that stands for many of its kind.
const combined = "(combined from similar events): "

// events returns those of managers since a moment.
func (p *play) events(ctx context.Context, since time.Time) ([]event, error) {
	var all []event
	for _, namespace := range []string{p.world.namespace, metav1.NamespaceDefault} {
		list, err := p.world.admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing events: %w", err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			sender := cmp.Or(e.Source.Component, e.ReportingController)
			if e.CreationTimestamp.Add(time.Second).Before(since) || slices.Contains(others, sender) {
				continue
			}
			kind := fmt.Sprintf("%s about %s %s %s: %s %s", sender, e.InvolvedObject.APIVersion, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason)
			if e.Related != nil {
				kind += fmt.Sprintf(", related to %s %s", e.Related.Kind, e.Related.Name)
			}
			message := refused.ReplaceAllString(p.seen.public(p.world.namespace, e.Message), `"$1*" is forbidden`)
			all = append(all, event{p.seen.public(p.world.namespace, kind), message})
		}
	}
	return all, nil
}

// refused matches the name that the API server made up for an object that it did not create then.
var refused = regexp.MustCompile(`"([a-z0-9.-]+-)[bcdfghjklmnpqrstvwxz2456789]{5}" is forbidden`)

// others are components that send events and are no manager.
var others = []string{"default-scheduler", "kubelet", "kwok", "kwok-controller"}

// compare returns what differs between the end that upstream's manager came to and another one.
func compare(want, got *ending) []string {
	all := append(differences(want.final, got.final), got.unasked...)
	// A manager combines events of a kind when it has sent some, and two have sent less each.
	var many []string
	for _, e := range slices.Concat(want.events, got.events) {
		if strings.HasPrefix(e.message, combined) {
			many = append(many, e.kind)
		}
	}
	missing := func(from, in []event, what string) {
		for _, e := range from {
			text := fmt.Sprintf("%s: event of %s: %s", what, e.kind, e.message)
			if !slices.Contains(many, e.kind) && !slices.Contains(in, e) && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	missing(want.events, got.events, "missing")
	missing(got.events, want.events, "too much")
	return all
}

// unexplained returns the differences that no rule of a specification explains.
func (s *Scenario) unexplained(differences []string) []string {
	return slices.DeleteFunc(differences, func(d string) bool {
		for pattern := range s.Differs {
			if regexp.MustCompile(pattern).MatchString(d) {
				return true
			}
		}
		return false
	})
}
