package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// Parse returns what a request asks for. Its signature is not verified.
func Parse(csr *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, unparsable(csr, errors.New("PEM block type must be CERTIFICATE REQUEST"))
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, unparsable(csr, err)
	}
	return request, nil
}

func unparsable(csr *certificatesv1.CertificateSigningRequest, err error) error {
	return fmt.Errorf("unable to parse csr %q: %w", csr.Name, err)
}
