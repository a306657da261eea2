package csrapproving

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

// reasonApproved is the reason of the Approved condition.
const reasonApproved = "AutoApproved"

func (a *approver) reconcile(ctx context.Context, name string) error {
	csr, found, err := reconcile.Found(a.requests.Get(name))
	if !found || !isCandidate(csr) {
		return err
	}
	request, err := certificates.Parse(csr)
	if err != nil {
		return err
	}
	var tried []string
	for _, k := range recognise(csr, request) {
		allowed, err := a.allowed(ctx, csr, k)
		if err != nil {
			return err
		}
		if allowed {
			return a.approve(ctx, csr, k)
		}
		tried = append(tried, k.subresource)
	}
	if len(tried) > 0 {
		return reconcile.Requeue(fmt.Errorf("recognized csr %q as %v but subject access review was not approved", name, tried))
	}
	return nil
}

func (a *approver) allowed(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, k kind) (bool, error) {
	answer, err := a.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review(csr, k), metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

func (a *approver) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, k kind) error {
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:    certificatesv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  reasonApproved,
		Message: k.message,
	})
	if _, err := a.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("error updating approval for csr: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Approved a CertificateSigningRequest", "csr", csr.Name, "as", k.subresource)
	return nil
}
