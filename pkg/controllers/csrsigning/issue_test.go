package csrsigning

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/authority"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

// now is when controllertest's clocks start.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestLifetime(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	seconds := func(d time.Duration) *int32 { return ptr.To(int32(d / time.Second)) }
	for name, tc := range map[string]struct {
		longest   time.Duration
		requested *int32
		want      time.Duration
	}{
		"CSRS-31: none":                             {hour, nil, hour},
		"CSRS-31: less":                             {hour, seconds(30 * time.Minute), 30 * time.Minute},
		"CSRS-31: more":                             {hour, seconds(3 * hour), hour},
		"CSRS-31: just as long":                     {hour, seconds(hour), hour},
		"CSRS-31: negative":                         {hour, seconds(-time.Minute), 10 * time.Minute},
		"CSRS-31, CSRS-45: less than ten minutes":   {hour, seconds(10*time.Minute - time.Second), 10 * time.Minute},
		"CSRS-31: ten minutes":                      {hour, seconds(10 * time.Minute), 10 * time.Minute},
		"CSRS-31: tiny, where less is the longest":  {5 * time.Minute, seconds(time.Minute), 10 * time.Minute},
		"CSRS-31: more than the longest, also tiny": {5 * time.Minute, seconds(6 * time.Minute), 5 * time.Minute},
		"CSRS-31: more than 32 bits of nanoseconds": {10 * 365 * day, seconds(365 * day), 365 * day},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lifetime(tc.longest, tc.requested); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestValidity(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	for name, tc := range map[string]struct {
		end, ttl time.Duration // of the CA, from now
		from, to time.Duration // from now
		err      string
	}{
		"CSRS-37, CSRS-45: a minute":         {1000 * hour, minute, -5 * minute, minute, ""},
		"CSRS-37, CSRS-48: ten minutes":      {1000 * hour, 10 * minute, -5 * minute, 10 * minute, ""},
		"CSRS-37, CSRS-48: half an hour":     {1000 * hour, 30 * minute, -5 * minute, 30 * minute, ""},
		"CSRS-37, CSRS-48: two hours":        {1000 * hour, 2 * hour, -5 * minute, 2 * hour, ""},
		"CSRS-37: almost eight hours":        {1000 * hour, 8*hour - time.Second, -5 * minute, 8*hour - time.Second, ""},
		"CSRS-37, CSRS-45: eight hours":      {1000 * hour, 8 * hour, -5 * minute, 8*hour - 5*minute, ""},
		"CSRS-37, CSRS-48: ten hours":        {1000 * hour, 10 * hour, -5 * minute, 10*hour - 5*minute, ""},
		"CSRS-37, CSRS-48: a day":            {1000 * hour, 24 * hour, -5 * minute, 24*hour - 5*minute, ""},
		"CSRS-37: longer than the CA":        {hour, 24 * hour, -5 * minute, hour, ""},
		"CSRS-37: just as long as the CA":    {hour, hour, -5 * minute, hour, ""},
		"CSRS-38: the CA expired long ago":   {-hour, hour, 0, 0, "the signer has expired: NotAfter=2026-01-02 02:04:05 +0000 UTC"},
		"CSRS-38: the CA expired 5 min ago":  {-5 * minute, hour, 0, 0, "the signer has expired: NotAfter=2026-01-02 02:59:05 +0000 UTC"},
		"CSRS-38: the CA has just expired":   {0, hour, 0, 0, "refusing to sign a certificate that expired in the past: NotAfter=2026-01-02 03:04:05 +0000 UTC"},
		"CSRS-38: the CA expired 4 min ago":  {-4 * minute, hour, 0, 0, "refusing to sign a certificate that expired in the past: NotAfter=2026-01-02 03:00:05 +0000 UTC"},
		"CSRS-38: the CA expires in a while": {time.Second, hour, -5 * minute, time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, err := validity(now.Add(tc.end), tc.ttl, now)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if must.Succeed(t, err); !from.Equal(now.Add(tc.from)) || !to.Equal(now.Add(tc.to)) {
				t.Errorf("from %v to %v", from.Sub(now), to.Sub(now))
			}
		})
	}
}

