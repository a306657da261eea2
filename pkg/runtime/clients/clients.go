package clients

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/version"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/klog/v2"
)

const (
	// bootstrapTimeout bounds requests for service accounts and their tokens.
	bootstrapTimeout = 10 * time.Second
	// discoveryTimeout bounds discovery requests, as in client-go.
	discoveryTimeout = 32 * time.Second
)

// Options configure Clients.
type Options struct {
	// Base says how to reach the API server, see LoadConfig. Its limits and user agent are
	// ignored.
	Base *rest.Config
	// Version is part of the user agent. The zero Info means that of the binary.
	Version apiversion.Info
	// ServiceAccounts makes identities with a service account act as it: the account is
	// created if it does not exist, and a token is requested and renewed. Without it they
	// use the credentials of Base. Default false.
	ServiceAccounts bool
	// QPS and Burst limit each client of each Set, see SetLimits.
	QPS   float32
	Burst int
	// ForbiddenBody marks objects that must not be written. Empty permits all.
	ForbiddenBody string
}

// Identity says on whose behalf a Set acts.
type Identity struct {
	// Name is the canonical name of the controller, for errors.
	Name string
	// ServiceAccount in the namespace kube-system. Empty means the credentials of the process.
	ServiceAccount string
	// ClientName ends the user agent if there is no service account. Default Name.
	ClientName string
	// Limits scale the limits of this identity.
	Limits LimitFactors
}

// Set is the clients of one identity. All respect the same fence.
type Set struct {
	Kubernetes kubernetes.Interface
	Metadata   metadata.Interface
	Dynamic    dynamic.Interface
	Discovery  discovery.DiscoveryInterface
	// Config makes further clients that share connections, fence and limit.
	Config *rest.Config
}

// Clients makes Sets. Use New.
type Clients struct {
	options   Options
	host      string            // URL of the API server
	path      string            // path of Host, without trailing slash
	own       http.RoundTripper // with the credentials of Base
	anonymous http.RoundTripper // without credentials; nil without ServiceAccounts
	limits    *limits
	builder   clientbuilder.ControllerClientBuilder // nil without ServiceAccounts

	mu     sync.Mutex
	tokens map[string]transport.WrapperFunc // by service account
}

// New prepares connections to the API server. It sends no request.
func New(o Options) (*Clients, error) {
	if o.Base == nil {
		return nil, errors.New("making clients: Base is required")
	}
	if o.Version == (apiversion.Info{}) {
		o.Version = version.Get()
	}
	url, _, err := rest.DefaultServerUrlFor(o.Base)
	if err != nil {
		return nil, fmt.Errorf("making clients: %w", err)
	}
	c := &Clients{
		options: o,
		host:    url.String(),
		path:    strings.TrimSuffix(url.Path, "/"),
		limits:  newLimits(o.QPS, o.Burst),
		tokens:  map[string]transport.WrapperFunc{},
	}
	if c.own, err = sharedTransport(o.Base); err != nil {
		return nil, err
	}
	if o.ServiceAccounts {
		err = c.prepareServiceAccounts()
	}
	return c, err
}

// sharedTransport makes the transport that Sets wrap. client-go's cache finds an equal one
// if there is one.
func sharedTransport(base *rest.Config) (http.RoundTripper, error) {
	config := rest.CopyConfig(base)
	config.UserAgent = "" // differs by Set
	t, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the transport to the API server: %w", err)
	}
	if klog.V(6).Enabled() {
		return t, nil // client-go has it logged already
	}
	// The verbosity can be raised later.
	return transport.NewDebuggingRoundTripper(t, transport.DebugByContext), nil
}

func (c *Clients) prepareServiceAccounts() error {
	config := rest.AnonymousClientConfig(c.options.Base)
	var err error
	if c.anonymous, err = sharedTransport(config); err != nil {
		return err
	}
	bootstrap := c.config(credentials{shared: c.own, suffix: component}, nil, LimitFactors{})
	core, err := kubernetes.NewForConfigAndClient(bootstrap, &http.Client{Transport: bootstrap.Transport, Timeout: bootstrapTimeout})
	if err != nil {
		return fmt.Errorf("making the client for service accounts: %w", err)
	}
	c.builder = clientbuilder.NewDynamicClientBuilder(config, core.CoreV1(), metav1.NamespaceSystem)
	return nil
}

// SetLimits changes the client-side limits of all Sets, also of those in use. qps is the
// number of requests per second of each client, burst how many of them may be made at once.
// A qps that is not positive means no limit.
func (c *Clients) SetLimits(qps float32, burst int) { c.limits.set(qps, burst) }

