package faults

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

var (
	roleBindings = rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")

	// requestKeys are those of all requests: to make one takes long.
	requestKeys = sync.OnceValues(func() (map[string]crypto.Signer, error) {
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		_, edKey, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("making a key: %w", err)
		}
		return map[string]crypto.Signer{"": ecKey, "rsa": rsaKey, "ed25519": edKey}, nil
	})
)

// request is one for a certificate.
type request struct {
	name, signer string
	// user asks, with its groups. The administrator if it is empty.
	user   string
	groups []string
	// key is the type of the key, ECDSA if it is empty.
	key     string
	subject pkix.Name
	dns     []string
	emails  []string
	ip, uri bool
	// extensions are further ones that are asked for.
	extensions []pkix.Extension
	usages     []certificatesv1.KeyUsage
	expiration int32
}

// made are the requests that were made, by signer and name: every run has the same.
var made sync.Map

// encoded is the PEM text of a request.
func (r request) encoded() ([]byte, error) {
	if known, ok := made.Load(r.signer + " " + r.name); ok {
		return known.([]byte), nil
	}
	keys, err := requestKeys()
	if err != nil {
		return nil, err
	}
	template := &x509.CertificateRequest{Subject: r.subject, DNSNames: r.dns, EmailAddresses: r.emails, ExtraExtensions: r.extensions}
	if r.ip {
		template.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1), net.ParseIP("2001:db8::1")}
	}
	if r.uri {
		template.URIs = []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/x"}}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, keys[r.key])
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	made.Store(r.signer+" "+r.name, text)
	return text, nil
}

// Request asks for a certificate.
func Request(r request) Action {
	return func(ctx context.Context, w *world) error {
		text, err := r.encoded()
		if err != nil {
			return err
		}
		client := w.admin
		if r.user != "" {
			if client, err = w.as(r.user, r.groups...); err != nil {
				return err
			}
		}
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "faults-" + r.name},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: text, SignerName: r.signer, Usages: r.usages},
		}
		if r.expiration > 0 {
			csr.Spec.ExpirationSeconds = ptr.To(r.expiration)
		}
		_, err = client.CertificatesV1().CertificateSigningRequests().Create(ctx, csr, metav1.CreateOptions{})
		return err
	}
}

// decideOn approves or denies the requests of which it is not known what becomes of them.
func decideOn(decision string, all []request) (do []Action) {
	for _, r := range all {
		do = append(do, Decide("faults-"+r.name, decision))
	}
	return do
}

// requestsAnswered is that all approved requests for signers of Kubernetes have a certificate or have failed.
func requestsAnswered(ctx context.Context, w *world) error {
	list, err := w.admin.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		csr := &list.Items[i]
		is := map[certificatesv1.RequestConditionType]bool{}
		for _, c := range csr.Status.Conditions {
			is[c.Type] = true
		}
		if is[certificatesv1.CertificateApproved] && !is[certificatesv1.CertificateFailed] && len(csr.Status.Certificate) == 0 && strings.HasPrefix(csr.Spec.SignerName, "kubernetes.io/") {
			return fmt.Errorf("%s has no certificate: %+v", csr.Name, csr.Status.Conditions)
		}
	}
	return nil
}

func requestComparisons() []Scenario {
	return []Scenario{nodeRequests(), servingRequests(), clientRequests()}
}

func requestControllers(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.CSRApproving.Enabled, &c.Controllers.CSRSigning.Enabled, &c.Controllers.CSRCleaner.Enabled}
}

var (
	clientUsages  = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	servingUsages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
)

// ofNode is the subject of a node.
func ofNode(name string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}}
}

