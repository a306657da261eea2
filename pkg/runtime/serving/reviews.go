package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/named"
)

const (
	// reviewQPS and reviewBurst are so high that this side does not limit reviews: the API
	// server does.
	reviewQPS, reviewBurst = 200, 400

	dialTimeout   = 30 * time.Second
	dialKeepAlive = 30 * time.Second
)

// reviews are the connections over which the API server is asked who a request is from and what it may do. They end
// with the listener that asks: client-go would share them within the process, and keep each for a minute and a half.
type reviews struct {
	dialer *connrotation.Dialer
	closed atomic.Bool
}

var errReviewsClosed = errors.New("the listener that asks has been closed")

func newReviews() *reviews {
	return &reviews{dialer: connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: dialKeepAlive}).DialContext)}
}

// dial opens a connection. net/http does not interrupt that when nobody waits for it any more.
func (r *reviews) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := r.dialer.DialContext(ctx, network, address)
	if err == nil && r.closed.Load() {
		return nil, errors.Join(errReviewsClosed, conn.Close())
	}
	return conn, err
}

// close closes all connections, also those to come.
func (r *reviews) close() {
	r.closed.Store(true)
	r.dialer.CloseAll()
}

// client returns a client for reviews. It is nil if there is no API server to ask: neither a kubeconfig nor a pod
// that the process runs in. timeout bounds each of its requests, 0 does not.
func (r *reviews) client(kubeconfig string, timeout time.Duration) (kubernetes.Interface, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			klog.Background().Info("There is no API server that can review requests", "reason", err.Error())
			return nil, nil
		}
	} else if config, err = load(kubeconfig); err != nil {
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.Timeout, config.Dial = reviewQPS, reviewBurst, timeout, r.dial
	return kubernetes.NewForConfig(config)
}

// load reads a kubeconfig, unless it names what must not be read.
func load(kubeconfig string) (*rest.Config, error) {
	if err := checkNamed(kubeconfig); err != nil {
		return nil, err
	}
	return named.ReadKubeconfig(kubeconfig, "")
}
