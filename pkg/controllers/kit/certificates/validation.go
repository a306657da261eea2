package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	nodesGroup     = "system:nodes"
	nodeUserPrefix = "system:node:"
)

// The violations, which are the messages of conditions.
var (
	errOrganization = errors.New("subject organization is not system:nodes")
	errCommonName   = errors.New("subject common name does not begin with system:node:") //nolint:revive // shown in status
	errNoAddress    = errors.New("DNS or IP subjectAltName is required")
	errDNS          = errors.New("DNS subjectAltNames are not allowed")
	errEmail        = errors.New("Email subjectAltNames are not allowed")
	errIP           = errors.New("IP subjectAltNames are not allowed")
	errURI          = errors.New("URI subjectAltNames are not allowed")
	errServing      = errors.New("usages did not match [digital signature key encipherment server auth]")
	errClient       = errors.New("usages did not match [client auth digital signature key encipherment]")
	errNoClientAuth = errors.New("missing required usage for client certificate: client auth")
)

// ValidateKubeletServing returns why a request is not one for the serving certificate of a
// kubelet, nil if it is.
func ValidateKubeletServing(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(request):
		return errOrganization
	case len(request.DNSNames) == 0 && len(request.IPAddresses) == 0:
		return errNoAddress
	case len(request.EmailAddresses) > 0:
		return errEmail
	case len(request.URIs) > 0:
		return errURI
	case !signatureAnd(usages, certificatesv1.UsageServerAuth):
		return errServing
	case !strings.HasPrefix(request.Subject.CommonName, nodeUserPrefix):
		return errCommonName
	}
	return nil
}

// ValidateKubeletClient returns why a request is not one for the client certificate of a
// kubelet, nil if it is.
func ValidateKubeletClient(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(request):
		return errOrganization
	case len(request.DNSNames) > 0:
		return errDNS
	case len(request.EmailAddresses) > 0:
		return errEmail
	case len(request.IPAddresses) > 0:
		return errIP
	case len(request.URIs) > 0:
		return errURI
	case !strings.HasPrefix(request.Subject.CommonName, nodeUserPrefix):
		return errCommonName
	case !signatureAnd(usages, certificatesv1.UsageClientAuth):
		return errClient
	}
	return nil
}

// ValidateClient returns why a request is not one for the client certificate of a user, nil if
// it is. Which users there are is up to the approver.
func ValidateClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return errNoClientAuth
	}
	return nil
}

func ofNodes(request *x509.CertificateRequest) bool {
	return slices.Equal(request.Subject.Organization, []string{nodesGroup})
}

// signatureAnd reports whether usages are digital signature and one more, in any order, with or
// without key encipherment.
func signatureAnd(usages []certificatesv1.KeyUsage, required certificatesv1.KeyUsage) bool {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, required:
		default:
			return false
		}
	}
	return slices.Contains(usages, certificatesv1.UsageDigitalSignature) && slices.Contains(usages, required)
}
