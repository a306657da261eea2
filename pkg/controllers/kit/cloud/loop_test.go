package cloud

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/controllers/route"
	"k8s.io/cloud-provider/controllers/service"
	"k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/controller-manager/pkg/features/register" // the gate that the library reads
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Names of the providers of these tests.
const (
	echo     = "echo"     // the cluster ID is in the file
	broken   = "broken"   // the factory fails
	slow     = "slow"     // Initialize waits, see slowly
	untagged = "untagged" // there is no cluster ID
	noted    = "noted"    // what is done with it is noted, see noting
	counted  = "counted"  // it is counted how many are made
)

// tagged is a provider that has a cluster ID or not, and remembers its file.
type tagged struct {
	fake.Cloud
	file *string
	id   bool
}

func (c *tagged) HasClusterID() bool { return c.id }

// slowly is a provider that tells when it is initialized, and waits.
type slowly struct {
	tagged
	begun, goOn chan struct{}
}

func (s *slowly) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	close(s.begun)
	<-s.goOn
}

var initializes *slowly // what the slow provider is. A test makes a new one.

// noting is a provider that wants informers, and notes what is done in which order.
type noting struct {
	tagged
	steps []string
}

func (n *noting) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
	n.steps = append(n.steps, "initialize")
}

// SetInformers implements cloudprovider.InformerUser.
func (n *noting) SetInformers(informers.SharedInformerFactory) {
	n.steps = append(n.steps, "set informers")
}

var notes = &noting{tagged: tagged{id: true}}

var providersMade atomic.Int32 // of the counted ones

func TestMain(m *testing.M) {
	make := func(id bool) cloudprovider.Factory {
		return func(config io.Reader) (cloudprovider.Interface, error) {
			if config == nil {
				return &tagged{id: id}, nil
			}
			content, err := io.ReadAll(config)
			return &tagged{file: ptr.To(string(content)), id: id}, err
		}
	}
	cloudprovider.RegisterCloudProvider(echo, make(true))
	cloudprovider.RegisterCloudProvider(slow, func(io.Reader) (cloudprovider.Interface, error) { return initializes, nil })
	cloudprovider.RegisterCloudProvider(untagged, make(false))
	cloudprovider.RegisterCloudProvider(noted, func(io.Reader) (cloudprovider.Interface, error) {
		notes.steps = append(notes.steps, "create")
		return notes, nil
	})
	cloudprovider.RegisterCloudProvider(counted, func(io.Reader) (cloudprovider.Interface, error) {
		providersMade.Add(1)
		return &tagged{id: true}, nil
	})
	cloudprovider.RegisterCloudProvider(broken, func(io.Reader) (cloudprovider.Interface, error) { return nil, errFake })
	os.Exit(m.Run())
}

// soon waits for the next value of a channel, or for its end.
func soon[T any](t *testing.T, what string, from <-chan T) (received T) {
	t.Helper()
	await.True(t, what, func() bool {
		select {
		case received = <-from:
			return true
		default:
			return false
		}
	})
	return received
}

func TestProviderOfAConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.conf")
	must.Succeed(t, os.WriteFile(file, []byte("content"), 0o600))
	tests := map[string]struct {
		cloud   v1beta1.Cloud
		idle    bool
		file    *string
		want    string
		refused string // by the constructor
	}{
		"CLOUD-4: there is no provider":                   {idle: true},
		"CLOUD-44: external is another component":         {cloud: v1beta1.Cloud{Provider: "external", ConfigFile: "/nonexistent"}, idle: true},
		"CLOUD-8: a factory gets nil without a file":      {cloud: v1beta1.Cloud{Provider: echo}},
		"CLOUD-9: a factory gets the content of the file": {cloud: v1beta1.Cloud{Provider: echo, ConfigFile: file}, file: ptr.To("content")},
		"CLOUD-9: a file that is missing is an error":     {cloud: v1beta1.Cloud{Provider: echo, ConfigFile: "/nonexistent"}, refused: "reading the configuration of the cloud provider echo: open /nonexistent: no such file or directory"},
		"CLOUD-9: an error of the factory":                {cloud: v1beta1.Cloud{Provider: broken}, want: `could not init cloud provider "broken": a fake failure`},
		"CLOUD-9: a name that nobody has registered":      {cloud: v1beta1.Cloud{Provider: "nobody"}, want: `unknown cloud provider "nobody"`},
		"CLOUD-10: no cluster ID":                         {cloud: v1beta1.Cloud{Provider: untagged}, want: errUntagged.Error()},
		"CLOUD-29: no cluster ID, which is allowed":       {cloud: v1beta1.Cloud{Provider: untagged, AllowUntagged: ptr.To(true)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := v1beta1.NewDefault()
			allowed := cfg.Cloud.AllowUntagged
			cfg.Cloud = test.cloud
			if cfg.Cloud.AllowUntagged == nil {
				cfg.Cloud.AllowUntagged = allowed
			}
			config := ConfigOf(cfg)
			if config.Linked() == test.idle {
				t.Fatalf("there is a provider: %t", config.Linked())
			}
			if test.idle {
				return
			}
			loop, err := New(controllertest.New(t).Env, config, nil)
			if text(err) != test.refused {
				t.Fatalf("New = %v", err)
			}
			if err != nil {
				return
			}
			made, err := config.make(loop.content, logr.Discard())
			if text(err) != test.want {
				t.Fatalf("the error is %v, want %q", err, test.want)
			}
			if err != nil {
				return
			}
			if got := made.(*tagged).file; ptr.Deref(got, "none") != ptr.Deref(test.file, "none") {
				t.Errorf("the factory got %v", got)
			}
		})
	}
}

