package serving

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/curves"
	"kcmd.dev/pkg/config/v1beta1"
)

// generated is a self-signed pair that is kept in memory. It stays the same as long as it is
// valid for the address.
type generated struct {
	address string
	pair    dynamiccertificates.CertKeyContentProvider
}

// certificates loads the serving certificates. The providers follow their files, and keep the
// old content if the new one is invalid. If it fails, the result has those that were loaded.
func certificates(c v1beta1.Serving, last *generated) (*server.SecureServingInfo, *generated, error) {
	in := &server.SecureServingInfo{}
	cert, last, err := defaultCertificate(c, last)
	if err != nil {
		return in, nil, err
	}
	in.Cert = cert
	for n, pair := range c.TLS.SNICertificates {
		content, err := dynamicPair(pair.CertFile, pair.PrivateKeyFile, func() (dynamiccertificates.SNICertKeyContentProvider, error) {
			return dynamiccertificates.NewDynamicSNIContentFromFiles("sni-serving-cert", pair.CertFile, pair.PrivateKeyFile, pair.Names...)
		})
		if err != nil {
			return in, nil, blame(sniField(n), fmt.Errorf("loading the certificate %s for names: %w", pair.CertFile, err))
		}
		in.SNICerts = append(in.SNICerts, content)
	}
	if in.MinTLSVersion, err = cliflag.TLSVersion(c.TLS.MinVersion); err != nil {
		return in, nil, fmt.Errorf("reading the minimum TLS version: %w", err)
	}
	if len(c.TLS.CipherSuites) > 0 {
		if in.CipherSuites, err = cliflag.TLSCipherSuites(c.TLS.CipherSuites); err != nil {
			return in, nil, fmt.Errorf("reading the cipher suites: %w", err)
		}
	}
	for _, name := range c.TLS.CurvePreferences {
		curve, ok := curves.ID(name)
		if !ok {
			return in, nil, fmt.Errorf("reading the curve preferences: %q is unknown", name)
		}
		in.CurvePreferences = append(in.CurvePreferences, curve)
	}
	return in, last, nil
}

// defaultCertificate returns the certificate for clients that request no name with a
// certificate of its own.
func defaultCertificate(c v1beta1.Serving, last *generated) (dynamiccertificates.CertKeyContentProvider, *generated, error) {
	inMemory := c.TLS.CertFile == "" && c.TLS.CertDirectory == ""
	if inMemory && last != nil && last.address == c.BindAddress {
		return last.pair, last, nil
	}
	o := options.NewSecureServingOptions()
	o.BindAddress, o.BindPort = net.ParseIP(c.BindAddress), int(*c.Port)
	o.ServerCert.CertKey = options.CertKey{CertFile: c.TLS.CertFile, KeyFile: c.TLS.PrivateKeyFile}
	o.ServerCert.CertDirectory, o.ServerCert.PairName = c.TLS.CertDirectory, component
	if err := o.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, nil, blame(certificateField(c), fmt.Errorf("creating a self-signed certificate: %w", err))
	}
	if pair := o.ServerCert.GeneratedCert; pair != nil {
		return pair, &generated{address: c.BindAddress, pair: pair}, nil
	}
	files := o.ServerCert.CertKey
	pair, err := dynamicPair(files.CertFile, files.KeyFile, func() (dynamiccertificates.CertKeyContentProvider, error) {
		return dynamiccertificates.NewDynamicServingContentFromFiles("serving-cert", files.CertFile, files.KeyFile)
	})
	if err != nil {
		return nil, nil, blame(certificateField(c), fmt.Errorf("loading the serving certificate: %w", err))
	}
	return pair, last, nil
}

// dynamicPair makes what follows the files of a certificate and its key, if they can be used: failing, it would leave the
// goroutines of its queue behind.
func dynamicPair[P any](certFile, keyFile string, follow func() (P, error)) (none P, err error) {
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		return none, err
	}
	return follow()
}

// certificateField is the field that says where the certificate is.
func certificateField(c v1beta1.Serving) string {
	if c.TLS.CertFile != "" {
		return "serving.tls.certFile"
	}
	return "serving.tls.certDirectory"
}

// negotiate returns the TLS configuration of a listener. Until ctx ends, it follows the
// files and objects that its content comes from; new handshakes use what is newest.
func negotiate(ctx context.Context, in *server.SecureServingInfo) *tls.Config {
	c := &tls.Config{
		MinVersion:       max(in.MinTLSVersion, tls.VersionTLS10),
		CipherSuites:     in.CipherSuites,
		CurvePreferences: in.CurvePreferences,
		NextProtos:       []string{"h2", "http/1.1"},
	}
	if in.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	if in.ClientCA != nil {
		// A client without a certificate may have a token.
		c.ClientAuth = tls.RequestClientCert
	}
	content := dynamiccertificates.NewDynamicServingCertificateController(c, in.ClientCA, in.Cert, in.SNICerts, nil)
	follow := func(provider any) {
		if p, ok := provider.(interface {
			AddListener(dynamiccertificates.Listener)
		}); ok {
			p.AddListener(content)
		}
		p, ok := provider.(dynamiccertificates.ControllerRunner)
		if !ok {
			return
		}
		if err := p.RunOnce(ctx); err != nil {
			klog.FromContext(ctx).Info("Certificates are not complete yet", "problem", err.Error())
		}
		go p.Run(ctx, 1)
	}
	if in.ClientCA != nil {
		follow(in.ClientCA)
	}
	follow(in.Cert)
	for _, pair := range in.SNICerts {
		follow(pair)
	}
	if err := content.RunOnce(); err != nil {
		klog.FromContext(ctx).Info("Certificates are not complete yet", "problem", err.Error())
	}
	go content.Run(1, ctx.Done())
	c.GetConfigForClient = content.GetConfigForClient
	return c
}
