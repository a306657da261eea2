package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// certificateLifetime outlives any sandbox; certificates start an hour early so
// that a clock set back does not matter.
const certificateLifetime = 365 * 24 * time.Hour

// keyPair is a certificate and its private key, PEM encoded.
type keyPair struct {
	cert, key []byte
}

func (p keyPair) write(certFile, keyFile string) error {
	if err := os.WriteFile(certFile, p.cert, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(keyFile, p.key, 0o600); err != nil {
		return fmt.Errorf("writing a private key: %w", err)
	}
	return nil
}

// authority is a certificate authority made for one control plane.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority(commonName string) (*authority, error) {
	template := certificateTemplate(pkix.Name{CommonName: commonName})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	pair, key, err := sign(template, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating the authority %s: %w", commonName, err)
	}
	block, _ := pem.Decode(pair.cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("creating the authority %s: %w", commonName, err)
	}
	return &authority{keyPair: pair, parsed: parsed, signer: key}, nil
}

// client issues a client certificate; the API server reads the common name as
// user and the organizations as groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	pair, _, err := sign(template, a.parsed, a.signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a client certificate for %s: %w", user, err)
	}
	return pair, nil
}

// server issues a serving certificate for loopback and the given names. It is
// also good for clients: etcd's gateway dials etcd itself with it.
func (a *authority) server(commonName string, names []string, addresses ...string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: commonName})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = append([]string{"localhost"}, names...)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	pair, _, err := sign(template, a.parsed, a.signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing a serving certificate for %s: %w", commonName, err)
	}
	return pair, nil
}

// ServingCertificate issues a certificate for a server on loopback that clients of the
// API server trust.
func (c *ControlPlane) ServingCertificate(commonName string) (tls.Certificate, error) {
	pair, err := c.credentials.cluster.server(commonName, nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	certificate, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issuing a serving certificate for %s: %w", commonName, err)
	}
	return certificate, nil
}

func certificateTemplate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(certificateLifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// sign creates a P-256 key and a certificate for it; without a parent the
// certificate signs itself.
func sign(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (keyPair, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, nil, err
	}
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return keyPair{}, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, nil, err
	}
	return keyPair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, key, nil
}

// newServiceAccountKey returns the RSA key that signs service account tokens
// (RS256, what clusters set up by kubeadm use) as private and public PEM.
func newServiceAccountKey() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the service account key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("creating the service account key: %w", err)
	}
	private = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	public = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	return private, public, nil
}