func TestKeyUsages(t *testing.T) {
	type extra = []x509.ExtKeyUsage
	all := make([]certificatesv1.KeyUsage, 0, len(bits)+len(extended))
	for usage := range bits {
		all = append(all, usage)
	}
	for usage := range extended {
		all = append(all, usage)
	}
	for name, tc := range map[string]struct {
		usages []certificatesv1.KeyUsage
		bits   x509.KeyUsage
		extra  extra
		err    string
	}{
		"CSRS-35: none":              {},
		"CSRS-35: signing":           {[]certificatesv1.KeyUsage{"signing"}, x509.KeyUsageDigitalSignature, nil, ""},
		"CSRS-35: digital signature": {[]certificatesv1.KeyUsage{"digital signature"}, x509.KeyUsageDigitalSignature, nil, ""},
		"CSRS-35: twice":             {[]certificatesv1.KeyUsage{"client auth", "client auth"}, 0, extra{x509.ExtKeyUsageClientAuth}, ""},
		"CSRS-35: bits": {
			[]certificatesv1.KeyUsage{"cert sign", "encipher only"}, x509.KeyUsageCertSign | x509.KeyUsageEncipherOnly, nil, "",
		},
		"CSRS-35: in the order of their numbers": {
			[]certificatesv1.KeyUsage{"ocsp signing", "crl sign", "s/mime", "content commitment", "email protection"},
			x509.KeyUsageCRLSign | x509.KeyUsageContentCommitment,
			extra{x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageOCSPSigning}, "",
		},
		"CSRS-35: every one that there is": {all,
			x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment | x509.KeyUsageKeyEncipherment | x509.KeyUsageDataEncipherment |
				x509.KeyUsageKeyAgreement | x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageEncipherOnly | x509.KeyUsageDecipherOnly,
			extra{
				x509.ExtKeyUsageAny, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageCodeSigning, x509.ExtKeyUsageEmailProtection,
				x509.ExtKeyUsageIPSECEndSystem, x509.ExtKeyUsageIPSECTunnel, x509.ExtKeyUsageIPSECUser, x509.ExtKeyUsageTimeStamping,
				x509.ExtKeyUsageOCSPSigning, x509.ExtKeyUsageMicrosoftServerGatedCrypto, x509.ExtKeyUsageNetscapeServerGatedCrypto,
			}, ""},
		"CSRS-35, CSRS-29: unknown ones": {[]certificatesv1.KeyUsage{"b", "client auth", "a"}, 0, nil, `unrecognized usage values: ["b" "a"]`},
	} {
		t.Run(name, func(t *testing.T) {
			usage, extra, err := keyUsages(tc.usages)
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, want %s", err, tc.err)
			}
			if usage != tc.bits || !slices.Equal(extra, tc.extra) {
				t.Errorf("got %b %v, want %b %v", usage, extra, tc.bits, tc.extra)
			}
		})
	}
}

func readPair(t *testing.T, pair pki.Pair) *authority.Authority {
	t.Helper()
	return must.Get(authority.Files{Cert: "ca.crt", Key: "ca.key"}.Parse(pair.Cert, pair.Key))(t)
}

// parsed is a request as Parse returns it.
func parsed(t *testing.T, data []byte) *x509.CertificateRequest {
	t.Helper()
	block, _ := pem.Decode(data)
	return must.Get(x509.ParseCertificateRequest(block.Bytes))(t)
}

