// Package authority reads the certificate authority of a signer: a certificate and its private
// key, each in a PEM file of its own.
//
// The model, in rules:
//
//  1. What is read is a whole: a certificate and a key that belong together, the certificate
//     being the only one in its file, and that of a CA. Anything else is an error.
//  2. Whether it has expired depends on the time, and is checked separately.
//  3. An error names the file. What is in a file is never part of an error.
//
// The configuration is checked by the same functions that the controller reads its files with,
// so that both agree. Behaviour: docs/specs/certificatesigningrequest-signing-controller.md.
package authority

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Files names the files of an authority. It is comparable.
type Files struct{ Cert, Key string }

// String identifies the pair in messages, as every kube-controller-manager does.
func (f Files) String() string { return "csr-controller::" + f.Cert + "::" + f.Key }

// Authority is a CA that certificates are signed with.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer

	files     Files
	cert, key []byte // the contents of the files
}

// Read reads an authority.
func (f Files) Read() (*Authority, error) {
	if f.Cert == "" || f.Key == "" {
		return nil, f.certError(errors.New("missing filename for serving cert"))
	}
	certificate, err := os.ReadFile(f.Cert)
	if err != nil {
		return nil, f.certError(err)
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return nil, f.certError(err)
	}
	return f.Parse(certificate, key)
}

// Parse makes an authority of the contents of the files.
func (f Files) Parse(certificate, key []byte) (*Authority, error) {
	if len(certificate) == 0 || len(key) == 0 {
		return nil, f.certError(fmt.Errorf("missing content for serving cert %q", f))
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return nil, f.certError(err)
	}
	all, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("error reading CA cert file %q: %w", f, err)
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("error reading CA cert file %q: expected 1 certificate, found %d", f, len(all))
	}
	if !isCA(all[0]) {
		return nil, f.certError(errors.New("the certificate is not that of a CA"))
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(key)
	if err != nil {
		return nil, fmt.Errorf("error reading CA key file %q: %w", f, err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("error reading CA key file %q: key did not implement crypto.Signer", f)
	}
	// The pair above is the first block of each file, which need not be the ones that were found since.
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(all[0].PublicKey) {
		return nil, f.certError(errors.New("the private key is not that of the certificate"))
	}
	return &Authority{Certificate: all[0], Key: signer, files: f, cert: certificate, key: key}, nil
}

func (f Files) certError(err error) error {
	return fmt.Errorf("error reading CA cert file %q: %w", f.Cert, err)
}

// isCA follows what verifiers require of the signer of a certificate: one of version 3 has to say
// that it is a CA, and none may be limited to other uses.
func isCA(c *x509.Certificate) bool {
	if c.Version == 3 && !c.BasicConstraintsValid || c.BasicConstraintsValid && !c.IsCA {
		return false
	}
	return c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageCertSign != 0
}

// Expired is an error that names the file if the certificate is not valid any more.
func (a *Authority) Expired(now time.Time) error {
	if now.After(a.Certificate.NotAfter) {
		return a.files.certError(fmt.Errorf("the certificate has expired: NotAfter=%v", a.Certificate.NotAfter))
	}
	return nil
}

// Equal reports that two authorities were read from the same contents.
func (a *Authority) Equal(other *Authority) bool {
	return bytes.Equal(a.cert, other.cert) && bytes.Equal(a.key, other.key)
}