// Run returns when what the library has started has ended, although the library does not wait.
// Pins CLOUD-41.
func TestRunWaitsForGoroutinesOfTheLibrary(t *testing.T) {
	env := controllertest.New(t)
	working, finish := make(chan struct{}), make(chan struct{})
	loop := must.Get(New(env.Env, Config{provider: echo}, func(*Session) ([]Part, error) {
		return []Part{Library(func(ctx context.Context, _ *Metrics) {
			go workqueue.ParallelizeUntil(context.Background(), 1, 1, func(int) {
				close(working)
				<-finish
			})
			<-ctx.Done()
		})}, nil
	}))(t)
	env.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- loop.Run(ctx) }()
	soon(t, "the goroutine works", working)
	stop()
	await.Stays(t, "Run has not returned", 100*time.Millisecond, func(context.Context) error {
		if len(returned) > 0 {
			return errors.New("it has")
		}
		return nil
	})
	close(finish)
	must.Succeed(t, soon(t, "Run returns", returned))
}

// Pins CLOUD-11.
func TestOrderOfTheStart(t *testing.T) {
	env := controllertest.New(t)
	notes.steps = nil
	ctx, stop := context.WithCancel(t.Context())
	loop := must.Get(New(env.Env, Config{provider: noted}, func(*Session) ([]Part, error) {
		notes.steps = append(notes.steps, "build")
		return []Part{func(ctx context.Context) error {
			notes.steps = append(notes.steps, "run")
			stop()
			<-ctx.Done()
			return nil
		}}, nil
	}))(t)
	env.Start(t)
	must.Succeed(t, loop.Run(ctx))
	if want := []string{"create", "initialize", "set informers", "build", "run"}; !slices.Equal(notes.steps, want) {
		t.Errorf("the steps are %q, want %q", notes.steps, want)
	}
}

// There is neither a provider nor a controller of the library before the caches are complete.
// Pins CLOUD-12 and CLOUD-40.
func TestCachesAreWaitedFor(t *testing.T) {
	env := controllertest.New(t)
	before := providersMade.Load()
	built := make(chan int32, 1)
	loop := must.Get(New(env.Env, Config{provider: counted}, func(*Session) ([]Part, error) {
		built <- providersMade.Load() - before
		return []Part{func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}}, nil
	}))(t)
	env.Run(t, loop)
	await.Stays(t, "nothing is made", 50*time.Millisecond, func(context.Context) error {
		if len(built) > 0 || providersMade.Load() > before {
			return errors.New("something is")
		}
		return nil
	})
	env.Start(t)
	if providers := soon(t, "it is built", built); providers != 1 {
		t.Errorf("there are %d providers", providers)
	}
}

// A provider takes so long to be initialized that the instance has been told to stop, and has been given up, before
// anything is built. Pins CLOUD-41.
func TestNothingIsBuiltAfterTheStop(t *testing.T) {
	initializes = &slowly{tagged: tagged{id: true}, begun: make(chan struct{}), goOn: make(chan struct{})}
	env := controllertest.New(t)
	loop := must.Get(New(env.Env, Config{provider: slow}, func(*Session) ([]Part, error) {
		t.Error("the controller of the library is built")
		return nil, nil
	}))(t)
	env.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- loop.Run(ctx) }()
	soon(t, "the provider is initialized", initializes.begun)
	stop()
	env.Informers.(interface{ Close() }).Close()
	close(initializes.goOn)
	must.Succeed(t, soon(t, "Run returns", returned))
}

// The handlers of the library are refused: what it has started ends, and the instance fails. Pins CLOUD-43.
func TestRefusedHandlersFailTheInstance(t *testing.T) {
	env := controllertest.New(t)
	env.Informers.Core().V1().Services().Informer()
	loop := must.Get(New(env.Env, Config{provider: echo}, func(s *Session) ([]Part, error) {
		env.Informers.(interface{ Close() }).Close()
		library, err := service.New(&fake.Cloud{}, s.Client, s.Services(), s.Informers.Core().V1().Nodes(), "", utilfeature.DefaultFeatureGate)
		return []Part{Library(func(ctx context.Context, m *Metrics) { library.Run(ctx, 1, m) })}, err
	}))(t)
	env.Start(t)
	if err := loop.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "building ") {
		t.Errorf("the error is %v", err)
	}
}