func nodeRequests() Scenario {
	const signer = certificatesv1.KubeAPIServerClientKubeletSignerName
	usages := func(all ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage { return all }
	// refused are requests that nobody approves by itself, and that are not signed if somebody does.
	refused := []request{
		{name: "no-node", subject: pkix.Name{CommonName: "mike", Organization: []string{"system:nodes"}}, usages: clientUsages},
		{name: "prefix-only", subject: pkix.Name{CommonName: "system:node", Organization: []string{"system:nodes"}}, usages: clientUsages},
		{name: "no-name", subject: pkix.Name{Organization: []string{"system:nodes"}}, usages: clientUsages},
		{name: "no-organization", subject: pkix.Name{CommonName: "system:node:x"}, usages: clientUsages},
		{name: "other-organization", subject: pkix.Name{CommonName: "system:node:x", Organization: []string{"system:others"}}, usages: clientUsages},
		{name: "two-organizations", subject: pkix.Name{CommonName: "system:node:x", Organization: []string{"system:nodes", "x"}}, usages: clientUsages},
		{name: "dns", subject: ofNode("x"), dns: []string{"x"}, emails: []string{"a@b.c"}, ip: true, uri: true, usages: clientUsages},
		{name: "email", subject: ofNode("x"), emails: []string{"a@b.c"}, ip: true, uri: true, usages: clientUsages},
		{name: "ip", subject: ofNode("x"), ip: true, uri: true, usages: clientUsages},
		{name: "uri", subject: ofNode("x"), uri: true, usages: clientUsages},
		{name: "server", subject: ofNode("x"), usages: servingUsages},
		{name: "too-many-usages", subject: ofNode("x"), usages: append(usages(certificatesv1.UsageServerAuth, certificatesv1.UsageKeyEncipherment), clientUsages...)},
		{name: "only-client", subject: ofNode("x"), usages: usages(certificatesv1.UsageClientAuth)},
		{name: "usages-and-name", subject: pkix.Name{CommonName: "mike", Organization: []string{"system:nodes"}}, usages: servingUsages},
		{name: "all-wrong", subject: pkix.Name{CommonName: "mike"}, dns: []string{"x"}, usages: servingUsages},
	}
	for i := range refused {
		refused[i].signer = signer
	}
	approved := []request{
		{name: "plain", signer: signer, subject: ofNode("plain"), usages: clientUsages},
		{name: "encipherment", signer: signer, subject: ofNode("x"), usages: append(usages(certificatesv1.UsageKeyEncipherment), clientUsages...), key: "rsa"},
		{name: "empty-node", signer: signer, subject: ofNode(""), usages: clientUsages},
		{name: "more-subject", signer: signer, subject: pkix.Name{CommonName: "system:node:x", Organization: []string{"system:nodes"}, OrganizationalUnit: []string{"u"}, Country: []string{"DE"}}, usages: clientUsages},
		{name: "short", signer: signer, subject: ofNode("x"), usages: clientUsages, expiration: 600},
		{name: "long", signer: signer, subject: ofNode("x"), usages: clientUsages, expiration: 2000000000},
	}
	// asked are those of users, who may do this or that.
	const self, bootstrapper, both, none = "faults:self", "faults:bootstrapper", "faults:both", "faults:none"
	asked := []request{
		{name: "self", user: "system:node:self", groups: []string{self}},
		{name: "self-as-node", user: "system:node:self-as-node", groups: []string{bootstrapper}},
		{name: "self-both", user: "system:node:self-both", groups: []string{both}},
		{name: "self-none", user: "system:node:self-none", groups: []string{none}},
		{name: "bootstrap", user: "system:bootstrap:abcdef", groups: []string{bootstrapper}},
		{name: "bootstrap-self", user: "system:bootstrap:abcdef", groups: []string{self}},
		{name: "bootstrap-none", user: "system:bootstrap:abcdef", groups: []string{none}},
	}
	for i := range asked {
		asked[i].signer, asked[i].subject, asked[i].usages = signer, ofNode(asked[i].name), clientUsages
	}
	bind := func(role string, groups ...string) (do []Action) {
		for _, group := range groups {
			do = append(do, Create(fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: faults-%s-%s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %q}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: %q}]}",
				role[strings.LastIndex(role, ":")+1:], group[len("faults:"):], role, group)))
		}
		return do
	}
	permit := append(bind("system:node-bootstrapper", self, bootstrapper, both, none), bind("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", self, both)...)
	permit = append(permit, bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", bootstrapper, both)...)
	var create []Action
	for _, r := range append(append(append([]request{}, refused...), approved...), asked...) {
		create = append(create, Repeat(Request(r))) // the API server learns of a role that was bound a little later
	}
	is := func(name, want string) Condition {
		return Has("certificatesigningrequests", "faults-"+name, "{.status.conditions[*].type}", want)
	}
	return Scenario{
		Name:        "requests-of-nodes",
		Bare:        true,
		Controllers: requestControllers,
		Kinds:       []schema.GroupVersionResource{certificateRequests, roleBindings},
		Steps: []Step{
			{
				"ask for certificates",
				append(permit, create...),
				[]Condition{is("plain", "Approved"), is("long", "Approved"), is("self", "Approved"), is("self-as-node", "Approved"), is("self-both", "Approved"), is("bootstrap", "Approved"), requestsAnswered},
			},
			{"approve what nobody approves", append(decideOn("Approved", refused[:len(refused)-2]), decideOn("Denied", refused[len(refused)-2:])...), []Condition{requestsAnswered}},
			{
				"permit more",
				append(bind("system:certificates.k8s.io:certificatesigningrequests:nodeclient", none), Decide("faults-bootstrap-self", "Denied")),
				[]Condition{is("self-none", "Approved"), is("bootstrap-none", "Approved"), requestsAnswered},
			},
		},
	}
}

