package satoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/util/keyutil"
)

// Claims of a legacy service account token. There is no time claim: such a token is valid as
// long as its Secret holds it.
const (
	issuer           = "kubernetes/serviceaccount"
	issuerClaim      = "iss"
	subjectClaim     = "sub"
	namespaceClaim   = "kubernetes.io/serviceaccount/namespace"
	secretNameClaim  = "kubernetes.io/serviceaccount/secret.name"
	accountNameClaim = "kubernetes.io/serviceaccount/service-account.name"
	accountUIDClaim  = "kubernetes.io/serviceaccount/service-account.uid"
)

// signer signs tokens with a private key. It is safe for concurrent use.
type signer struct{ jose jose.Signer }

// loadSigner returns a signer with the private key in a PEM file.
func loadSigner(file string) (*signer, error) {
	privateKey, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading service account private key file %s: %w", file, err)
	}
	s, err := newSigner(privateKey)
	if err != nil {
		return nil, fmt.Errorf("using the key in service account private key file %s: %w", file, err)
	}
	return s, nil
}

func newSigner(privateKey any) (*signer, error) {
	algorithm, err := algorithmOf(privateKey)
	if err != nil {
		return nil, err
	}
	id, err := keyID(privateKey.(crypto.Signer).Public())
	if err != nil {
		return nil, err
	}
	s, err := jose.NewSigner(jose.SigningKey{
		Algorithm: algorithm,
		Key:       jose.JSONWebKey{Key: privateKey, KeyID: id, Algorithm: string(algorithm), Use: "sig"},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a signer: %w", err)
	}
	return &signer{s}, nil
}

func algorithmOf(privateKey any) (jose.SignatureAlgorithm, error) {
	switch k := privateKey.(type) {
	case *rsa.PrivateKey:
		return jose.RS256, nil
	case *ecdsa.PrivateKey:
		switch k.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", fmt.Errorf("unknown curve %s, must be P-256, P-384 or P-521", k.Curve.Params().Name)
	}
	return "", fmt.Errorf("unknown private key type %T, must be RSA or ECDSA", privateKey)
}

// keyID returns the ID by which verifiers find a public key.
func keyID(publicKey crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return "", fmt.Errorf("serializing the public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// sign returns the token of an account for a Secret.
func (s *signer) sign(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	payload, err := json.Marshal(claims(account, secret))
	if err != nil {
		return "", fmt.Errorf("serializing claims: %w", err)
	}
	signed, err := s.jose.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("signing claims: %w", err)
	}
	return signed.CompactSerialize()
}

func claims(account *corev1.ServiceAccount, secret *corev1.Secret) map[string]string {
	return map[string]string{
		issuerClaim:      issuer,
		subjectClaim:     serviceaccount.MakeUsername(account.Namespace, account.Name),
		namespaceClaim:   account.Namespace,
		secretNameClaim:  secret.Name,
		accountNameClaim: account.Name,
		accountUIDClaim:  string(account.UID),
	}
}
