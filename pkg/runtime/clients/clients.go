package clients

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

const (
	// bootstrapTimeout bounds requests for service accounts and their tokens.
	bootstrapTimeout = 10 * time.Second
	// discoveryTimeout bounds discovery requests, as in client-go.
	discoveryTimeout = 32 * time.Second
)

// Options configure Clients.
type Options struct {
	// Base is how to reach the API server, see loadConfig. Its limits and user agent are
	// ignored.
	Base *rest.Config
	// ServiceAccounts makes identities with a service account act as that account: with its
	// first request a token is requested, and the account created if it does not exist.
	// Without it they use the credentials of Base. Default false.
	ServiceAccounts bool
	// QPS and Burst limit each client of each Set, see SetLimits.
	QPS   float32
	Burst int
	// Recorder is notified of every write under a fence. Optional.
	Recorder Recorder
	// ForbiddenManager is the field manager of objects that must not be written. Empty
	// permits all.
	ForbiddenManager string
	// Clock determines when tokens are renewed. Default: the real one.
	Clock clock.Clock
}

// Identity is on whose behalf a Set acts.
type Identity struct {
	// Name is the canonical name of the controller, for errors.
	Name string
	// ServiceAccount in the namespace kube-system. Empty means the credentials of the process.
	ServiceAccount string
	// ClientName ends the user agent if there is no service account. Default Name.
	ClientName string
	// Limits scale the limits of this identity.
	Limits controller.LimitFactors
	// Pauses are the namespaces in which nothing may be written. Nil means none.
	Pauses *controller.Pauses
	// Deletions are asked before each deletion. Nil means that none counts.
	Deletions *controller.Deletions
	// UnclearDeletion is called for each counted deletion that failed with an unknown outcome. Optional.
	UnclearDeletion UnclearDeletion
	// ConsistentLists makes lists that would accept any version consistent reads.
	ConsistentLists bool
	// Observer receives every write of the Set with its outcome. Optional.
	Observer Observer
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
	host      string // URL of the API server
	server    *url.URL
	path      string // path of Host, without trailing slash
	own       *link  // with the credentials of Base, but for a token
	pace      pace   // of the connections of own
	token     atomic.Pointer[string]
	anonymous *link // without credentials; nil without ServiceAccounts
	limits    *limits
	accounts  *accounts // nil without ServiceAccounts

	mu     sync.Mutex
	access *Access // what connections are made with now
}

// New prepares connections to the API server. It sends no request.
func New(o Options) (*Clients, error) {
	if o.Base == nil {
		return nil, errNoAccess
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	server, _, err := rest.DefaultServerUrlFor(o.Base)
	if err != nil {
		return nil, fmt.Errorf("creating clients: %w", err)
	}
	c := &Clients{
		options: o,
		host:    server.String(),
		server:  server,
		path:    strings.TrimSuffix(server.Path, "/"),
		limits:  newLimits(o.QPS, o.Burst),
		access:  &Access{Config: o.Base},
	}
	c.token.Store(&o.Base.BearerToken)
	if c.own, err = newLink(o.Base, &c.pace); err != nil {
		return nil, err
	}
	if o.ServiceAccounts {
		err = c.prepareServiceAccounts()
	}
	return c, err
}

func (c *Clients) prepareServiceAccounts() error {
	var err error
	if c.anonymous, err = newLink(rest.AnonymousClientConfig(c.options.Base), nil); err != nil {
		return err
	}
	bootstrap := c.config(credentials{shared: c.ownCredentials(), suffix: component}, nil, controller.LimitFactors{})
	core, err := kubernetes.NewForConfigAndClient(bootstrap, &http.Client{Transport: bootstrap.Transport, Timeout: bootstrapTimeout})
	if err != nil {
		return fmt.Errorf("creating the client for service accounts: %w", err)
	}
	c.accounts = newAccounts(core.CoreV1(), c.options.Clock)
	return nil
}

// ReadAtOnce ends the pauses in reading watches of Leases for ten seconds: somebody waits for a
// cache to be up to date.
func (c *Clients) ReadAtOnce() { c.pace.hurry() }

// Renew uses other credentials for the same API server and user from now on, see
// Access.Compare. Sets stay as they are: their next requests use the new credentials. A new
// token changes nothing else. Other certificates need other connections: requests under way
// are finished on the old ones, watches end there without an error and are resumed by their
// clients, and then the old connections are closed. If it fails, nothing has changed.
func (c *Clients) Renew(a *Access) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var own, anonymous *lane
	var err error
	if c.access.transportKey() != a.transportKey() {
		if own, err = newLane(a.Config, &c.pace); err != nil {
			return err
		}
	}
	if c.anonymous != nil && c.access.anonymousKey() != a.anonymousKey() {
		if anonymous, err = newLane(rest.AnonymousClientConfig(a.Config), nil); err != nil {
			return err
		}
	}
	c.token.Store(&a.Config.BearerToken)
	if own != nil {
		c.own.replace(own)
	}
	if anonymous != nil {
		c.anonymous.replace(anonymous)
	}
	c.access = a
	return nil
}

