package bootstrapsigner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
)

// epoch is when controllertest's clocks start.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// vector is the signature of payload with the token of secret.
const vector = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"

// secret is that of a token that signs, with other data as its pairs say; an empty value
// removes what is there.
func secret(pairs ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abc123", ResourceVersion: "1"},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abc123"), "token-secret": []byte("tokenSecret"), "usage-bootstrap-signing": []byte("true"),
		},
	}
	for n := 0; n < len(pairs); n += 2 {
		if s.Data[pairs[n]] = []byte(pairs[n+1]); pairs[n+1] == "" {
			delete(s.Data, pairs[n])
		}
	}
	return s
}

func changed(s *corev1.Secret, change func(*corev1.Secret)) *corev1.Secret {
	change(s)
	return s
}

func named(name string) *corev1.Secret {
	return changed(secret(), func(s *corev1.Secret) { s.Name = name })
}

func in(d time.Duration) string { return epoch.Add(d).Format(time.RFC3339) }

func TestTokenOf(t *testing.T) {
	for name, test := range map[string]struct {
		secret    *corev1.Secret
		remaining time.Duration
		signs     bool
		wrong     string
	}{
		"BOOT-15: signs":                             {secret(), 0, true, ""},
		"BOOT-15e: expires in an hour":               {secret("expiration", in(time.Hour)), time.Hour, true, ""},
		"BOOT-15e: expired an hour ago":              {secret("expiration", in(-time.Hour)), 0, false, "it has expired"},
		"BOOT-15e: expires now":                      {secret("expiration", in(0)), 0, false, "it has expired"},
		"BOOT-15e: not a time":                       {secret("expiration", "garbage"), 0, false, "its expiration is not an RFC 3339 time"},
		"BOOT-15a: no prefix":                        {named("abc123"), 0, false, "the name of the Secret is not bootstrap-token-<token ID>"},
		"BOOT-15a: an ID that is too long":           {named("bootstrap-token-abc1234"), 0, false, "the name of the Secret is not bootstrap-token-<token ID>"},
		"BOOT-15a: an ID with other characters":      {named("bootstrap-token-abc-12"), 0, false, "the name of the Secret is not bootstrap-token-<token ID>"},
		"BOOT-15b: no ID":                            {secret("token-id", ""), 0, false, "it has no token-id"},
		"BOOT-15c: the name has another ID":          {named("bootstrap-token-xyz789"), 0, false, "its token-id is not the one in its name"},
		"BOOT-15d: no secret":                        {secret("token-secret", ""), 0, false, "it has no token-secret"},
		"BOOT-15d: a secret of any length":           {secret("token-secret", "x"), 0, true, ""},
		"BOOT-15f: no usage":                         {secret("usage-bootstrap-signing", ""), 0, false, ""},
		"BOOT-15f: a usage that is not quite true":   {secret("usage-bootstrap-signing", "True"), 0, false, ""},
		"BOOT-15: in order, the name before the ID":  {changed(secret("token-id", ""), func(s *corev1.Secret) { s.Name = "x" }), 0, false, "the name of the Secret is not bootstrap-token-<token ID>"},
		"BOOT-15: in order, the time before the use": {secret("expiration", in(-1), "usage-bootstrap-signing", ""), 0, false, "it has expired"},
		"BOOT-15: no use of authentication":          {secret("usage-bootstrap-authentication", "false", "auth-extra-groups", "nonsense"), 0, true, ""},
		"BOOT-15b: no data":                          {changed(secret(), func(s *corev1.Secret) { s.Data = nil }), 0, false, "it has no token-id"},
	} {
		t.Run(name, func(t *testing.T) {
			got, signs, wrong := tokenOf(test.secret, epoch)
			if signs != test.signs || wrong != test.wrong || got.remaining != test.remaining {
				t.Errorf("got %v for %v, %v, %q", got, got.remaining, signs, wrong)
			}
			if signs && (got.id != "abc123" || got.secret != string(test.secret.Data["token-secret"])) {
				t.Errorf("the token is %s", got)
			}
		})
	}
}

func TestSign(t *testing.T) {
	abc, xyz := token{id: "abc123", secret: "tokenSecret"}, token{id: "xyz789", secret: "0123456789abcdef"}
	type data = map[string]string
	for name, test := range map[string]struct {
		data   data
		tokens []token
		want   data
	}{
		"BOOT-16, BOOT-19: the signature of upstream": {data{"kubeconfig": "payload"}, []token{abc}, data{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}},
		"BOOT-16: another one is replaced":            {data{"kubeconfig": "payload", "jws-kubeconfig-abc123": "old"}, []token{abc}, data{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}},
		"BOOT-17: one without a token goes":           {data{"kubeconfig": "payload", "jws-kubeconfig-xyz789": "old"}, []token{abc}, data{"kubeconfig": "payload", "jws-kubeconfig-abc123": vector}},
		"BOOT-26: whatever has the prefix goes":       {data{"kubeconfig": "", "jws-kubeconfig-": "x", "jws-kubeconfig-No Token": "x"}, nil, data{"kubeconfig": ""}},
		"BOOT-26: other keys stay":                    {data{"kubeconfig": "", "jws-kubeconfi": "x", "more": "kept"}, nil, data{"kubeconfig": "", "jws-kubeconfi": "x", "more": "kept"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sign(test.data, test.tokens)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("BOOT-13, BOOT-25: an empty kubeconfig, and secrets of any length", func(t *testing.T) {
		tokens := []token{abc, xyz, {id: "short0", secret: "x"}}
		got, err := sign(data{"kubeconfig": ""}, tokens)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range tokens {
			if signature := got["jws-kubeconfig-"+token.id]; !jws.DetachedTokenIsValid(signature, "", token.id, token.secret) {
				t.Errorf("the signature of %s is %s", token, signature)
			}
		}
	})
}

// Pins BOOT-14.
func TestSignChangesNothingOfItsInput(t *testing.T) {
	before := map[string]string{"kubeconfig": "payload", "jws-kubeconfig-xyz789": "old"}
	if _, err := sign(before, []token{{id: "abc123", secret: "tokenSecret"}}); err != nil {
		t.Fatal(err)
	}
	if len(before) != 2 || before["jws-kubeconfig-xyz789"] != "old" {
		t.Errorf("it is %v", before)
	}
}

func TestNoFormatPrintsTheSecretOfAToken(t *testing.T) {
	tokens := []token{{id: "abc123", secret: "tokenSecret"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(format, tokens); strings.Contains(text, "tokenSecret") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	tokens := []token{{id: "abc123", secret: "0123456789abcdef"}, {id: "xyz789", secret: "0123456789abcdef"}}
	data := map[string]string{"kubeconfig": strings.Repeat("x", 2000)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := sign(data, tokens); err != nil {
			b.Fatal(err)
		}
	}
}
