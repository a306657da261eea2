package faults

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var (
	serviceAccounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	secrets         = corev1.SchemeGroupVersion.WithResource("secrets")
	configMaps      = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// accountScenarios are those of the controllers of service accounts and of what vouches for them.
func accountScenarios() []Scenario {
	return []Scenario{serviceAccount(), serviceAccountToken(), rootCACertificatePublisher()}
}

func serviceAccount() Scenario {
	exists := []Condition{Count("serviceaccounts", "", 1)}
	return Scenario{
		Name:        "serviceaccount",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceAccount.Enabled} },
		Kinds:       []schema.GroupVersionResource{serviceAccounts},
		Steps: []Step{
			{"begin", nil, exists},
			{"delete the account", []Action{Delete("serviceaccounts", "default", metav1.DeletePropagationBackground)}, exists},
			{
				"delete it again, and create another",
				[]Action{
					Delete("serviceaccounts", "default", metav1.DeletePropagationBackground),
					Create("{apiVersion: v1, kind: ServiceAccount, metadata: {name: other}}"),
				},
				[]Condition{Count("serviceaccounts", "", 2)},
			},
		},
	}
}

func serviceAccountToken() Scenario {
	const account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}"
	const secret = "{apiVersion: v1, kind: Secret, metadata: {name: token, annotations: {kubernetes.io/service-account.name: robot}}, type: kubernetes.io/service-account-token}"
	filled := []Condition{Contains("secrets", "token", "{.data.token}", "ZXlK")} // a token begins with this in base64
	return Scenario{
		Name:        "serviceaccounttoken",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.ServiceAccountToken.Enabled} },
		Kinds:       []schema.GroupVersionResource{serviceAccounts, secrets},
		Steps: []Step{
			{"create an account", []Action{Create(account)}, nil},
			{"ask for a token", []Action{Create(secret)}, filled},
			{"take out the token", []Action{Patch("secrets", "token", `{"data":{"token":null}}`)}, filled},
			{"delete the account", []Action{Delete("serviceaccounts", "robot", metav1.DeletePropagationBackground)}, []Condition{Gone("secrets", "token")}},
			{"create both again under their names", []Action{Create(account), Create(secret)}, filled},
		},
	}
}

func rootCACertificatePublisher() Scenario {
	const name = "kube-root-ca.crt"
	published := []Condition{Contains("configmaps", name, "{.data}", "BEGIN CERTIFICATE")}
	return Scenario{
		Name:        "rootcacertificatepublisher",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.RootCACertificatePublisher.Enabled} },
		Kinds:       []schema.GroupVersionResource{configMaps},
		AtMost:      map[string]int{"configmaps/" + name: 1},
		Steps: []Step{
			{"begin", nil, published},
			{"delete the certificates", []Action{Delete("configmaps", name, metav1.DeletePropagationBackground)}, published},
			{"change the certificates", []Action{Patch("configmaps", name, `{"data":{"ca.crt":"wrong"}}`)}, published},
		},
	}
}
