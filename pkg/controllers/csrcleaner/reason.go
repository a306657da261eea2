package csrcleaner

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/certificates"
)

// How long a request is kept.
const (
	issuedKept   = time.Hour
	deniedKept   = time.Hour
	failedKept   = time.Hour
	pendingKept  = 24 * time.Hour
	approvedKept = 24 * time.Hour // without a certificate
)

// Why requests are deleted.
const (
	issuedLongAgo   = "issued"
	deniedLongAgo   = "denied"
	failedLongAgo   = "failed"
	pendingTooLong  = "pending"
	expired         = "the certificate has expired"
	approvedLongAgo = "approved, but not issued"
)

// reason returns why a request has to be deleted now, empty if it is kept.
func reason(csr *certificatesv1.CertificateSigningRequest, now time.Time) string {
	issued := certificates.Issued(csr)
	switch {
	case issued && decidedBefore(csr, certificatesv1.CertificateApproved, now.Add(-issuedKept)):
		return issuedLongAgo
	case decidedBefore(csr, certificatesv1.CertificateDenied, now.Add(-deniedKept)):
		return deniedLongAgo
	case decidedBefore(csr, certificatesv1.CertificateFailed, now.Add(-failedKept)):
		return failedLongAgo
	case len(csr.Status.Conditions) == 0 && before(csr.CreationTimestamp, now.Add(-pendingKept)):
		return pendingTooLong
	case issued && certificates.Has(csr, certificatesv1.CertificateApproved) && hasExpired(csr.Status.Certificate, now):
		return expired
	case !issued && decidedBefore(csr, certificatesv1.CertificateApproved, now.Add(-approvedKept)):
		return approvedLongAgo
	}
	return ""
}

// decidedBefore reports whether a condition of a type was updated before a time. A condition
// without a time was not.
func decidedBefore(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, at time.Time) bool {
	return slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == kind && before(c.LastUpdateTime, at)
	})
}

func before(t metav1.Time, at time.Time) bool { return !t.IsZero() && t.Time.Before(at) }

// hasExpired reports whether the first certificate in PEM has expired. Data that cannot be
// parsed has not.
func hasExpired(data []byte, now time.Time) bool {
	block, _ := pem.Decode(data)
	if block == nil {
		return false
	}
	all, err := x509.ParseCertificates(block.Bytes)
	return err == nil && len(all) > 0 && now.After(all[0].NotAfter)
}
