package csrsigning

import (
	"crypto/x509"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/pkg/controllers/kit/certificates"
)

// profile defines which requests a signer accepts.
type profile struct {
	name     string
	validate func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error
}

// profiles lists the signers of Kubernetes.
var profiles = [...]profile{
	{certificatesv1.KubeletServingSignerName, certificates.ValidateKubeletServing},
	{certificatesv1.KubeAPIServerClientKubeletSignerName, certificates.ValidateKubeletClient},
	{certificatesv1.KubeAPIServerClientSignerName, certificates.ValidateClient},
	{certificatesv1beta1.LegacyUnknownSignerName, anything},
}

// anything accepts every request: the purpose of a legacy request is unknown.
func anything(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }

// signer is a profile with the CA that signs for it.
type signer struct {
	profile
	ca *ca
}

// equip gives each signer that has files its CA. Signers with the same files share one. It is an error if all CAs have
// expired. If some have, their signers wait, and the others sign.
func (c *signingController) equip(files [len(profiles)]authority.Files) error {
	byFiles := map[authority.Files]*ca{}
	for i, p := range profiles {
		if files[i] == (authority.Files{}) {
			c.skipped = append(c.skipped, p.name)
			continue
		}
		shared := byFiles[files[i]]
		if shared == nil {
			var err error
			if shared, err = loadCA(files[i], c.Clock.Now()); err != nil {
				return initFailed(p, err)
			}
			byFiles[files[i]] = shared
			c.cas = append(c.cas, shared)
		}
		c.signers[p.name] = &signer{profile: p, ca: shared}
	}
	return c.allExpired()
}

// allExpired returns the error of the first signer if all CAs have expired.
func (c *signingController) allExpired() error {
	var first error
	for _, p := range profiles {
		switch s := c.signers[p.name]; {
		case s == nil: // it has no files
		case s.ca.problem == nil:
			return nil
		case first == nil:
			first = initFailed(p, s.ca.problem)
		}
	}
	return first
}

func initFailed(p profile, err error) error {
	return fmt.Errorf("failed to init %s certificate controller: %w", p.name, err)
}

// signerOf returns the signer that has to sign a request now, or nil.
func (c *signingController) signerOf(csr *certificatesv1.CertificateSigningRequest) *signer {
	if certificates.Issued(csr) || !certificates.Approved(csr) || certificates.Failed(csr) {
		return nil
	}
	return c.signers[csr.Spec.SignerName]
}

func (c *signingController) hasSigner(csr *certificatesv1.CertificateSigningRequest) bool {
	return c.signerOf(csr) != nil
}
