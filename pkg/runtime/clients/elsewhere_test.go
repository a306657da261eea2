package clients

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A redirect, of an aggregated API server for example, leads neither tokens nor objects to another server. Pins MGR-265.
func TestRedirectsLeadToNoOtherServer(t *testing.T) {
	for name, identity := range map[string]Identity{
		"with the token of the process":     {Name: "c"},
		"with the token of service account": {Name: "c", ServiceAccount: "sa"},
	} {
		t.Run(name, func(t *testing.T) {
			other := newServer(t)
			s, accounts := newServer(t), newAccountServer()
			s.answer(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.Contains(r.URL.Path, "/serviceaccounts"):
					accounts.answer(w, r)
				case strings.HasSuffix(r.URL.Path, "/here"):
					http.Redirect(w, r, s.URL+strings.TrimSuffix(r.URL.Path, "here")+"x", http.StatusTemporaryRedirect)
				case strings.HasSuffix(r.URL.Path, "/there"):
					http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
				default:
					emptyObject(w, r)
				}
			})
			clients := s.clients(func(o *Options) { o.ServiceAccounts = identity.ServiceAccount != "" })
			set, err := clients.For(identity, NewFence())
			if err != nil {
				t.Fatal(err)
			}
			configMaps := set.Kubernetes.CoreV1().ConfigMaps("ns")
			if _, err := configMaps.Get(t.Context(), "here", metav1.GetOptions{}); err != nil {
				t.Errorf("a redirect within the API server: %v", err)
			}
			_, read := configMaps.Get(t.Context(), "there", metav1.GetOptions{})
			written := configMap(map[string]string{"a": "b"})
			written.Name = "there"
			_, write := configMaps.Update(t.Context(), written, metav1.UpdateOptions{})
			for _, err := range []error{read, write} {
				if err == nil || !strings.Contains(err.Error(), "redirected") {
					t.Errorf("a redirect to another server: %v", err)
				}
			}
			for _, request := range other.seen() {
				t.Errorf("the other server got %s %s, authorization %q, %q", request.method, request.path, request.authorization, request.body)
			}
		})
	}
}
