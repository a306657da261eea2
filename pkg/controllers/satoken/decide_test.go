package satoken

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestKeys(t *testing.T) {
	got := secretKey(secret("s", "u1"))
	want := key{kind: secretKind, namespace: "ns", name: "s", uid: "s-uid", accountName: "sa", accountUID: "u1"}
	if got != want {
		t.Errorf("secretKey = %+v, want %+v", got, want)
	}
	for name, tc := range map[string]struct {
		key  key
		want bool
	}{
		"SAT-23: account":                      {accountKey(account("sa", "u1")), true},
		"SAT-23: account without UID":          {accountKey(account("sa", "")), false},
		"SAT-23: account without name":         {accountKey(account("", "u1")), false},
		"SAT-23: account without namespace":    {key{kind: accountKind, name: "sa", uid: "u1"}, false},
		"SAT-24: secret":                       {want, true},
		"SAT-24: secret without account UID":   {secretKey(secret("s", "")), true},
		"SAT-24: secret without account name":  {secretKey(secret("s", "u1", func(s *corev1.Secret) { s.Annotations = nil })), false},
		"SAT-24: secret without UID":           {secretKey(secret("s", "u1", func(s *corev1.Secret) { s.UID = "" })), false},
		"SAT-24: secret without a namespace":   {secretKey(secret("s", "u1", func(s *corev1.Secret) { s.Namespace = "" })), false},
		"SAT-24: secret without a name at all": {secretKey(secret("", "u1")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.key.valid(); got != tc.want {
				t.Errorf("valid = %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins SAT-30.
func TestTokensOf(t *testing.T) {
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   bool
	}{
		"this incarnation":    {secret("s", "u1"), true},
		"every incarnation":   {secret("s", ""), true},
		"another incarnation": {secret("s", "u2"), false},
		"another account":     {secret("s", "u1", func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "other" }), false},
		"another type":        {secret("s", "u1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), false},
		"no annotations":      {secret("s", "", func(s *corev1.Secret) { s.Annotations = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := tokensOf(account("sa", "u1"), []*corev1.Secret{tc.secret})
			if (len(got) == 1) != tc.want {
				t.Errorf("tokensOf = %v, want selected %v", got, tc.want)
			}
		})
	}
}

// Pins SAT-34.
func TestNeedsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		ca     string
		want   needs
	}{
		"nothing is lacking":            {secret("s", "u1", withData("ca", "ns", "t")), "ca", needs{}},
		"everything is lacking":         {secret("s", "u1"), "ca", needs{ca: true, namespace: true, token: true}},
		"other CA":                      {secret("s", "u1", withData("old", "ns", "t")), "ca", needs{ca: true}},
		"no CA configured":              {secret("s", "u1", withData("old", "ns", "t")), "", needs{}},
		"SAT-11: no CA at all":          {secret("s", "u1"), "", needs{namespace: true, token: true}},
		"custom namespace":              {secret("s", "u1", withData("ca", "custom", "t")), "ca", needs{}},
		"empty namespace":               {secret("s", "u1", withData("ca", "", "t")), "ca", needs{namespace: true}},
		"empty token":                   {secret("s", "u1", withData("ca", "ns", "")), "ca", needs{token: true}},
		"CA differs in a byte":          {secret("s", "u1", withData("ca\n", "ns", "t")), "ca", needs{ca: true}},
		"SAT-38: foreign token remains": {secret("s", "u1", withData("ca", "ns", "signed by another key")), "ca", needs{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := needsOf(tc.secret, []byte(tc.ca)); got != tc.want {
				t.Errorf("needsOf = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Pins SAT-38.
func TestCompleteSetsOnlyWhatIsLacking(t *testing.T) {
	before := secret("s", "", withData("old", "custom", "t"), func(s *corev1.Secret) {
		s.Data["extra"] = []byte("kept")
		s.Annotations["other"] = "kept"
	})
	untouched := before.DeepCopy()
	want := before.DeepCopy()
	want.Data["ca.crt"] = []byte("ca")
	want.Annotations[corev1.ServiceAccountUIDKey] = "u1"

	got := complete(before, account("sa", "u1"), needs{ca: true}, []byte("ca"), "unused")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("complete (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(untouched, before); diff != "" {
		t.Errorf("the cached object was changed:\n%s", diff)
	}

	bare := secret("s", "", func(s *corev1.Secret) { s.Annotations = nil })
	got = complete(bare, account("sa", "u1"), needs{ca: true, namespace: true, token: true}, []byte("ca"), "signed")
	if diff := cmp.Diff(secret("s", "u1", withData("ca", "ns", "signed")), got); diff != "" {
		t.Errorf("complete (-want +got):\n%s", diff)
	}
}

// Pins SAT-32.
func TestWithoutReference(t *testing.T) {
	for name, tc := range map[string]struct {
		references []string
		want       []string
	}{
		"not listed":            {[]string{"a", "b"}, nil},
		"no references":         {nil, nil},
		"listed":                {[]string{"a", "s", "b"}, []string{"a", "b"}},
		"listed more than once": {[]string{"s", "a", "s"}, []string{"a"}},
		"the only one":          {[]string{"s"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			before := account("sa", "u1", tc.references...)
			got := withoutReference(before, "s")
			if diff := cmp.Diff(account("sa", "u1", tc.references...), before); diff != "" {
				t.Errorf("the object passed in was changed:\n%s", diff)
			}
			if tc.want == nil {
				if got != nil {
					t.Errorf("withoutReference = %v, want nil", got)
				}
				return
			}
			names := []string{}
			for _, ref := range got.Secrets {
				names = append(names, ref.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}