func servingRequests() Scenario {
	const signer = certificatesv1.KubeletServingSignerName
	encipher := append([]certificatesv1.KeyUsage{certificatesv1.UsageKeyEncipherment}, servingUsages...)
	all := []request{
		{name: "dns", dns: []string{"a.example.com", "b"}}, {name: "ip", ip: true}, {name: "both", dns: []string{"a"}, ip: true, usages: encipher, key: "rsa"},
		{name: "none"}, {name: "email", dns: []string{"a"}, emails: []string{"a@b.c"}, uri: true}, {name: "uri", dns: []string{"a"}, uri: true}, {name: "email-only", emails: []string{"a@b.c"}},
		{name: "client", dns: []string{"a"}, usages: clientUsages}, {name: "both-auths", dns: []string{"a"}, usages: append([]certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, servingUsages...)},
		{name: "server-only", dns: []string{"a"}, usages: []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}},
		{name: "no-node", dns: []string{"a"}, subject: pkix.Name{CommonName: "mike", Organization: []string{"system:nodes"}}},
		{name: "usages-and-name", dns: []string{"a"}, subject: pkix.Name{CommonName: "mike", Organization: []string{"system:nodes"}}, usages: clientUsages},
		{name: "no-organization", dns: []string{"a"}, subject: pkix.Name{CommonName: "system:node:x"}},
		{name: "two-organizations", dns: []string{"a"}, subject: pkix.Name{CommonName: "system:node:x", Organization: []string{"system:nodes", "x"}}},
		{name: "short", dns: []string{"a"}, expiration: 600}, {name: "hour", dns: []string{"a"}, expiration: 3600}, {name: "wildcard", dns: []string{"*.example.com"}},
	}
	var create []Action
	for i := range all {
		all[i].signer = signer
		if all[i].subject.CommonName == "" {
			all[i].subject = ofNode("x")
		}
		if all[i].usages == nil {
			all[i].usages = servingUsages
		}
		create = append(create, Request(all[i]))
	}
	return Scenario{
		Name:        "requests-for-serving",
		Bare:        true,
		Controllers: requestControllers,
		Kinds:       []schema.GroupVersionResource{certificateRequests},
		Steps: []Step{
			{"ask for certificates", create, nil},
			{"approve and deny", append(decideOn("Approved", all[1:]), decideOn("Denied", all[:1])...), []Condition{requestsAnswered}},
		},
	}
}

// rich is a subject with all that has a name of its own, and something that has none.
var rich = pkix.Name{
	CommonName: "rich", SerialNumber: "1", Country: []string{"DE", "FR"}, Organization: []string{"b", "a"}, OrganizationalUnit: []string{"u", "t"}, Locality: []string{"l"},
	Province: []string{"p"}, StreetAddress: []string{"s"}, PostalCode: []string{"1"},
	ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}, Value: "uid"}},
}

