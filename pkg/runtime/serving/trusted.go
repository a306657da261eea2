package serving

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

const (
	// lookupPatience is how long an endpoint that replaces another one waits until it has looked up whom it trusts. An
	// edit takes longer by that while the API server does not respond.
	lookupPatience = 2 * time.Second
	lookupPoll     = 5 * time.Millisecond
)

// trusted is who can prove who they are with a certificate. Both are nil if there is nobody.
type trusted struct {
	client dynamiccertificates.CAContentProvider
	proxy  *authenticatorfactory.RequestHeaderConfig
}

// awaitThoseOf waits until all whom the current endpoint knows are known here, as far as they are trusted here: they
// would be anonymous until the API server has told who they are, and be forbidden what they may do.
func (t trusted) awaitThoseOf(ctx context.Context, current trusted) {
	err := wait.PollUntilContextTimeout(ctx, lookupPoll, lookupPatience, true, func(context.Context) (bool, error) {
		return t.knowsThoseOf(current), nil
	})
	if err != nil {
		klog.FromContext(ctx).Info("Clients with a certificate are anonymous until the API server says whom it trusts", "waited", lookupPatience)
	}
}

func (t trusted) knowsThoseOf(current trusted) bool {
	return (t.client == nil || t.knowsClients() || !current.knowsClients()) &&
		(t.proxy == nil || t.knowsProxy() || !current.knowsProxy())
}

func (t trusted) knowsClients() bool {
	return t.client != nil && verifies(t.client)
}

func (t trusted) knowsProxy() bool {
	return t.proxy != nil && verifies(t.proxy.CAContentProvider) && len(t.proxy.UsernameHeaders.Value()) > 0
}

func verifies(ca dynamiccertificates.CAContentProvider) bool {
	_, known := ca.VerifyOptions()
	return known
}
