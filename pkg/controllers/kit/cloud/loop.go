package cloud

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Loop runs one controller of the library. It is a controller.Controller.
type Loop struct {
	env     controller.Env
	config  Config
	content []byte // of the file of the provider
	build   Build
	calls   *calls
}

// Build makes the controller of the library, and returns the parts of it. An error means that the
// provider cannot do what the controller is for.
type Build = func(*Session) ([]Part, error)

// Session is what the library works with while it runs.
type Session struct {
	controller.Env
	// Cloud is the provider. Its calls end with the instance.
	Cloud cloudprovider.Interface
	// Client writes for the library. See rule 2 of the package comment.
	Client kubernetes.Interface

	guard *guard
}

// Part is a function that runs until its context ends.
type Part = func(context.Context) error

// New returns a loop for an instance, none if there is no provider. It reads the file of the provider,
// and requests the nodes, which every loop works with.
func New(env controller.Env, config Config, build Build) (*Loop, error) {
	if !config.Linked() {
		return nil, nil
	}
	content, err := config.read()
	if err != nil {
		return nil, err
	}
	env.Informers.Core().V1().Nodes().Informer()
	l := &Loop{env: env, config: config, content: content, build: build, calls: newCalls(env.Clock)}
	env.Inspect(l.calls)
	return l, nil
}

// Source is where the provider of an instance comes from. Instances whose sources are equal work with
// the same cloud, as the same user.
type Source struct {
	config  Config
	content string
}

// Source returns that of the instance.
func (l *Loop) Source() Source { return Source{l.config, string(l.content)} }

// Run implements controller.Controller. It makes the provider, builds the controller of the library,
// and runs the parts of it until ctx ends. The handlers that were added are shown the caches before
// the parts run. An error of the build is logged, and nothing runs.
func (l *Loop) Run(ctx context.Context) error {
	if !l.env.Informers.WaitUntilReady(ctx) {
		return nil
	}
	provider, err := l.config.make(l.content, klog.FromContext(ctx))
	if err != nil {
		return err
	}
	working, finish := reconcile.WorkContext(ctx, l.env.Fenced)
	defer finish()
	stop := make(chan struct{})
	defer close(stop)
	provider.Initialize(builder{l.env}, stop)
	if user, ok := provider.(cloudprovider.InformerUser); ok {
		user.SetInformers(l.env.Informers)
	}
	if ctx.Err() != nil { // the provider may have taken its time
		return nil
	}
	if err := l.env.Informers.Err(); err != nil {
		return fmt.Errorf("passing the caches to the cloud provider: %w", err)
	}
	nodes := l.env.Informers.Core().V1().Nodes().Lister()
	guard := &guard{
		stopping: ctx.Done(), working: working, record: l.calls, nodes: nodes, processed: processed{clock: l.env.Clock},
	}
	session := &Session{Env: l.env, Cloud: guarded{provider, guard}, Client: newClient(l.env, guard), guard: guard}
	return l.run(ctx, session)
}

// run returns when every goroutine that the library started has ended.
func (l *Loop) run(ctx context.Context, session *Session) (err error) {
	var value string
	// A separate goroutine, so that the label ends with it.
	concurrent.Start(func() {
		value = labelled(ctx, l.env.Name, func(ctx context.Context) {
			err = l.work(ctx, session)
		})
	})()
	if ended := awaitEnd(value); err == nil {
		err = ended
	}
	return err
}

func (l *Loop) work(ctx context.Context, session *Session) error {
	parts, err := l.build(session)
	if refused := l.env.Informers.Err(); refused != nil {
		ended, end := context.WithCancel(ctx)
		end()
		_ = concurrent.Run(ended, parts...) // ends what the library has begun
		return fmt.Errorf("building %s: %w", l.env.Name, refused)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "The controller stays idle: the cloud provider lacks what it needs",
			"provider", session.Cloud.ProviderName())
		l.calls.idle(err)
		<-ctx.Done()
		return nil
	}
	l.env.Informers.StartWithContext(ctx)
	l.calls.began()
	return concurrent.Run(ctx, parts...)
}

// Library is the part that runs a controller of the library. It has a goroutine of its own,
// which the library may end after the stop: see guard.first.
func Library(run func(context.Context, *Metrics)) Part {
	return func(ctx context.Context) error {
		concurrent.Start(func() { run(ctx, metrics()) })()
		if ctx.Err() == nil {
			return errReturned
		}
		return nil
	}
}

var errReturned = errors.New("the controller of the library returned before it was told to stop")

// builder gives a provider clients of the identity of the instance and under its fence,
// whatever name it asks for.
type builder struct{ env controller.Env }

var _ cloudprovider.ControllerClientBuilder = builder{}

// Config implements cloudprovider.ControllerClientBuilder.
func (b builder) Config(name string) (*rest.Config, error) {
	return rest.AddUserAgent(rest.CopyConfig(b.env.RESTConfig), name), nil
}

// ConfigOrDie implements cloudprovider.ControllerClientBuilder.
func (b builder) ConfigOrDie(name string) *rest.Config {
	config, err := b.Config(name)
	if err != nil {
		panic(err)
	}
	return config
}

// Client implements cloudprovider.ControllerClientBuilder.
func (b builder) Client(name string) (kubernetes.Interface, error) {
	config, err := b.Config(name)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for %s: %w", name, err)
	}
	return client, nil
}

// ClientOrDie implements cloudprovider.ControllerClientBuilder.
func (b builder) ClientOrDie(name string) kubernetes.Interface {
	client, err := b.Client(name)
	if err != nil {
		panic(err) // fails the instance
	}
	return client
}
