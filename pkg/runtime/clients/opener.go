package clients

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"k8s.io/client-go/util/connrotation"
)

// opener has the requests of a burst open one connection after another. net/http opens one for each request that finds
// none with room, all at once, and drops those that it does not need when it has shaken hands on them: hundreds when a
// few ReplicaSets are scaled, or when all watches move to other connections.
//
// A request is not permitted to open a connection at first. If it needs one, it is sent again when it is its turn, and the
// turn of the next one comes as soon as it has a connection, its own or one with room. It does not wait for long: the
// one that is being opened can lead to an API server that is gone, behind an address that leads to others, too.
type opener struct {
	layer
	patience time.Duration
	turn     chan struct{} // full while it is somebody's
}

var errNoRoom = errors.New("no connection has room for the request, and another one was not to be opened")

// permission is the key of contexts with which connections may be opened.
type permission struct{}

// newOpener wraps a transport whose connections are made by permitted.
func newOpener(next http.RoundTripper) *opener {
	return &opener{layer: layer{next}, patience: time.Second, turn: make(chan struct{}, 1)}
}

// permitted makes connections for requests that may open them.
func permitted(dial connrotation.DialFunc) connrotation.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(permission{}) == nil {
			return nil, errNoRoom
		}
		return dial(ctx, network, address)
	}
}

// RoundTrip implements http.RoundTripper.
func (o *opener) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if !repeatable(req) {
		return o.next.RoundTrip(req.WithContext(permit(ctx)))
	}
	resp, err := o.next.RoundTrip(req)
	if !errors.Is(err, errNoRoom) {
		return resp, err
	}
	pass := o.await(ctx)
	defer pass()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { pass() }})
	again, ok := repeat(req)
	if !ok {
		return nil, err
	}
	return o.next.RoundTrip(again.WithContext(permit(ctx)))
}

func permit(ctx context.Context) context.Context { return context.WithValue(ctx, permission{}, true) }

// await returns when it is the caller's turn, or it has waited for long enough. The caller has to call pass.
func (o *opener) await(ctx context.Context) (pass func()) {
	timer := time.NewTimer(o.patience)
	defer timer.Stop()
	select {
	case o.turn <- struct{}{}:
		return sync.OnceFunc(func() { <-o.turn })
	case <-timer.C:
	case <-ctx.Done(): // the transport says so
	}
	return func() {}
}
