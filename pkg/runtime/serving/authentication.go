package serving

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"kcmd.dev/pkg/config/v1beta1"
)

const (
	// lookupConfigMap is where kube-apiserver publishes whom it trusts.
	lookupConfigMap = "extension-apiserver-authentication"
	// reviewTimeout bounds one TokenReview or SubjectAccessReview.
	reviewTimeout = 10 * time.Second
)

// authenticateBy decides who a request is from: the front proxy, the owner of a client
// certificate or of a token, else anonymous. What has to be looked up in the cluster is
// looked up in the background, for as long as it takes and again when it changes. The
// endpoint does not wait for the API server: a client that is not known yet is anonymous.
func (in *infos) authenticateBy(c v1beta1.Authentication) error {
	client, err := in.reviews.client(c.Kubeconfig, 0) // it watches as well
	if err != nil {
		return blame("serving.authentication.kubeconfig", err)
	}
	by := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                &apiserverconfig.AnonymousAuthConfig{Enabled: true},
		CacheTTL:                 c.CacheTTL.Duration,
		WebhookRetryBackoff:      options.DefaultAuthWebhookRetryBackoff(),
		TokenAccessReviewTimeout: reviewTimeout,
	}
	lookup := client
	if *c.SkipLookup {
		lookup = nil
	}
	if client != nil {
		by.TokenAccessReviewClient = client.AuthenticationV1()
	}
	if by.ClientCertificateCAContentProvider, err = clientCA(c, lookup); err != nil {
		return blame("serving.authentication.clientCAFile", err)
	}
	in.trusts.client = by.ClientCertificateCAContentProvider
	if by.RequestHeaderConfig, err = frontProxy(c, lookup); err != nil {
		return blame("serving.authentication.requestHeader.clientCAFile", err)
	}
	in.trusts.proxy = by.RequestHeaderConfig
	in.authentication.RequestHeaderConfig = by.RequestHeaderConfig
	if ca := by.ClientCertificateCAContentProvider; ca != nil {
		err = in.authentication.ApplyClientCert(ca, in.serving)
	}
	if by.RequestHeaderConfig != nil {
		err = errors.Join(err, in.authentication.ApplyClientCert(by.RequestHeaderConfig.CAContentProvider, in.serving))
	}
	if err != nil {
		return fmt.Errorf("setting up client certificates: %w", err)
	}
	in.authentication.Authenticator, _, err = by.New()
	return err
}

// clientCA returns the CAs that client certificates are verified against, nil if they are not
// verified.
func clientCA(c v1beta1.Authentication, lookup kubernetes.Interface) (dynamiccertificates.CAContentProvider, error) {
	if c.ClientCAFile != "" {
		if err := checkCA(c.ClientCAFile); err != nil {
			return nil, err
		}
		return dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", c.ClientCAFile)
	}
	if lookup == nil {
		return nil, nil
	}
	return dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem, lookupConfigMap, "client-ca-file", lookup)
}

// checkCA reports why a file has no certificates of CAs. What follows the file would leave the goroutines of its queue
// behind if it failed by itself.
func checkCA(file string) error {
	_, err := certutil.CertsFromFile(file)
	return err
}

// frontProxy returns how a front proxy authenticates itself and which user it acts for. It is
// nil if there is none.
func frontProxy(c v1beta1.Authentication, lookup kubernetes.Interface) (*authenticatorfactory.RequestHeaderConfig, error) {
	if h := c.RequestHeader; h.ClientCAFile != "" {
		if err := checkCA(h.ClientCAFile); err != nil {
			return nil, err
		}
		o := options.RequestHeaderAuthenticationOptions{
			ClientCAFile:        h.ClientCAFile,
			UsernameHeaders:     h.UsernameHeaders,
			UIDHeaders:          h.UIDHeaders,
			GroupHeaders:        h.GroupHeaders,
			ExtraHeaderPrefixes: h.ExtraHeaderPrefixes,
			AllowedNames:        h.AllowedNames,
		}
		return o.ToAuthenticationRequestHeaderConfig()
	}
	if lookup == nil {
		return nil, nil
	}
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("request-header-ca", metav1.NamespaceSystem, lookupConfigMap, "requestheader-client-ca-file", lookup)
	if err != nil {
		return nil, err
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(lookupConfigMap, metav1.NamespaceSystem, lookup,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	provide := func(f func() []string) headerrequest.StringSliceProvider {
		return headerrequest.StringSliceProviderFunc(f)
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   lookedUp{ca, headers},
		UsernameHeaders:     provide(headers.UsernameHeaders),
		UIDHeaders:          provide(headers.UIDHeaders),
		GroupHeaders:        provide(headers.GroupHeaders),
		ExtraHeaderPrefixes: provide(headers.ExtraHeaderPrefixes),
		AllowedClientNames:  provide(headers.AllowedClientNames),
	}, nil
}

// lookedUp follows the cluster's settings of the front proxy. As long as the CA is not known,
// no request is accepted as one of the proxy.
type lookedUp struct {
	*dynamiccertificates.ConfigMapCAController
	headers *headerrequest.RequestHeaderAuthRequestController
}

// RunOnce implements dynamiccertificates.ControllerRunner. It does not query the API server,
// which may not respond: Run does.
func (lookedUp) RunOnce(context.Context) error { return nil }

// Run implements dynamiccertificates.ControllerRunner.
func (l lookedUp) Run(ctx context.Context, workers int) {
	go l.headers.Run(ctx, workers)
	l.ConfigMapCAController.Run(ctx, workers)
}

// ReviewFiles returns the kubeconfigs that are used for reviews.
func ReviewFiles(c v1beta1.Serving) []string {
	if *c.Port == 0 {
		return nil
	}
	return slices.DeleteFunc([]string{c.Authentication.Kubeconfig, c.Authorization.Kubeconfig},
		func(name string) bool { return name == "" })
}
