package faults

import (
	"context"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var podCertificates = certificatesv1beta1.SchemeGroupVersion.WithResource("podcertificaterequests")

// cleaningScenarios are those of the controllers that delete what is old, in passes that are minutes or days apart.
// The controllers live in a time of their own.
func cleaningScenarios() []Scenario { return []Scenario{legacyTokens(), podCertificateRequests()} }

const oneDay = 24 * time.Hour

// legacyTokens begins with what the API server does: it has tracked the use of tokens since today. The period is of
// ten days. A pass that has failed is made again a day later, up to three times in a step.
func legacyTokens() Scenario {
	const period = 10 * oneDay
	token := func(name, labels string) Action {
		return Create(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s, labels: {%s}, annotations: {kubernetes.io/service-account.name: robot}}, type: kubernetes.io/service-account-token}", name, labels))
	}
	usedIn := func(days int) string {
		return fmt.Sprintf("kubernetes.io/legacy-token-last-used: %q", day(-days).Format(time.DateOnly))
	}
	const path = `{.metadata.labels.kubernetes\.io/legacy-token-invalid-since}`
	invalid := func(name string) Condition {
		return func(ctx context.Context, w *world) error {
			if Has("secrets", name, path, "")(ctx, w) == nil {
				return fmt.Errorf("%s is not invalid", name)
			}
			_, err := w.admin.CoreV1().Secrets(w.namespace).Get(ctx, name, metav1.GetOptions{})
			return err
		}
	}
	valid := func(name string) Condition { return Has("secrets", name, path, "") }
	after := func(conditions ...Condition) []Condition {
		var all []Condition
		for _, one := range conditions {
			all = append(all, InTime(oneDay, one))
		}
		return all
	}
	return Scenario{
		Name: "legacy-serviceaccount-token-cleaner",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.LegacyServiceAccountTokenCleaner.Enabled}
		},
		Configure: func(c *manager.Config) {
			c.Controllers.LegacyServiceAccountTokenCleaner.CleanUpPeriod = &metav1.Duration{Duration: period}
		},
		Leaps: true,
		Kinds: []schema.GroupVersionResource{serviceAccounts, secrets, pods},
		Reads: []string{"secrets", "serviceaccounts", "pods"},
		Steps: []Step{
			{
				"create tokens",
				[]Action{
					Create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}, secrets: [{name: unused}, {name: revived}, {name: used}, {name: mounted}]}"),
					token("unused", ""), token("revived", ""), token("used", usedIn(25)), token("mounted", ""), token("manual", ""),
					Create(`{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: node-a, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}], volumes: [{name: token, secret: {secretName: mounted}}]}}`),
				},
				nil,
			},
			{"let twelve days pass", []Action{Pass(12 * oneDay)}, after(invalid("unused"), invalid("revived"))},
			{
				"revive a token",
				[]Action{
					Check(valid("used")), Check(valid("mounted")), Check(valid("manual")),
					// As the API server does when it is used. Otherwise a pass of a process that starts makes it invalid again.
					Patch("secrets", "revived", fmt.Sprintf(`{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":null,"kubernetes.io/legacy-token-last-used":%q}}}`, day(-12).Format(time.DateOnly))),
				},
				[]Condition{Seen("secrets", "revived")},
			},
			{"let fifteen days pass", []Action{Pass(15 * oneDay)}, after(Gone("secrets", "unused"), invalid("revived"))},
			{
				"create a token under the name, and mount one that is invalid",
				[]Action{
					Check(valid("used")), token("unused", usedIn(100)),
					Create(`{apiVersion: v1, kind: Pod, metadata: {name: late}, spec: {nodeName: node-a, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1", envFrom: [{secretRef: {name: revived}}]}]}}`),
					Pass(20 * oneDay),
				},
				after(invalid("used")),
			},
			{"end the pod", []Action{Check(invalid("revived")), Delete("pods", "late", metav1.DeletePropagationBackground)}, after(Gone("secrets", "revived"))},
			{"let fifteen days pass again", []Action{Pass(15 * oneDay)}, after(Gone("secrets", "used"), valid("unused"), valid("mounted"), valid("manual"))},
		},
	}
}

// podCertificateRequest asks for a certificate of a pod.
func podCertificateRequest(name string) Action {
	return func(ctx context.Context, w *world) error {
		text, err := requestFor(pkix.Name{})
		if err != nil {
			return err
		}
		request, _ := pem.Decode(text)
		if request == nil {
			return errors.New("there is no request in the PEM text")
		}
		return Create(fmt.Sprintf(`
apiVersion: certificates.k8s.io/v1beta1
kind: PodCertificateRequest
metadata: {name: %s}
spec:
  signerName: example.com/pods
  podName: pod
  podUID: 0b3ab9ac-2f3a-4b5c-9a1e-1c5d0f6f7a11
  serviceAccountName: default
  serviceAccountUID: account
  nodeName: node
  nodeUID: node
  stubPKCS10Request: %s
`, name, base64.StdEncoding.EncodeToString(request.Bytes)))(ctx, w)
	}
}

func podCertificateRequests() Scenario {
	gone := func(name string) Condition { return InTime(5*time.Minute, Gone("podcertificaterequests", name)) }
	return Scenario{
		Name: "podcertificaterequest-cleaner",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.PodCertificateRequestCleaner.Enabled}
		},
		Configure: func(c *manager.Config) { c.FeatureGates = map[string]bool{"PodCertificateRequest": true} },
		Leaps:     true,
		Kinds:     []schema.GroupVersionResource{podCertificates},
		Steps: []Step{
			{"ask for certificates", []Action{podCertificateRequest("a"), podCertificateRequest("b"), Pass(10 * time.Minute)}, []Condition{Seen("podcertificaterequests", "b")}},
			{"let time pass", []Action{Check(Count("podcertificaterequests", "", 2)), Pass(6 * time.Minute)}, []Condition{gone("a"), gone("b")}},
			{"ask again under a name", []Action{podCertificateRequest("a")}, []Condition{gone("a")}},
		},
	}
}
