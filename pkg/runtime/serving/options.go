package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/controller-manager/app"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
)

// infos is what an HTTPS server is made from.
type infos struct {
	serving        *server.SecureServingInfo
	authentication server.AuthenticationInfo
	authorization  server.AuthorizationInfo
	reviews        *reviews
	trusts         trusted
	tls            *tls.Config        // nil until follow
	unfollow       context.CancelFunc // nil until follow
}

// follow has what the server is made from read, and read again when it changes, until close. ctx is for logging only.
func (in *infos) follow(ctx context.Context) {
	ctx, in.unfollow = context.WithCancel(context.WithoutCancel(ctx))
	in.tls = negotiate(ctx, in.serving)
}

// close ends what follow began, and the questions to the API server.
func (in *infos) close() {
	in.unfollow()
	in.reviews.close()
}

// giveUp is close for what is not going to be followed. What was made to follow a file or an object has a queue, whose
// goroutines end when it has run. It does not log that it could not begin.
func (in *infos) giveUp() {
	over, end := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	end()
	made := []any{in.serving.Cert, in.trusts.client}
	for _, pair := range in.serving.SNICerts {
		made = append(made, pair)
	}
	if in.trusts.proxy != nil {
		made = append(made, in.trusts.proxy.CAContentProvider)
	}
	for _, one := range made {
		if r, ok := one.(dynamiccertificates.ControllerRunner); ok {
			r.Run(over, 1)
		}
	}
	in.reviews.close()
}

// prepare reads certificates and looks up who may do what. It opens nothing.
func prepare(c v1beta1.Serving, last *generated) (*infos, *generated, error) {
	if err := checkFiles(c); err != nil {
		return nil, nil, err
	}
	certs, last, err := certificates(c, last)
	in := &infos{serving: certs, reviews: newReviews()}
	if err == nil {
		err = in.complete(c)
	}
	if err != nil {
		in.giveUp()
		return nil, nil, err
	}
	return in, last, nil
}

// complete adds to certificates who may do what.
func (in *infos) complete(c v1beta1.Serving) error {
	in.serving.DisableHTTP2 = !*c.HTTP2.Enabled
	in.serving.HTTP2MaxStreamsPerConnection = int(*c.HTTP2.MaxStreamsPerConnection)
	if err := in.authenticateBy(c.Authentication); err != nil {
		return fmt.Errorf("setting up authentication: %w", err)
	}
	if err := in.authorizeBy(c.Authorization); err != nil {
		return fmt.Errorf("setting up authorization: %w", err)
	}
	if in.serving.ClientCA != nil {
		in.serving.ClientCA = unhinted{in.serving.ClientCA}
	}
	return nil
}

// protect puts authentication, authorization and the bounds for strangers in front of a
// handler.
func (in *infos) protect(handler http.Handler, c v1beta1.Serving, clk clock.PassiveClock, m *Metrics) http.Handler {
	bounds := newStrangers(freePaths(c.Authorization.AlwaysAllowPaths), clk, m)
	chain := app.BuildHandlerChain(bounds.trusting(handler), &in.authorization, &in.authentication)
	return hardened(bounds.parallel(bounds.admit(chain)))
}

// bodyTimeout is how long the body of a request may take. A timeout of the server would limit
// the response too: net/http ends a request whose client is silent for that long, as it is
// during a profile.
const bodyTimeout = 30 * time.Second

// hardened bounds the body of requests and forbids browsers to guess content types.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.ContentLength != 0 {
			// Writers of tests have no deadline.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// unhinted keeps the names of the client CAs from clients. They are read from the API server
// after the listener is open, in parts, and a client that receives some of them sends no
// certificate of another CA: its connection would stay anonymous. Without names it sends the
// certificate it has, and each request is authenticated by what is known then.
type unhinted struct {
	dynamiccertificates.CAContentProvider
}

// CurrentCABundleContent returns what the listener sends to clients.
func (unhinted) CurrentCABundleContent() []byte { return nil }

// RunOnce implements dynamiccertificates.ControllerRunner.
func (u unhinted) RunOnce(ctx context.Context) error {
	if r, ok := u.CAContentProvider.(dynamiccertificates.ControllerRunner); ok {
		return r.RunOnce(ctx)
	}
	return nil
}

// Run implements dynamiccertificates.ControllerRunner.
func (u unhinted) Run(ctx context.Context, workers int) {
	if r, ok := u.CAContentProvider.(dynamiccertificates.ControllerRunner); ok {
		r.Run(ctx, workers)
	}
}

// authorizeBy decides what a request may do: anything if it is from an administrator, what everybody may, and else
// what the API server says.
func (in *infos) authorizeBy(c v1beta1.Authorization) error {
	everybody, err := path.NewAuthorizer(c.AlwaysAllowPaths)
	if err != nil {
		return err
	}
	all := []authorizer.Authorizer{authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup), reading{everybody}}
	client, err := in.reviews.client(c.Kubeconfig, reviewTimeout)
	if err != nil {
		return blame("serving.authorization.kubeconfig", err)
	}
	if client != nil {
		asked, err := authorizerfactory.DelegatingAuthorizerConfig{
			SubjectAccessReviewClient: client.AuthorizationV1(),
			AllowCacheTTL:             c.AuthorizedTTL.Duration,
			DenyCacheTTL:              c.UnauthorizedTTL.Duration,
			WebhookRetryBackoff:       options.DefaultAuthWebhookRetryBackoff(),
		}.New()
		if err != nil {
			return err
		}
		all = append(all, asked)
	}
	in.authorization.Authorizer = union.New(all...)
	return nil
}

// reading lets another authorizer decide about requests that only read. Those that may change something need a
// permission, also on a path that anybody may read.
type reading struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (a reading) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	if mayChange(request.GetVerb(), request.GetPath()) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return a.Authorizer.Authorize(ctx, request)
}

// mayChange reports whether a request may change something. Except for debugging and for the metrics that a DELETE
// resets, every method that does not read is answered with 405, without doing anything.
func mayChange(method, path string) bool {
	reads := strings.EqualFold(method, http.MethodGet) || strings.EqualFold(method, http.MethodHead)
	return !reads && (strings.HasPrefix(path, "/debug/") || path == slisPath)
}
