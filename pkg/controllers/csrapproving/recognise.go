package csrapproving

import (
	"crypto/x509"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"kcmd.dev/pkg/controllers/kit/certificates"
)

// kind is a kind of request that can be approved.
type kind struct {
	// subresource stands for the kind: requests of users who may create it are approved.
	subresource string
	// message is the message of the approval.
	message string
}

var (
	selfNodeClient = kind{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}
	nodeClient     = kind{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
)

// isCandidate reports whether a request may be approved, as far as is known without parsing it.
func isCandidate(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && !certificates.Issued(csr) && !certificates.Decided(csr)
}

// recognise returns the kinds of a candidate, in the order in which they are reviewed.
func recognise(csr *certificatesv1.CertificateSigningRequest, request *x509.CertificateRequest) []kind {
	switch {
	case certificates.ValidateKubeletClient(request, csr.Spec.Usages) != nil:
		return nil
	case csr.Spec.Username == request.Subject.CommonName:
		return []kind{selfNodeClient, nodeClient}
	default:
		return []kind{nodeClient}
	}
}

// review returns the review of whether the requester may have a request approved as of a kind.
func review(csr *certificatesv1.CertificateSigningRequest, k kind) *authorizationv1.SubjectAccessReview {
	extra := make(map[string]authorizationv1.ExtraValue, len(csr.Spec.Extra))
	for name, values := range csr.Spec.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	return &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:   csr.Spec.Username,
			UID:    csr.Spec.UID,
			Groups: csr.Spec.Groups,
			Extra:  extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group:       certificatesv1.GroupName,
				Version:     "*",
				Resource:    "certificatesigningrequests",
				Verb:        "create",
				Subresource: k.subresource,
			},
		},
	}
}
