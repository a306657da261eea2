package satoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/cert"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
)

func ecdsaKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func rsaKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Pins SAT-41, SAT-42, SAT-43, SAT-44, SAT-45, SAT-46, SAT-47 and SAT-48.
func TestTokenFormat(t *testing.T) {
	for name, tc := range map[string]struct {
		key       crypto.Signer
		algorithm jose.SignatureAlgorithm
	}{
		"RSA":   {rsaKey(t), jose.RS256},
		"P-256": {ecdsaKey(t, elliptic.P256()), jose.ES256},
		"P-384": {ecdsaKey(t, elliptic.P384()), jose.ES384},
		"P-521": {ecdsaKey(t, elliptic.P521()), jose.ES512},
	} {
		t.Run(name, func(t *testing.T) {
			s := must.Get(newSigner(tc.key))(t)
			token, err := s.sign(account("sa", "u1"), secret("s", "u1"))
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.MarshalPKIXPublicKey(tc.key.Public())
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(der)
			header := fmt.Sprintf(`{"alg":"%s","kid":"%s"}`, tc.algorithm, base64.RawURLEncoding.EncodeToString(sum[:]))
			const payload = `{"iss":"kubernetes/serviceaccount",` +
				`"kubernetes.io/serviceaccount/namespace":"ns",` +
				`"kubernetes.io/serviceaccount/secret.name":"s",` +
				`"kubernetes.io/serviceaccount/service-account.name":"sa",` +
				`"kubernetes.io/serviceaccount/service-account.uid":"u1",` +
				`"sub":"system:serviceaccount:ns:sa"}`
			parts := strings.Split(token, ".")
			if len(parts) != 3 {
				t.Fatalf("token has %d parts: %s", len(parts), token)
			}
			for i, want := range []string{header, payload} {
				got, err := base64.RawURLEncoding.DecodeString(parts[i])
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != want {
					t.Errorf("part %d = %s, want %s", i, got, want)
				}
			}
			parsed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{tc.algorithm})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parsed.Verify(tc.key.Public()); err != nil {
				t.Errorf("signature does not verify: %v", err)
			}
		})
	}
}

// Pins SAT-4.
func TestSignerRefusesOtherKeys(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]any{
		"Ed25519":   edwards,
		"P-224":     ecdsaKey(t, elliptic.P224()),
		"no key":    nil,
		"wrong way": &rsaKey(t).PublicKey,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newSigner(k); err == nil {
				t.Error("newSigner accepts the key")
			}
		})
	}
}

func TestSignerIsSafeForConcurrentUse(t *testing.T) {
	s := must.Get(newSigner(ecdsaKey(t, elliptic.P256())))(t)
	var signers sync.WaitGroup
	for range 8 {
		signers.Go(func() {
			if _, err := s.sign(account("sa", "u1"), secret("s", "u1")); err != nil {
				t.Error(err)
			}
		})
	}
	signers.Wait()
}

func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// keyPEM is a private key file as openssl writes it.
func keyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(ecdsaKey(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	return append(block("EC PARAMETERS", []byte{6, 8}), block("EC PRIVATE KEY", der)...)
}

// Pins SAT-12.
func TestLoadSigner(t *testing.T) {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ecdsaKey(t, elliptic.P384()))
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	unsupported, err := x509.MarshalPKCS8PrivateKey(edwards)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		content []byte
		fails   bool
	}{
		"EC after its parameters":      {keyPEM(t), false},
		"PKCS#1":                       {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey(t))), false},
		"PKCS#8":                       {block("PRIVATE KEY", pkcs8), false},
		"first block that parses wins": {append(block("RSA PRIVATE KEY", []byte("x")), block("PRIVATE KEY", pkcs8)...), false},
		"unsupported key":              {block("PRIVATE KEY", unsupported), true},
		"no key":                       {[]byte("junk"), true},
		"an empty file":                {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, tc.content)
			_, err := loadSigner(file)
			if (err != nil) != tc.fails {
				t.Fatalf("loadSigner = %v, want failure %v", err, tc.fails)
			}
			if tc.fails && !strings.Contains(err.Error(), file) {
				t.Errorf("error %q does not name the file", err)
			}
		})
	}
	if _, err := loadSigner(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("loadSigner accepts a missing file")
	}
}

func caPEM(t testing.TB) []byte {
	t.Helper()
	ca := must.Get(cert.NewSelfSignedCACert(cert.Config{CommonName: "ca"}, ecdsaKey(t, elliptic.P256())))(t)
	encoded, err := cert.EncodeCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// Pins SAT-10 and SAT-11.
func TestLoadCA(t *testing.T) {
	// The comment must survive: the bytes of the file are published, not what was parsed.
	ca := append([]byte("# internal CA\n"), caPEM(t)...)
	for name, tc := range map[string]struct {
		file, inline, want string
		fails              bool
	}{
		"bytes of the file":    {file: write(t, ca), inline: "inline", want: string(ca)},
		"inline data":          {inline: "inline", want: "inline"},
		"nothing at all":       {},
		"no certificate in it": {file: write(t, []byte("junk")), inline: "inline", fails: true},
		"missing file":         {file: filepath.Join(t.TempDir(), "nothing"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := controller.Env{ClusterCA: []byte(tc.inline)}.CABundle(tc.file)
			if (err != nil) != tc.fails {
				t.Fatalf("CABundle = %v, want failure %v", err, tc.fails)
			}
			if tc.fails && !strings.HasPrefix(err.Error(), "error parsing root-ca-file at "+tc.file+": ") {
				t.Errorf("error %q does not name the file", err)
			}
			if string(got) != tc.want {
				t.Errorf("CA = %q, want %q", got, tc.want)
			}
		})
	}
}
