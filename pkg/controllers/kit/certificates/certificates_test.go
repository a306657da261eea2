package certificates_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/test/must"
	"kcmd.dev/test/pki"
)

const (
	signature    = certificatesv1.UsageDigitalSignature
	encipherment = certificatesv1.UsageKeyEncipherment
	server       = certificatesv1.UsageServerAuth
	client       = certificatesv1.UsageClientAuth
)

type validator = func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error

// of makes a request of a node.
func of(edits ...func(*x509.CertificateRequest)) *x509.CertificateRequest {
	r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:one", Organization: []string{"system:nodes"}}}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func dns(r *x509.CertificateRequest)     { r.DNSNames = []string{"node"} }
func address(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }
func email(r *x509.CertificateRequest)   { r.EmailAddresses = []string{"a@example.com"} }
func uri(r *x509.CertificateRequest)     { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }
func mike(r *x509.CertificateRequest)    { r.Subject.CommonName = "mike" }
func nobody(r *x509.CertificateRequest)  { r.Subject.Organization = nil }
func masters(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }
func nodesAnd(r *x509.CertificateRequest) {
	r.Subject.Organization = []string{"system:nodes", "system:masters"}
}

func usages(all ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage { return all }

func TestValidation(t *testing.T) {
	const (
		organization = "subject organization is not system:nodes"
		commonName   = "subject common name does not begin with system:node:"
		noAddress    = "DNS or IP subjectAltName is required"
		noDNS        = "DNS subjectAltNames are not allowed"
		noEmail      = "Email subjectAltNames are not allowed"
		noIP         = "IP subjectAltNames are not allowed"
		noURI        = "URI subjectAltNames are not allowed"
		serving      = "usages did not match [digital signature key encipherment server auth]"
		clients      = "usages did not match [client auth digital signature key encipherment]"
	)
	servingUsages, clientUsages := usages(signature, encipherment, server), usages(signature, encipherment, client)
	for name, tc := range map[string]struct {
		validate validator
		request  *x509.CertificateRequest
		usages   []certificatesv1.KeyUsage
		want     string
	}{
		"CSRS-26: serving, with a name":                    {certificates.ValidateKubeletServing, of(dns), servingUsages, ""},
		"CSRS-26: serving, with an address":                {certificates.ValidateKubeletServing, of(address), servingUsages, ""},
		"CSRS-26d: serving, without encipherment":          {certificates.ValidateKubeletServing, of(dns, address), usages(server, signature), ""},
		"CSRS-26a: serving, no organization":               {certificates.ValidateKubeletServing, of(dns, nobody), servingUsages, organization},
		"CSRS-26a: serving, another organization":          {certificates.ValidateKubeletServing, of(dns, masters), servingUsages, organization},
		"CSRS-26a, CSRS-30: serving, two organizations":    {certificates.ValidateKubeletServing, of(dns, nodesAnd), servingUsages, organization},
		"CSRS-26b: serving, no name":                       {certificates.ValidateKubeletServing, of(), servingUsages, noAddress},
		"CSRS-26c: serving, an email address":              {certificates.ValidateKubeletServing, of(dns, email), servingUsages, noEmail},
		"CSRS-26c: serving, a URI":                         {certificates.ValidateKubeletServing, of(dns, uri), servingUsages, noURI},
		"CSRS-26c, CSRS-30: serving, email before URI":     {certificates.ValidateKubeletServing, of(dns, uri, email), servingUsages, noEmail},
		"CSRS-26d: serving, another usage":                 {certificates.ValidateKubeletServing, of(dns), clientUsages, serving},
		"CSRS-26d: serving, one usage more":                {certificates.ValidateKubeletServing, of(dns), append(usages(client), servingUsages...), serving},
		"CSRS-26d: serving, no signature":                  {certificates.ValidateKubeletServing, of(dns), usages(encipherment, server), serving},
		"CSRS-26e: serving, a user":                        {certificates.ValidateKubeletServing, of(dns, mike), servingUsages, commonName},
		"CSRS-30: serving, usages before the name":         {certificates.ValidateKubeletServing, of(dns, mike), clientUsages, serving},
		"CSRS-30: serving, usages twice":                   {certificates.ValidateKubeletServing, of(dns), usages(server, signature, server), ""},
		"CSRS-27, CSRA-12a: kubelet":                       {certificates.ValidateKubeletClient, of(), clientUsages, ""},
		"CSRS-27a, CSRA-12a: kubelet, no encipherment":     {certificates.ValidateKubeletClient, of(), usages(client, signature, client), ""},
		"CSRS-27a, CSRA-12a: kubelet, no organization":     {certificates.ValidateKubeletClient, of(nobody), clientUsages, organization},
		"CSRS-27a, CSRA-12a: kubelet, another one":         {certificates.ValidateKubeletClient, of(masters), clientUsages, organization},
		"CSRS-27a, CSRA-12a: kubelet, a name":              {certificates.ValidateKubeletClient, of(dns), clientUsages, noDNS},
		"CSRS-27a, CSRA-12a: kubelet, an email address":    {certificates.ValidateKubeletClient, of(email), clientUsages, noEmail},
		"CSRS-27a, CSRA-12a: kubelet, an address":          {certificates.ValidateKubeletClient, of(address), clientUsages, noIP},
		"CSRS-27a, CSRA-12a: kubelet, a URI":               {certificates.ValidateKubeletClient, of(uri), clientUsages, noURI},
		"CSRS-27a, CSRS-30: kubelet, DNS before email":     {certificates.ValidateKubeletClient, of(email, dns), clientUsages, noDNS},
		"CSRS-27a, CSRS-30: kubelet, email before IP":      {certificates.ValidateKubeletClient, of(address, email), clientUsages, noEmail},
		"CSRS-27a, CSRS-30: kubelet, IP before URI":        {certificates.ValidateKubeletClient, of(uri, address), clientUsages, noIP},
		"CSRS-27a, CSRA-12a: kubelet, a user":              {certificates.ValidateKubeletClient, of(mike), clientUsages, commonName},
		"CSRS-30: kubelet, the name before usages":         {certificates.ValidateKubeletClient, of(mike), servingUsages, commonName},
		"CSRS-27a, CSRA-12a: kubelet, one usage more":      {certificates.ValidateKubeletClient, of(), append(usages(server), clientUsages...), clients},
		"CSRS-27a, CSRA-12a: kubelet, no client":           {certificates.ValidateKubeletClient, of(), usages(signature, encipherment), clients},
		"CSRS-28: a user with names and any group":         {certificates.ValidateClient, of(mike, masters, dns, address, email, uri), clientUsages, ""},
		"CSRS-28: a user, just what is required":           {certificates.ValidateClient, of(mike), usages(client), ""},
		"CSRS-28: a user, server auth":                     {certificates.ValidateClient, of(mike), usages(client, server), "invalid usage for client certificate: server auth"},
		"CSRS-28: a user, the first that is not permitted": {certificates.ValidateClient, of(mike), usages("code signing", server), "invalid usage for client certificate: code signing"},
		"CSRS-28: a user, no client auth":                  {certificates.ValidateClient, of(mike), usages(signature), "missing required usage for client certificate: client auth"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := tc.validate(tc.request, tc.usages); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	condition := func(kind certificatesv1.RequestConditionType, status corev1.ConditionStatus) certificatesv1.CertificateSigningRequestCondition {
		return certificatesv1.CertificateSigningRequestCondition{Type: kind, Status: status}
	}
	const approved, denied, failed = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
	type conditions = []certificatesv1.CertificateSigningRequestCondition
	for name, tc := range map[string]struct {
		conditions                conditions
		approved, decided, failed bool
	}{
		"CSRS-19, CSRA-10: none":                                {},
		"CSRS-19, CSRA-10: approved":                            {conditions: conditions{condition(approved, "True")}, approved: true, decided: true},
		"CSRS-19, CSRS-46, CSRA-10: approved, without a status": {conditions: conditions{condition(approved, "")}, approved: true, decided: true},
		"CSRS-19, CSRS-46, CSRA-10: approved, with status False": {
			conditions: conditions{condition(approved, "False")}, approved: true, decided: true,
		},
		"CSRS-19, CSRA-10: denied":            {conditions: conditions{condition(denied, "True")}, decided: true},
		"CSRS-19, CSRS-46: denied, as False":  {conditions: conditions{condition(denied, "False")}, decided: true},
		"CSRS-19: approved and denied":        {conditions: conditions{condition(approved, "True"), condition(denied, "True")}, decided: true},
		"CSRS-19, CSRA-10: failed":            {conditions: conditions{condition(failed, "True")}, failed: true},
		"CSRS-19: failed, without a status":   {conditions: conditions{condition(failed, "")}, failed: true},
		"CSRS-19, CSRS-46: failed, as False":  {conditions: conditions{condition(failed, "False")}},
		"CSRS-19: something else":             {conditions: conditions{condition("Other", "True")}},
		"CSRS-19: one that counts after many": {conditions: conditions{condition("Other", "True"), condition(approved, "True")}, approved: true, decided: true},
	} {
		t.Run(name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{}
			csr.Status.Conditions = tc.conditions
			if a, d, f := certificates.Approved(csr), certificates.Decided(csr), certificates.Failed(csr); a != tc.approved || d != tc.decided || f != tc.failed {
				t.Errorf("approved %v, decided %v, failed %v", a, d, f)
			}
		})
	}
}

// Pins CSRS-21 and CSRA-11.
func TestParse(t *testing.T) {
	good := pki.Request(t, pki.Key(t), x509.CertificateRequest{Subject: pkix.Name{CommonName: "mike"}})
	for name, tc := range map[string]struct {
		request []byte
		err     string
	}{
		"a request":              {good, ""},
		"text around it":         {append([]byte("hello\n"), append(good, "bye"...)...), ""},
		"nothing":                {nil, `unable to parse csr "a": PEM block type must be CERTIFICATE REQUEST`},
		"another kind of block":  {pki.CA(t, time.Now()).Cert, `unable to parse csr "a": PEM block type must be CERTIFICATE REQUEST`},
		"another block is first": {append(pki.CA(t, time.Now()).Cert, good...), `unable to parse csr "a": PEM block type must be CERTIFICATE REQUEST`},
		"no PKCS#10":             {[]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"), `unable to parse csr "a": asn1: structure error: tags don't match (16 vs {class:0 tag:0 length:0 isCompound:false}) {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2`},
	} {
		t.Run(name, func(t *testing.T) {
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			csr.Spec.Request = tc.request
			request, err := certificates.Parse(csr)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			if must.Succeed(t, err); request.Subject.CommonName != "mike" {
				t.Errorf("%+v", request.Subject)
			}
		})
	}
}

// Pins CSRS-17, CSRS-45, CSRA-8 and CSRA-17.
func TestQueue(t *testing.T) {
	o := certificates.Queue(5)
	if o.Queue != "certificate" || o.Workers != 5 || o.MaxRetries != 0 {
		t.Errorf("%+v", o)
	}
	want := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
	for n, delay := range want {
		if got := o.Backoff.When("a"); got != delay {
			t.Errorf("failure %d: %v, want %v", n, got, delay)
		}
	}
	for range 20 {
		o.Backoff.When("a")
	}
	if got := o.Backoff.When("a"); got != 1000*time.Second {
		t.Errorf("at most %v", got)
	}
}
