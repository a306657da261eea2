package authority_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

func TestRead(t *testing.T) {
	now := time.Now()
	good, other := pki.CA(t, now), pki.CA(t, now)
	edited := func(edit func(*x509.Certificate)) pki.Pair { return pki.CA(t, now, edit) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	withHeader := func(data []byte) []byte {
		block, _ := pem.Decode(data)
		block.Headers = map[string]string{"a": "b"}
		return pem.EncodeToMemory(block)
	}
	retyped := func(data []byte) []byte {
		found, _ := pem.Decode(data)
		return block("ANY PRIVATE KEY", found.Bytes)
	}
	leaf := edited(func(c *x509.Certificate) { c.IsCA = false })
	unmarked := edited(func(c *x509.Certificate) { c.BasicConstraintsValid = false })
	limited := edited(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature })
	free := edited(func(c *x509.Certificate) { c.KeyUsage = 0 })
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must.Succeed(t, err)
	ofRSA, ofEd := pki.CAOf(t, rsaKey, now), pki.CAOf(t, edKey, now)
	ecKey := pki.Key(t)
	ofEC := pki.CAOf(t, ecKey, now)
	for name, tc := range map[string]struct {
		cert, key []byte
		err       string
	}{
		"CSRS-41: a pair":                      {good.Cert, good.Key, ""},
		"CSRS-41: a key in PKCS#1":             {ofRSA.Cert, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), ""},
		"CSRS-41: a key in SEC 1":              {ofEC.Cert, sec1(t, ecKey), ""},
		"CSRS-41: parameters before the key":   {ofEC.Cert, join(block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}), sec1(t, ecKey)), ""},
		"CSRS-41: an Ed25519 key":              {ofEd.Cert, ofEd.Key, ""},
		"CSRS-41: something besides":           {join(block("COMMENT", []byte("x")), good.Cert), good.Key, ""},
		"CSRS-41: no limit of usages":          {free.Cert, free.Key, ""},
		"CSRS-41, CSRS-50: two certificates":   {join(good.Cert, other.Cert), good.Key, `error reading CA cert file "csr-controller::CERT::KEY": expected 1 certificate, found 2`},
		"CSRS-41: a certificate with headers":  {withHeader(good.Cert), good.Key, `error reading CA cert file "csr-controller::CERT::KEY": data does not contain any valid RSA or ECDSA certificates`},
		"CSRS-4e: the key of another":          {good.Cert, other.Key, `error reading CA cert file "CERT": tls: private key does not match public key`},
		"CSRS-4e: an empty certificate":        {nil, good.Key, `error reading CA cert file "CERT": missing content for serving cert "csr-controller::CERT::KEY"`},
		"CSRS-4e: an empty key":                {good.Cert, nil, `error reading CA cert file "CERT": missing content for serving cert "csr-controller::CERT::KEY"`},
		"CSRS-4e: half a certificate":          {good.Cert[:len(good.Cert)/2], good.Key, `error reading CA cert file "CERT": tls: failed to find any PEM data in certificate input`},
		"CSRS-4e: half a key":                  {good.Cert, good.Key[:len(good.Key)/2], `error reading CA cert file "CERT": tls: failed to find any PEM data in key input`},
		"CSRS-4e: the files are interchanged":  {good.Key, good.Cert, `error reading CA cert file "CERT": tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched`},
		"CSRS-65: the second certificate":      {join(withHeader(good.Cert), other.Cert), good.Key, `error reading CA cert file "CERT": the private key is not that of the certificate`},
		"CSRS-65: the second key":              {good.Cert, join(retyped(good.Key), other.Key), `error reading CA cert file "CERT": the private key is not that of the certificate`},
		"CSRS-59: no CA":                       {leaf.Cert, leaf.Key, `error reading CA cert file "CERT": the certificate is not that of a CA`},
		"CSRS-59: does not say that it is one": {unmarked.Cert, unmarked.Key, `error reading CA cert file "CERT": the certificate is not that of a CA`},
		"CSRS-59: must not sign":               {limited.Cert, limited.Key, `error reading CA cert file "CERT": the certificate is not that of a CA`},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			certFile, keyFile := pki.Pair{Cert: tc.cert, Key: tc.key}.Write(t, folder)
			read, err := authority.Files{Cert: certFile, Key: keyFile}.Read()
			if got := message(err, certFile, keyFile); got != tc.err {
				t.Errorf("error %s, want %s", got, tc.err)
			}
			if (read == nil) != (tc.err != "") || read != nil && read.Key == nil {
				t.Errorf("read %v", read)
			}
			reveals(t, err, tc.key)
		})
	}
}

