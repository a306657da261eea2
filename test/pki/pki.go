// Package pki makes certificate authorities and certificate requests for tests.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kcmd.dev/test/must"
)

// Key makes a private key.
func Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// KeyPEM is a private key in PKCS#8.
func KeyPEM(t testing.TB, key crypto.PrivateKey) []byte {
	t.Helper()
	return encode("PRIVATE KEY", must.Get(x509.MarshalPKCS8PrivateKey(key))(t))
}

// Pair is the certificate of a CA, or what is meant to be one, and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// CA makes a CA that signs itself. It is valid from a day before to a year after now, unless
// edits change it.
func CA(t testing.TB, now time.Time, edits ...func(*x509.Certificate)) Pair {
	t.Helper()
	return CAOf(t, Key(t), now, edits...)
}

// CAOf is CA with a given key.
func CAOf(t testing.TB, key crypto.Signer, now time.Time, edits ...func(*x509.Certificate)) Pair {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test CA"},
		NotBefore:             now.Add(-24 * time.Hour),
		NotAfter:              now.Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	for _, edit := range edits {
		edit(template)
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return Pair{Cert: encode("CERTIFICATE", der), Key: KeyPEM(t, key)}
}

// Write writes a pair into a folder and returns the names of the files.
func (p Pair) Write(t testing.TB, folder string) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(folder, "ca.crt"), filepath.Join(folder, "ca.key")
	WriteFile(t, certFile, p.Cert)
	WriteFile(t, keyFile, p.Key)
	return certFile, keyFile
}

// WriteFile replaces a file in one step.
func WriteFile(t testing.TB, name string, content []byte) {
	t.Helper()
	must.Succeed(t, os.WriteFile(name+".new", content, 0o600))
	must.Succeed(t, os.Rename(name+".new", name))
}

// Request makes a certificate request.
func Request(t testing.TB, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	return encode("CERTIFICATE REQUEST", must.Get(x509.CreateCertificateRequest(rand.Reader, &template, key))(t))
}

// Parse returns the one certificate that there is in PEM.
func Parse(t testing.TB, data []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" || len(block.Headers) > 0 || len(rest) > 0 {
		t.Fatalf("not one certificate: %q", data)
	}
	return must.Get(x509.ParseCertificate(block.Bytes))(t)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