// A provider that lacks what the controller needs leaves it idle, and says so.
// Pins CLOUD-17 and CLOUD-43.
func TestLoopStaysIdleWithoutWhatItNeeds(t *testing.T) {
	env := controllertest.New(t)
	built := make(chan struct{})
	loop := must.Get(New(env.Env, Config{provider: echo}, func(*Session) ([]Part, error) {
		close(built)
		return nil, errFake
	}))(t)
	env.Start(t)
	ctx, stop := context.WithCancel(t.Context())
	returned := make(chan error, 1)
	go func() { returned <- loop.Run(ctx) }()
	soon(t, "it is built", built)
	controllertest.Eventually(t, "the status says why", func() bool { return loop.calls.Inspect().LastError == errFake.Error() })
	stop()
	must.Succeed(t, soon(t, "Run returns", returned))
}

func TestLibraryThatReturnsEarlyHasFailed(t *testing.T) {
	if err := Library(func(context.Context, *Metrics) {})(t.Context()); !errors.Is(err, errReturned) {
		t.Errorf("the error is %v", err)
	}
}

func TestGoroutinesAreFoundByTheirLabels(t *testing.T) {
	const of = `# labels: {"cloud":"a-1", "controller":"a"}` + "\n"
	const worker = "#\t0x1\tk8s.io/cloud-provider/controllers/service.(*Controller).serviceWorker+0x2c\tcontroller.go:305\n"
	tests := map[string]struct {
		profile string
		want    bool
	}{
		"a worker":                    {"goroutine profile: total 9\n1 @ 0x1\n" + of + worker, true},
		"one of another instance":     {"1 @ 0x1\n" + `# labels: {"cloud":"a-11"}` + "\n" + worker, false},
		"a connection":                {"1 @ 0x1\n" + of + "#\t0x1\tnet/http.(*persistConn).readLoop+0x1\ttransport.go:1\n", false},
		"the label is on another one": {"1 @ 0x1\n" + of + "#\t0x1\tmain.main+0x1\tmain.go:1\n\n1 @ 0x2\n" + worker, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := found([]byte(test.profile), "a-1"); got != test.want {
				t.Errorf("found: %t", got)
			}
		})
	}
}

// Whatever name a provider asks for, its clients are those of the controller that it works for.
// Pins CLOUD-45.
func TestClientsOfAProviderActAsTheController(t *testing.T) {
	env := controllertest.New(t)
	env.RESTConfig = &rest.Config{Host: "https://cluster", BearerToken: "of the controller", UserAgent: "manager"}
	got := must.Get(builder{env.Env}.Config("cloud-tool"))(t)
	if got.Host != env.RESTConfig.Host || got.BearerToken != env.RESTConfig.BearerToken || !strings.HasSuffix(got.UserAgent, "/cloud-tool") {
		t.Errorf("the client is %+v", got)
	}
	if env.RESTConfig.UserAgent != "manager" {
		t.Errorf("the controller is %s now", env.RESTConfig.UserAgent)
	}
}

// The metrics of the library are those of the process, however often its controllers are made. Pins CLOUD-17 and
// CLOUD-38.
func TestLibraryIsMadeAgain(t *testing.T) {
	env := controllertest.New(t)
	nodes := env.Informers.Core().V1().Nodes()
	provider := &fake.Cloud{}
	for range 2 {
		must.Get(service.New(provider, env.Client, env.Informers.Core().V1().Services(), nodes, "", utilfeature.DefaultFeatureGate))(t)
		must.Get(route.New(provider, env.Client, nodes, "", []*net.IPNet{{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}))(t)
		must.Get(node.NewCloudNodeController(nodes, env.Client, provider, time.Hour, 1, 1))(t)
		returns := func(_ context.Context, m *Metrics) {
			if m == nil {
				t.Error("it has no metrics")
			}
		}
		if Library(returns)(t.Context()) == nil {
			t.Error("it returned, which is no failure")
		}
	}
	series := map[string]int{
		"service_controller_loadbalancer_sync_total": 0, "route_controller_route_sync_total": 0,
		"node_controller_initial_node_sync_delay_seconds": 0, "running_managed_controllers": 0,
	}
	metrics().ControllerStarted("any")
	families := must.Get(legacyregistry.DefaultGatherer.Gather())(t)
	for _, family := range families {
		if n, ok := series[family.GetName()]; ok {
			for _, metric := range family.GetMetric() {
				if family.GetName() != "running_managed_controllers" || strings.Contains(metric.String(), `"any"`) {
					n++
				}
			}
			series[family.GetName()] = n
		}
	}
	for name, n := range series {
		if n != 1 {
			t.Errorf("there are %d series of %s", n, name)
		}
	}
}