func message(err error, certFile, keyFile string) string {
	if err == nil {
		return ""
	}
	return strings.NewReplacer(certFile, "CERT", keyFile, "KEY").Replace(err.Error())
}

// reveals fails if an error has a line of a key.
func reveals(t *testing.T, err error, key []byte) {
	t.Helper()
	if err == nil {
		return
	}
	for line := range strings.Lines(string(key)) {
		line = strings.TrimSpace(line)
		if len(line) > 8 && !strings.HasPrefix(line, "-----") &&
			(strings.Contains(err.Error(), line) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte(line)))) {
			t.Errorf("the error has a part of the key: %v", err)
		}
	}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func sec1(t *testing.T, key *ecdsa.PrivateKey) []byte {
	return block("EC PRIVATE KEY", must.Get(x509.MarshalECPrivateKey(key))(t))
}

// Pins CSRS-4e.
func TestFilesThatAreNotThere(t *testing.T) {
	folder := t.TempDir()
	gone := filepath.Join(folder, "gone")
	certFile, keyFile := pki.CA(t, time.Now()).Write(t, folder)
	for name, tc := range map[string]struct {
		files authority.Files
		err   string
	}{
		"no name of the key":         {authority.Files{Cert: certFile}, `error reading CA cert file "CERT": missing filename for serving cert`},
		"no name of the certificate": {authority.Files{Key: keyFile}, `error reading CA cert file "": missing filename for serving cert`},
		"no certificate":             {authority.Files{Cert: gone, Key: keyFile}, `error reading CA cert file "GONE": open GONE: no such file or directory`},
		"no key":                     {authority.Files{Cert: certFile, Key: gone}, `error reading CA cert file "CERT": open GONE: no such file or directory`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.files.Read()
			if err == nil || strings.ReplaceAll(message(err, certFile, keyFile), gone, "GONE") != tc.err {
				t.Errorf("error %v, want %s", err, tc.err)
			}
		})
	}
}

// Pins CSRS-59.
func TestExpired(t *testing.T) {
	now := time.Now()
	end := now.Add(time.Hour).UTC().Truncate(time.Second)
	certFile, keyFile := pki.CA(t, now, func(c *x509.Certificate) { c.NotAfter = end }).Write(t, t.TempDir())
	read, err := authority.Files{Cert: certFile, Key: keyFile}.Read()
	must.Succeed(t, err)
	must.Succeed(t, read.Expired(end))
	err = read.Expired(end.Add(time.Second))
	if want := `error reading CA cert file "` + certFile + `": the certificate has expired: NotAfter=` + end.String(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Pins CSRS-58.
func TestEqualContentIsNoChange(t *testing.T) {
	folder := t.TempDir()
	pair := pki.CA(t, time.Now())
	certFile, keyFile := pair.Write(t, folder)
	files := authority.Files{Cert: certFile, Key: keyFile}
	first := must.Get(files.Read())(t)
	if pair.Write(t, folder); !must.Get(files.Read())(t).Equal(first) {
		t.Error("the same pair differs")
	}
	must.Succeed(t, os.WriteFile(keyFile, append(pair.Key, '\n'), 0o600))
	if must.Get(files.Read())(t).Equal(first) {
		t.Error("other content is equal")
	}
}
