package logging

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// TestBodiesAreWithheld checks that the requests of client-go are logged at high levels, and that what they and the
// responses carry, such as tokens, is not. Pins MGR-223.
func TestBodiesAreWithheld(t *testing.T) {
	const asked, received = "the-token-of-a-client", "the-token-of-an-account"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/token") {
			_, _ = io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"`+received+`"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true}}`)
	}))
	t.Cleanup(server.Close)
	for _, format := range []string{logsapi.DefaultLogFormat, logsapi.JSONLogFormat} {
		t.Run(format, func(t *testing.T) {
			var stderr bytes.Buffer
			o := newOutput(logsapi.LoggingOptions{ErrorStream: &stderr, InfoStream: &stderr})
			t.Cleanup(klog.ClearLogger)
			if err := apply(o, configuration(format, 10)); err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			// A logger in the context is derived from that of the process.
			ctx := klog.NewContext(t.Context(), klog.LoggerWithName(klog.Background(), "a-controller"))
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: asked}}
			if _, err := client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			answer, err := client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "a-controller",
				&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if err != nil || answer.Status.Token != received {
				t.Fatalf("got %v, %v", answer, err)
			}
			// The last one begins the dump of a body in protobuf, in which a token is broken into lines.
			for _, secret := range []string{asked, received, "00000000  "} {
				if strings.Contains(stderr.String(), secret) {
					t.Errorf("the log has %q:\n%s", secret, stderr.String())
				}
			}
			for _, message := range []string{"Request Body", "Response Body", "/token"} {
				if !strings.Contains(stderr.String(), message) {
					t.Errorf("the log lacks %q:\n%s", message, stderr.String())
				}
			}
		})
	}
}
