package endpointslice

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// heldClient holds the first creation of a slice until release is closed or the context of the request ends.
type heldClient struct {
	kubernetes.Interface
	began, release chan struct{}
	once           *sync.Once
}

// DiscoveryV1 implements kubernetes.Interface.
func (c heldClient) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return heldDiscovery{c.Interface.DiscoveryV1(), c}
}

type heldDiscovery struct {
	discoveryclient.DiscoveryV1Interface
	client heldClient
}

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (c heldDiscovery) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	return heldSlices{c.DiscoveryV1Interface.EndpointSlices(namespace), c.client}
}

type heldSlices struct {
	discoveryclient.EndpointSliceInterface
	client heldClient
}

// Create implements discoveryclient.EndpointSliceInterface.
func (c heldSlices) Create(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	c.client.once.Do(func() { close(c.client.began) })
	select {
	case <-c.client.release:
		return c.EndpointSliceInterface.Create(ctx, slice, o)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The library sends its requests with a context that no stop ends: a write in flight is finished, and the stop waits
// for it. Pins EPS-43.
func TestAStopFinishesTheWriteInFlight(t *testing.T) {
	b := &bench{Subject: controllertest.NewSubject(t, web, testService(), testNode("node-a", "zone-a"), testPod(1))}
	held := heldClient{b.Client, make(chan struct{}), make(chan struct{}), &sync.Once{}}
	b.Env.Env.Client = held
	b.c = must.Get(newController(b.Env.Env, defaults))(t)
	stop := b.run(t)
	controllertest.Eventually(t, "a slice is being created", func() bool {
		select {
		case <-held.began:
			return true
		default:
			return false
		}
	})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	await.Stays(t, "the stop waits", 50*time.Millisecond, func(context.Context) error {
		select {
		case <-stopped:
			return errors.New("it does not")
		default:
			return nil
		}
	})
	close(held.release)
	controllertest.Eventually(t, "the controller has stopped", func() bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	})
	b.one(t)
}
