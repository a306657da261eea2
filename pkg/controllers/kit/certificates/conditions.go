package certificates

import (
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
)

// Has reports whether a request has a condition of a type, whatever its status.
func Has(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == kind
	})
}

// Decided reports whether a request was approved or denied.
func Decided(csr *certificatesv1.CertificateSigningRequest) bool {
	return Has(csr, certificatesv1.CertificateApproved) || Has(csr, certificatesv1.CertificateDenied)
}

// Approved reports whether a request was approved, and not denied.
func Approved(csr *certificatesv1.CertificateSigningRequest) bool {
	return Has(csr, certificatesv1.CertificateApproved) && !Has(csr, certificatesv1.CertificateDenied)
}

// Failed reports whether a request has failed permanently. A condition without a status counts
// as true.
func Failed(csr *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateFailed && (c.Status == "" || c.Status == corev1.ConditionTrue)
	})
}

// Issued reports whether a request has its certificate.
func Issued(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) > 0
}