// Close closes connections that are not in use. The Clients can be used further.
func (c *Clients) Close() {
	utilnet.CloseIdleConnectionsFor(c.own)
	if c.anonymous != nil {
		utilnet.CloseIdleConnectionsFor(c.anonymous)
	}
}

// For makes the clients of an identity, which write while fence permits it; a nil fence
// permits always. With service accounts, the first Set of an account makes sure that it
// exists; later ones send nothing.
func (c *Clients) For(id Identity, fence Fence) (*Set, error) {
	credentials, err := c.credentials(id)
	if err != nil {
		return nil, fmt.Errorf("making clients of %s: %w", id.Name, err)
	}
	set, err := c.newSet(c.config(credentials, fence, id.Limits), id.Limits)
	if err != nil {
		return nil, fmt.Errorf("making clients of %s: %w", id.Name, err)
	}
	return set, nil
}

// credentials are how an identity presents itself.
type credentials struct {
	shared http.RoundTripper
	token  transport.WrapperFunc // adds a token; nil if shared has credentials
	suffix string                // end of the user agent
}

func (c *Clients) credentials(id Identity) (credentials, error) {
	switch {
	case id.ServiceAccount == "" && id.ClientName == "":
		return credentials{shared: c.own, suffix: id.Name}, nil
	case id.ServiceAccount == "":
		return credentials{shared: c.own, suffix: id.ClientName}, nil
	case c.builder == nil:
		return credentials{shared: c.own, suffix: id.ServiceAccount}, nil
	}
	token, err := c.token(id.ServiceAccount)
	return credentials{
		shared: c.anonymous,
		token:  token,
		suffix: serviceaccount.MakeUsername(metav1.NamespaceSystem, id.ServiceAccount),
	}, err
}

// token returns what adds the token of a service account to requests. The token is
// fetched with the first of them, and shared by all Sets.
func (c *Clients) token(account string) (transport.WrapperFunc, error) {
	c.mu.Lock()
	known := c.tokens[account]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	config, err := c.builder.Config(account)
	if err != nil {
		return nil, fmt.Errorf("ensuring service account %s/%s: %w", metav1.NamespaceSystem, account, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens[account] == nil {
		c.tokens[account] = config.WrapTransport
	}
	return c.tokens[account], nil
}

// config describes the way of the requests of a Set: user agent, token, guard, fence, and
// the shared transport. The fence is asked last: getting a token can take a while.
func (c *Clients) config(id credentials, fence Fence, factors LimitFactors) *rest.Config {
	base, userAgent := c.options.Base, UserAgent(c.options.Version, id.suffix)
	rt := id.shared
	if fence != nil {
		rt = &fencedTransport{fence: fence, next: rt, base: c.path}
	}
	if c.options.ForbiddenBody != "" {
		rt = &guardedTransport{mark: []byte(c.options.ForbiddenBody), next: rt}
	}
	if id.token != nil {
		rt = id.token(rt)
	}
	return &rest.Config{
		Host:                      c.host,
		APIPath:                   base.APIPath,
		ContentConfig:             base.ContentConfig,
		UserAgent:                 userAgent,
		Transport:                 transport.NewUserAgentRoundTripper(userAgent, rt),
		RateLimiter:               c.limits.newBucket(factors),
		WarningHandler:            base.WarningHandler,
		WarningHandlerWithContext: base.WarningHandlerWithContext,
		Timeout:                   base.Timeout,
	}
}

// newSet makes the clients that use config, each with its own bucket.
func (c *Clients) newSet(config *rest.Config, factors LimitFactors) (*Set, error) {
	own := func(b *bucket) *rest.Config {
		config := rest.CopyConfig(config)
		config.RateLimiter = b
		return config
	}
	client := &http.Client{Transport: config.Transport, Timeout: config.Timeout}
	set := &Set{Config: config}
	var err error
	if set.Kubernetes, err = kubernetes.NewForConfigAndClient(own(c.limits.newBucket(factors)), client); err != nil {
		return nil, fmt.Errorf("typed client: %w", err)
	}
	if set.Metadata, err = metadata.NewForConfigAndClient(own(c.limits.newBucket(factors)), client); err != nil {
		return nil, fmt.Errorf("metadata client: %w", err)
	}
	if set.Dynamic, err = dynamic.NewForConfigAndClient(own(c.limits.newBucket(factors)), client); err != nil {
		return nil, fmt.Errorf("dynamic client: %w", err)
	}
	patient := &http.Client{Transport: config.Transport, Timeout: discoveryTimeout}
	if set.Discovery, err = discovery.NewDiscoveryClientForConfigAndClient(own(c.limits.newDiscoveryBucket()), patient); err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	return set, nil
}
