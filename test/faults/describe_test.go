package faults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"kcmd.dev/test/must"
)

func TestDescribeToken(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + ".c2ln"
	for name, c := range map[string]struct{ text, want string }{
		"a token":             {encode([]byte(token)), `TOKEN {"alg":"ES256"} {"sub":"x"}`},
		"one of a user":       {encode([]byte("mine")), encode([]byte("mine"))},
		"what is not encoded": {"a.b.c", "a.b.c"},
		"no base64 in it":     {encode([]byte("!.!.!")), encode([]byte("!.!.!"))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describeToken(c.text); got != c.want {
				t.Errorf("it is %q, want %q", got, c.want)
			}
		})
	}
}

// issuedCertificate is base64 of the PEM text of a certificate.
func issuedCertificate(t *testing.T, change func(*x509.Certificate)) string {
	t.Helper()
	key := must.Get(certificateKey())(t)
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: now, NotAfter: now.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature}
	change(template)
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// certificateKey is that of all certificates.
var certificateKey = sync.OnceValues(func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })

// TestDescribeCertificate has what counts in a certificate differ, and what does not.
func TestDescribeCertificate(t *testing.T) {
	describe := func(change func(*x509.Certificate)) string { return describeCertificate(issuedCertificate(t, change)) }
	same := describe(func(*x509.Certificate) {})
	for name, c := range map[string]struct {
		change func(*x509.Certificate)
		equal  bool
	}{
		"the number": {func(c *x509.Certificate) { c.SerialNumber = big.NewInt(2) }, true},
		"the time": {func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = c.NotBefore.Add(time.Minute), c.NotAfter.Add(time.Minute)
		}, true},
		"the duration": {func(c *x509.Certificate) { c.NotAfter = c.NotAfter.Add(time.Minute) }, false},
		"the subject":  {func(c *x509.Certificate) { c.Subject.CommonName = "y" }, false},
		"the usages":   {func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }, false},
		"an extension": {func(c *x509.Certificate) { c.DNSNames = []string{"a"} }, false},
		"being a CA":   {func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describe(c.change); (got == same) != c.equal {
				t.Errorf("%q and %q: whether they are equal has to be %v", same, got, c.equal)
			}
		})
	}
	if got := describeCertificate("x"); got != "x" {
		t.Errorf("what is no certificate is described as %q", got)
	}
}