// What is in a certificate: its owner and names from the request, its usages from the spec.
// Pins CSRS-34, CSRS-36, CSRS-39 and CSRS-40.
func TestIssue(t *testing.T) {
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	ca := readPair(t, pki.CAOf(t, rsaKey, now, func(c *x509.Certificate) { c.SubjectKeyId = []byte{1, 2, 3} }))
	key := pki.Key(t)
	custom := asn1.ObjectIdentifier{1, 2, 3, 4}
	subject := pkix.Name{
		CommonName: "mike", Organization: []string{"a", "b"}, OrganizationalUnit: []string{"c"}, Country: []string{"d"}, Province: []string{"e"},
		Locality: []string{"f"}, StreetAddress: []string{"g"}, PostalCode: []string{"h"}, SerialNumber: "i",
	}
	request := x509.CertificateRequest{
		Subject:  subject,
		DNSNames: []string{"example.org"}, IPAddresses: []net.IP{{10, 0, 0, 1}}, EmailAddresses: []string{"a@example.org"},
		URIs:            []*url.URL{must.Get(url.Parse("spiffe://example.org/x"))(t)},
		ExtraExtensions: []pkix.Extension{{Id: custom, Value: []byte{5, 0}}},
	}
	request.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: custom, Value: "not standard"}}
	issued := must.Get(issue(ca, parsed(t, pki.Request(t, key, request)), []certificatesv1.KeyUsage{"cert sign", "client auth"}, time.Hour, now))(t)
	c := pki.Parse(t, issued)
	must.Succeed(t, c.CheckSignatureFrom(ca.Certificate))
	c.Subject.Names = nil // what was encoded
	if diff := cmp.Diff(subject, c.Subject); diff != "" {
		t.Errorf("subject (-want +got):\n%s", diff)
	}
	if !slices.Equal(c.DNSNames, request.DNSNames) || !c.IPAddresses[0].Equal(request.IPAddresses[0]) ||
		!slices.Equal(c.EmailAddresses, request.EmailAddresses) || c.URIs[0].String() != request.URIs[0].String() {
		t.Errorf("names %v %v %v %v", c.DNSNames, c.IPAddresses, c.EmailAddresses, c.URIs)
	}
	if !key.PublicKey.Equal(c.PublicKey) || c.Version != 3 || c.SignatureAlgorithm != x509.SHA256WithRSA {
		t.Errorf("key %v, version %d, signed with %v", c.PublicKey, c.Version, c.SignatureAlgorithm)
	}
	if !c.BasicConstraintsValid || c.IsCA || c.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("constraints %v, CA %v, usage %b", c.BasicConstraintsValid, c.IsCA, c.KeyUsage)
	}
	if !bytes.Equal(c.AuthorityKeyId, []byte{1, 2, 3}) || c.SubjectKeyId != nil || c.Issuer.String() != ca.Certificate.Subject.String() {
		t.Errorf("key IDs %v, %v, issuer %v", c.AuthorityKeyId, c.SubjectKeyId, c.Issuer)
	}
	if slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(custom) }) {
		t.Error("another extension of the request is in the certificate")
	}
	if !c.NotBefore.Equal(now.Add(-5*time.Minute)) || !c.NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("from %v to %v", c.NotBefore, c.NotAfter)
	}
}

// Pins CSRS-33.
func TestSerialNumbersDiffer(t *testing.T) {
	ca, request := readPair(t, pki.CA(t, now)), parsed(t, pki.Request(t, pki.Key(t), x509.CertificateRequest{}))
	seen, longest := map[string]bool{}, 0
	for range 20 {
		n := pki.Parse(t, must.Get(issue(ca, request, nil, time.Hour, now))(t)).SerialNumber
		if seen[n.String()] || n.Sign() < 0 || n.Cmp(new(big.Int).Lsh(big.NewInt(1), 128)) >= 0 {
			t.Errorf("serial number %v", n)
		}
		seen[n.String()], longest = true, max(longest, n.BitLen())
	}
	if longest < 100 {
		t.Errorf("none has more than %d bits", longest)
	}
}

func TestWhatIsNotIssued(t *testing.T) {
	forged := parsed(t, pki.Request(t, pki.Key(t), x509.CertificateRequest{}))
	forged.PublicKey = pki.Key(t).Public()
	good := parsed(t, pki.Request(t, pki.Key(t), x509.CertificateRequest{}))
	ca := readPair(t, pki.CA(t, now))
	broken := *ca
	broken.Key = pki.Key(t) // of another CA
	for name, tc := range map[string]struct {
		ca      *authority.Authority
		request *x509.CertificateRequest
		usages  []certificatesv1.KeyUsage
		now     time.Time
		err     string
	}{
		"CSRS-32: not signed with its key": {ca, forged, nil, now, "unable to verify certificate request signature: x509: ECDSA verification failure"},
		"CSRS-35: usages before validity":  {ca, good, []certificatesv1.KeyUsage{"x"}, now.AddDate(2, 0, 0), `unrecognized usage values: ["x"]`},
		"CSRS-38: the CA has expired":      {ca, good, nil, now.AddDate(2, 0, 0), "the signer has expired: NotAfter=2027-01-02 03:04:05 +0000 UTC"},
		"CSRS-39: the CA cannot sign":      {&broken, good, nil, now, "failed to sign certificate: x509: provided PrivateKey doesn't match parent's PublicKey"},
	} {
		t.Run(name, func(t *testing.T) {
			issued, err := issue(tc.ca, tc.request, tc.usages, time.Hour, tc.now)
			if err == nil || err.Error() != tc.err || issued != nil {
				t.Errorf("error %v, want %s", err, tc.err)
			}
		})
	}
}