// SetLimits changes the client-side limits of all Sets, also of those in use. qps is the
// number of requests per second of each client, burst how many of them may be made at once.
// A qps that is not positive means no limit.
func (c *Clients) SetLimits(qps float32, burst int) { c.limits.set(qps, burst) }

// CutAccounts breaks the connections of the service accounts, which only controllers use:
// not the ones of caches and leader election. It is for a term that ended because the API
// server could not be reached. Writes under way are cancelled by their fence, but what is
// left of them in a connection would arrive once the network heals. Without service
// accounts it does nothing: then connections are those of caches, too, which would have to
// list everything again if the API server still cannot be reached.
func (c *Clients) CutAccounts() {
	if c.anonymous != nil {
		c.anonymous.cut()
	}
}

// CutAll breaks all connections, those of caches and leader election, too: none of them has led to an answer for a while,
// and the next ones may lead to another API server behind the same address. Watches go on from where they were.
func (c *Clients) CutAll() {
	c.own.cut()
	c.CutAccounts()
}

// Close ends requests for tokens and closes all connections. No Set may be in use.
func (c *Clients) Close() {
	if c.accounts != nil {
		c.accounts.end()
		c.anonymous.close()
	}
	c.own.close()
}

// For makes the clients of an identity, which write while fence permits it; a nil fence
// permits always. It sends no request: with service accounts, the first request of a client
// requests the token, and creates the account if needed.
func (c *Clients) For(id Identity, fence Fence) (*Set, error) {
	of := c.credentials(id)
	of.pauses, of.deletions, of.unclear = id.Pauses, id.Deletions, id.UnclearDeletion
	config := c.config(of, fence, id.Limits)
	if id.ConsistentLists {
		config.Transport = &consistentTransport{layer: layer{config.Transport}}
	}
	if id.Observer != nil {
		config.Transport = &observingTransport{observer: id.Observer, clock: c.options.Clock, layer: layer{config.Transport}, base: c.path}
	}
	set, err := c.newSet(config, fence, id.Limits)
	if err != nil {
		return nil, fmt.Errorf("creating clients of %s: %w", id.Name, err)
	}
	return set, nil
}

// credentials are those of an identity.
type credentials struct {
	shared  http.RoundTripper
	account *account // whose token is added; nil if shared has credentials
	suffix  string   // end of the user agent
	pauses  *controller.Pauses

	deletions *controller.Deletions
	unclear   UnclearDeletion
}

func (c *Clients) ownCredentials() http.RoundTripper {
	return &bearer{token: &c.token, layer: layer{c.own}}
}

func (c *Clients) credentials(id Identity) credentials {
	switch {
	case id.ServiceAccount == "" && id.ClientName == "":
		return credentials{shared: c.ownCredentials(), suffix: id.Name}
	case id.ServiceAccount == "":
		return credentials{shared: c.ownCredentials(), suffix: id.ClientName}
	case c.accounts == nil:
		return credentials{shared: c.ownCredentials(), suffix: id.ServiceAccount}
	}
	return credentials{
		shared:  c.anonymous,
		account: c.accounts.get(id.ServiceAccount),
		suffix:  serviceaccount.MakeUsername(metav1.NamespaceSystem, id.ServiceAccount),
	}
}

// config builds the transport of a Set: user agent, answers, token, guard, fence, and the shared
// transport. The fence is checked last: getting a token can take a while.
func (c *Clients) config(id credentials, fence Fence, factors controller.LimitFactors) *rest.Config {
	base, userAgent := c.options.Base, userAgent(version.Get(), id.suffix)
	var rt http.RoundTripper = &ownTransport{layer: layer{id.shared}, server: c.server}
	if fence != nil && c.options.Recorder != nil {
		rt = &recordingTransport{recorder: c.options.Recorder, clock: c.options.Clock, layer: layer{rt}, base: c.path}
	}
	if fence != nil {
		rt = &fencedTransport{fence: fence, layer: layer{rt}, base: c.path}
	}
	if id.deletions != nil {
		rt = &deletingTransport{deletions: id.deletions, unclear: id.unclear, clock: c.options.Clock, layer: layer{rt}, base: c.path}
	}
	if id.pauses != nil {
		rt = &pausedTransport{pauses: id.pauses, layer: layer{rt}, base: c.path}
	}
	if c.options.ForbiddenManager != "" {
		rt = &guardedTransport{manager: c.options.ForbiddenManager, layer: layer{rt}}
	}
	if id.account != nil {
		rt = &asAccount{account: id.account, layer: layer{rt}}
	}
	rt = &foreignTransport{layer{&answerTransport{layer{rt}}}}
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
func (c *Clients) newSet(config *rest.Config, fence Fence, factors controller.LimitFactors) (*Set, error) {
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
	if fence != nil {
		patient.Transport = &endingTransport{fence: fence, layer: layer{config.Transport}}
	}
	if set.Discovery, err = discovery.NewDiscoveryClientForConfigAndClient(own(c.limits.newDiscoveryBucket()), patient); err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	return set, nil
}
