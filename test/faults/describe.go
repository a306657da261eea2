package faults

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// describeToken is what a token of an account says, which differs from run to run only in names and UIDs: base64 of a
// token becomes its header and its claims. What is no token is left as it is.
func describeToken(text string) string {
	token, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return text
	}
	header, err1 := base64.RawURLEncoding.DecodeString(parts[0])
	claims, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	if err1 != nil || err2 != nil {
		return text
	}
	return fmt.Sprintf("TOKEN %s %s", header, claims)
}

// lasts is how long a certificate may last that does not end with its CA.
const lasts = 300 * 24 * time.Hour

// describeCertificate is what a certificate says, base64 of its PEM text, without its number, its times and its
// signature.
func describeCertificate(text string) string {
	all, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	block, rest := pem.Decode(all)
	if block == nil {
		return text
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return text
	}
	duration := "until its CA ends"
	if d := c.NotAfter.Sub(c.NotBefore); d < lasts {
		duration = d.String()
	}
	described := fmt.Sprintf("CERTIFICATE %s v%d by %s of key %s for %x %s for %s, and %d bytes more",
		block.Type, c.Version, c.Issuer, c.PublicKeyAlgorithm, c.RawSubject, c.SignatureAlgorithm, duration, len(rest))
	for _, e := range c.Extensions {
		id := strings.ReplaceAll(e.Id.String(), ".", "-") // with dots it would be taken for an address
		described += fmt.Sprintf(", %s %t %x", id, e.Critical, e.Value)
	}
	return described
}
