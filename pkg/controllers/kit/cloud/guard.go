package cloud

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller/concurrent"
)

// guard bounds the calls of a provider to the life of an instance.
type guard struct {
	// stopping is closed when the instance has to stop.
	stopping <-chan struct{}
	// working survives the stop. It ends when the instance is fenced, or has ended.
	working context.Context
	record  *calls
	// asked are the nodes whose metadata was requested to initialize them.
	asked asked
	// processed is what the library has written of Services.
	processed processed
	// backends are the calls under way that set the nodes of load balancers.
	backends backends
	// nodes are those of the scope.
	nodes corelisters.NodeLister
	// services are those of the scope; nil for a controller without load balancers.
	services corelisters.ServiceLister
	// hosts are the nodes that may be behind load balancers; nil for a controller without load balancers.
	hosts *hosts
}

// first is called where a unit of work begins. After the stop it ends the goroutine, which is
// one of the library's: whatever is left in its queue stays there.
func (g *guard) first() {
	select {
	case <-g.stopping:
		runtime.Goexit()
	default:
	}
}

// bind returns a context with the values of ctx that ends with the instance and not before.
func (g *guard) bind(ctx context.Context) context.Context { return bound{g.working, ctx} }

type bound struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (b bound) Value(key any) any { return b.values.Value(key) }

var errEnded = errors.New("the instance has ended: the cloud provider is not called any more")

// call calls the provider. what names the call in the status of the controller.
func call[T any](ctx context.Context, g *guard, what string, f func(context.Context) (T, error)) (result T, err error) {
	if g.working.Err() != nil {
		return result, errEnded
	}
	ctx = g.bind(ctx)
	number := g.record.begin(what)
	defer func() { g.record.end(number, err) }()
	if caught := concurrent.Catch(func() { result, err = f(ctx) }); caught != nil {
		// Not returned as it is: the stack would become part of an event.
		klog.FromContext(ctx).Error(caught, "The cloud provider panicked", "call", what)
		var none T
		return none, fmt.Errorf("the cloud provider panicked: %v", caught.Value)
	}
	return result, err
}

// do is call for a function that returns only an error.
func do(ctx context.Context, g *guard, what string, f func(context.Context) error) error {
	_, err := call(ctx, g, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}
