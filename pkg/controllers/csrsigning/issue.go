package csrsigning

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"kcmd.dev/pkg/config/authority"
)

const (
	// backdate is how long before its issue a certificate becomes valid: the clocks of
	// verifiers may be behind.
	backdate = 5 * time.Minute
	// shortLived certificates do not end earlier for being backdated. They last less than this.
	shortLived = 8 * time.Hour
	// shortest is the minimum duration that a request can ask for.
	shortest = 10 * time.Minute
)

// serialNumbers is the exclusive upper bound of serial numbers.
var serialNumbers = new(big.Int).Lsh(big.NewInt(1), 128)

// issue returns a certificate, in PEM.
func issue(
	ca *authority.Authority, request *x509.CertificateRequest, usages []certificatesv1.KeyUsage, ttl time.Duration,
	now time.Time,
) ([]byte, error) {
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	serial, err := rand.Int(rand.Reader, serialNumbers)
	if err != nil {
		return nil, fmt.Errorf("unable to generate a serial number: %w", err)
	}
	template := templateOf(request)
	template.SerialNumber = serial
	if template.KeyUsage, template.ExtKeyUsage, err = keyUsages(usages); err != nil {
		return nil, err
	}
	if template.NotBefore, template.NotAfter, err = validity(ca.Certificate.NotAfter, ttl, now); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, request.PublicKey, ca.Key)
	if err != nil {
		return nil, fmt.Errorf("failed to sign certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// templateOf copies the subject, the names and the key of a request. The subject is encoded
// again, so that it has standard attributes only.
func templateOf(request *x509.CertificateRequest) *x509.Certificate {
	return &x509.Certificate{
		Subject:               request.Subject,
		DNSNames:              request.DNSNames,
		IPAddresses:           request.IPAddresses,
		EmailAddresses:        request.EmailAddresses,
		URIs:                  request.URIs,
		BasicConstraintsValid: true,
		IsCA:                  false,
	}
}

// lifetime returns the duration of a certificate.
func lifetime(longest time.Duration, requestedSeconds *int32) time.Duration {
	if requestedSeconds == nil {
		return longest
	}
	switch requested := time.Duration(*requestedSeconds) * time.Second; {
	case requested > longest:
		return longest
	case requested < shortest:
		return shortest
	default:
		return requested
	}
}

// validity returns when a certificate begins and ends, given the end of the CA.
func validity(end time.Time, ttl time.Duration, now time.Time) (notBefore, notAfter time.Time, err error) {
	notBefore, notAfter = now.Add(-backdate), now.Add(ttl)
	if ttl >= shortLived {
		notAfter = notAfter.Add(-backdate)
	}
	if !notAfter.Before(end) {
		notAfter = end
	}
	if !notBefore.Before(end) {
		return notBefore, notAfter, fmt.Errorf("the signer has expired: NotAfter=%v", end)
	}
	if !now.Before(end) {
		return notBefore, notAfter, fmt.Errorf("refusing to sign a certificate that expired in the past: NotAfter=%v", end)
	}
	return notBefore, notAfter, nil
}
