package csrsigning

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reasonViolation is the reason of the Failed condition.
const reasonViolation = "SignerValidationFailure"

func (c *signingController) reconcile(ctx context.Context, name string) error {
	csr, found, err := reconcile.Found(c.requests.Get(name))
	if !found {
		return err
	}
	signer := c.signerOf(csr)
	if signer == nil {
		return nil
	}
	request, err := certificates.Parse(csr)
	if err != nil {
		return err
	}
	if violation := signer.validate(request, csr.Spec.Usages); violation != nil {
		return c.fail(ctx, csr, violation)
	}
	now := c.Clock.Now()
	issued, err := issue(signer.ca.inForce.Load(), request, csr.Spec.Usages,
		lifetime(c.duration, csr.Spec.ExpirationSeconds), now)
	if err != nil {
		return fmt.Errorf("error auto signing csr: %w", err)
	}
	return c.deliver(ctx, csr, issued)
}

// fail adds the Failed condition to a request, which is final.
func (c *signingController) fail(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, violation error,
) error {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:           certificatesv1.CertificateFailed,
		Status:         corev1.ConditionTrue,
		Reason:         reasonViolation,
		Message:        violation.Error(),
		LastUpdateTime: metav1.NewTime(c.Clock.Now()),
	})
	if err := c.update(ctx, csr); err != nil {
		return fmt.Errorf("error adding failure condition for csr: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Refused to sign a CertificateSigningRequest",
		"csr", csr.Name, "signer", csr.Spec.SignerName, "violation", violation.Error())
	return nil
}

// deliver writes the certificate to the status of the request.
func (c *signingController) deliver(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, issued []byte,
) error {
	csr = csr.DeepCopy()
	csr.Status.Certificate = issued
	if err := c.update(ctx, csr); err != nil {
		return fmt.Errorf("error updating signature for csr: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Issued a certificate", "csr", csr.Name, "signer", csr.Spec.SignerName)
	return nil
}

func (c *signingController) update(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	_, err := c.Client.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{})
	return err
}
