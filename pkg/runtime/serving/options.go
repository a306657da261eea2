package serving

import (
	"context"
	"fmt"
	"net"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"

	"kcmd.dev/pkg/config/v1beta1"
)

// infos are what an HTTPS server is made from.
type infos struct {
	serving        *server.SecureServingInfo
	authentication server.AuthenticationInfo
	authorization  server.AuthorizationInfo
}

// build opens the listener and looks up who may do what.
func build(c v1beta1.Serving) (*infos, error) {
	secure := secureServing(c)
	if err := secure.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("making a self-signed certificate: %w", err)
	}
	var in infos
	if err := secure.ApplyTo(&in.serving); err != nil {
		return nil, fmt.Errorf("opening the secure port: %w", err)
	}
	if err := in.authenticateBy(c.Authentication); err != nil {
		return nil, in.closed(fmt.Errorf("setting up authentication: %w", err))
	}
	if err := in.authorizeBy(c.Authorization); err != nil {
		return nil, in.closed(fmt.Errorf("setting up authorization: %w", err))
	}
	if in.serving.ClientCA != nil {
		in.serving.ClientCA = unhinted{in.serving.ClientCA}
	}
	return &in, nil
}

// unhinted keeps the names of the client CAs from clients. They are read from the API
// server after the listener is open, in parts, and a client that is told of some sends no
// certificate of another: its connection would be anonymous for good. Without any name it
// sends what it has, and each request is judged by what is known then.
type unhinted struct {
	dynamiccertificates.CAContentProvider
}

// CurrentCABundleContent is what the listener tells clients.
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

// closed closes the listener of a server that does not come to be.
func (in *infos) closed(cause error) error {
	_ = in.serving.Listener.Close()
	return cause
}

func secureServing(c v1beta1.Serving) *options.SecureServingOptions {
	o := options.NewSecureServingOptions()
	o.BindAddress = net.ParseIP(c.BindAddress)
	o.BindPort = int(*c.Port)
	o.ServerCert.CertKey = options.CertKey{CertFile: c.TLS.CertFile, KeyFile: c.TLS.PrivateKeyFile}
	o.ServerCert.CertDirectory = c.TLS.CertDirectory
	o.ServerCert.PairName = "kube-controller-manager"
	o.MinTLSVersion = c.TLS.MinVersion
	o.CipherSuites = c.TLS.CipherSuites
	return o
}

func (in *infos) authenticateBy(c v1beta1.Authentication) error {
	o := options.NewDelegatingAuthenticationOptions()
	o.RemoteKubeConfigFile = c.Kubeconfig
	o.RemoteKubeConfigFileOptional = true
	o.CacheTTL = c.CacheTTL.Duration
	o.ClientCert.ClientCA = c.ClientCAFile
	o.SkipInClusterLookup = *c.SkipLookup
	o.TolerateInClusterLookupFailure = *c.TolerateLookupFailure
	o.RequestHeader.ClientCAFile = c.RequestHeader.ClientCAFile
	o.RequestHeader.UsernameHeaders = c.RequestHeader.UsernameHeaders
	o.RequestHeader.UIDHeaders = c.RequestHeader.UIDHeaders
	o.RequestHeader.GroupHeaders = c.RequestHeader.GroupHeaders
	o.RequestHeader.ExtraHeaderPrefixes = c.RequestHeader.ExtraHeaderPrefixes
	o.RequestHeader.AllowedNames = c.RequestHeader.AllowedNames
	return o.ApplyTo(&in.authentication, in.serving, nil)
}

func (in *infos) authorizeBy(c v1beta1.Authorization) error {
	o := options.NewDelegatingAuthorizationOptions()
	o.RemoteKubeConfigFile = c.Kubeconfig
	o.RemoteKubeConfigFileOptional = true
	o.AllowCacheTTL = c.AuthorizedTTL.Duration
	o.DenyCacheTTL = c.UnauthorizedTTL.Duration
	o.AlwaysAllowPaths = c.AlwaysAllowPaths
	o.AlwaysAllowGroups = []string{"system:masters"}
	return o.ApplyTo(&in.authorization)
}