func clientRequests() Scenario {
	const signer = certificatesv1.KubeAPIServerClientSignerName
	usages := func(all ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage { return all }
	client := certificatesv1.UsageClientAuth
	all := []request{
		{name: "plain"}, {name: "rsa", key: "rsa"}, {name: "ed25519", key: "ed25519"}, {name: "rich", subject: rich}, {name: "no-subject", subject: pkix.Name{}, dns: []string{"a"}},
		{name: "names", dns: []string{"a.example.com"}, emails: []string{"a@b.c"}, ip: true, uri: true},
		{name: "extensions", extensions: []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}, {Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte{0x05, 0x00}},
		}},
		{name: "only-client", usages: usages(client)}, {name: "encipherment", usages: usages(client, certificatesv1.UsageKeyEncipherment)}, {name: "all-usages", usages: usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, client)},
		{name: "server", usages: usages(certificatesv1.UsageServerAuth)}, {name: "signing", usages: usages(certificatesv1.UsageSigning, client)}, {name: "cert-sign", usages: usages(client, certificatesv1.UsageCertSign, certificatesv1.UsageAny)},
		{name: "no-client", usages: usages(certificatesv1.UsageDigitalSignature)}, {name: "no-client-server", usages: usages(certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth)},
		{name: "ten-minutes", expiration: 600}, {name: "quarter", expiration: 900}, {name: "hour", expiration: 3600}, {name: "two-hours", expiration: 7200}, {name: "almost-eight", expiration: 28799}, {name: "eight", expiration: 28800}, {name: "ten", expiration: 36000},
		{name: "most", expiration: 43200}, {name: "too-long", expiration: 43201}, {name: "longest", expiration: 2147483647},
	}
	elsewhere := []request{{name: "elsewhere", signer: "example.com/signer"}, {name: "like-ours", signer: "kubernetes.io/kube-apiserver"}}
	late := []request{{name: "denied"}, {name: "finalized"}, {name: "undecided"}}
	var create []Action
	ask := func(some []request) {
		for i := range some {
			r := &some[i]
			if r.signer == "" {
				r.signer = signer
			}
			if r.subject.CommonName == "" && r.name != "no-subject" {
				r.subject = pkix.Name{CommonName: "user:" + r.name, Organization: []string{"b", "a"}}
			}
			if r.usages == nil {
				r.usages = clientUsages
			}
			create = append(create, Request(*r))
		}
	}
	ask(all)
	ask(elsewhere)
	ask(late)
	return Scenario{
		Name:        "requests-of-clients",
		Bare:        true,
		Controllers: requestControllers,
		Configure: func(c *manager.Config) {
			c.Controllers.CSRSigning.CertificateDuration = &metav1.Duration{Duration: 12 * time.Hour}
		},
		Flags: []string{"--cluster-signing-duration=12h"},
		Kinds: []schema.GroupVersionResource{certificateRequests},
		Steps: []Step{
			{"ask for certificates", create, nil},
			{"approve them", append(decideOn("Approved", all), Decide("faults-elsewhere", "Approved")), []Condition{requestsAnswered}},
			{
				"decide on others, and delete one that was issued",
				[]Action{
					Decide("faults-denied", "Denied"), Patch("certificatesigningrequests", "faults-finalized", `{"metadata":{"finalizers":["example.com/kept"]}}`),
					Delete("certificatesigningrequests", "faults-finalized", metav1.DeletePropagationBackground), Decide("faults-finalized", "Approved"),
					PatchStatus("certificatesigningrequests", "faults-undecided", `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"ByHand","message":"x"}]}}`),
					PatchStatus("certificatesigningrequests", "faults-elsewhere", `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"Decided","message":"by a scenario"},{"type":"Other","status":"Unknown","reason":"ByHand","message":"x"}]}}`),
					Delete("certificatesigningrequests", "faults-plain", metav1.DeletePropagationBackground),
				},
				[]Condition{requestsAnswered, Gone("certificatesigningrequests", "faults-plain")},
			},
		},
	}
}
