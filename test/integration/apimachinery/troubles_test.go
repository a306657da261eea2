package apimachinery

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// What happens to objects between the moment they are read and that of their rewrite: the first
// rewrite is held up until it has happened.
func TestWhatHappensDuringAMigration(t *testing.T) {
	cluster.Rest(t, enabled)
	proxy := faultproxy.Start(t, cluster.ControlPlane)
	kubeconfig := must.Get(proxy.Kubeconfig("manager", controlplane.ManagerUser))(t)
	manager.Join(t, cluster.ControlPlane, runtime.Options{}, func(c *manager.Config) {
		configure(c)
		c.ClientConnection.Kubeconfig = kubeconfig
	})
	migrateWhile := func(t *testing.T, g gadgets, happens func()) *metav1.Condition {
		t.Helper()
		g.storeAsV2(t)
		held := proxy.HoldRequests(faultproxy.Requests{Resource: schema.GroupResource{Group: g.group, Resource: "gadgets"}, Verbs: []string{"patch"}})
		t.Cleanup(held.Lift)
		name := migrate(t, g.group, "gadgets")
		await.That(t, "the first rewrite is on its way", func(ctx context.Context) error {
			if held.Hits() == 0 {
				g.touch(ctx)
				return errors.New("none is")
			}
			return nil
		})
		happens()
		held.Lift()
		return awaitEnd(t, name, g.touch)
	}

	t.Run("SVM-34a: an object is changed, which stores it anew", func(t *testing.T) {
		g := newGadgets(t, 2)
		from := must.Get(cluster.Audit().Mark())(t)
		result := migrateWhile(t, g, func() {
			must.Get(g.at("v1").Patch(t.Context(), "gadget-00", types.MergePatchType, []byte(`{"metadata":{"labels":{"changed":"meanwhile"}}}`), metav1.PatchOptions{}))(t)
		})
		if result.Type != "Succeeded" {
			t.Errorf("it has %+v", result)
		}
		if changed := g.all(t)["gadget-00"]; changed.GetLabels()["changed"] != "meanwhile" {
			t.Errorf("the change is lost: %v", changed.Object)
		}
		await.That(t, "each object was asked for once", func(context.Context) error {
			var got []string
			for _, e := range rewrites(t, from, g.namespace) {
				got = append(got, fmt.Sprint(e.ObjectRef.Name, " ", e.ResponseStatus.Code))
			}
			if want := []string{"gadget-00 409", "gadget-01 200"}; !slices.Equal(got, want) {
				return fmt.Errorf("requests are %q", got)
			}
			return nil
		})
	})
	t.Run("SVM-34c: the definition is deleted", func(t *testing.T) {
		g := newGadgets(t, 2)
		result := migrateWhile(t, g, func() {
			must.Succeed(t, g.definitions().Delete(t.Context(), g.name(), metav1.DeleteOptions{}))
			await.That(t, "gadgets are not served", func(ctx context.Context) error {
				_, err := g.at("v2").List(ctx, metav1.ListOptions{})
				return await.Gone(err)
			})
		})
		if result.Type != "Failed" || !strings.HasPrefix(result.Message, "migration encountered unhandled error: the server could not find the requested resource") {
			t.Errorf("it has %+v", result)
		}
	})
}

// A webhook that fails is asked again, and one that refuses ends the migration. Pins SVM-58.
func TestAMigrationAsksAWebhookUntilItAnswers(t *testing.T) {
	t.Parallel()
	g := newGadgets(t, 1)
	g.storeAsV2(t)
	const failures = 2
	var asked atomic.Int32
	webhook(t, g, func(review *admissionv1.AdmissionRequest) (refusal string) {
		if review.UserInfo.Username == migrator && asked.Add(1) <= failures {
			return ""
		}
		return "gadgets stay as they are"
	})
	result := awaitEnd(t, migrate(t, g.group, "gadgets"), g.touch)
	if result.Type != "Failed" || !strings.Contains(result.Message, "denied the request: gadgets stay as they are") {
		t.Errorf("it has %+v", result)
	}
	if got := asked.Load(); got != failures+1 {
		t.Errorf("the webhook was asked %d times", got)
	}
	if got := g.shown(t.Context(), t); !slices.Equal(got, []string{"v1 v2", "False MigrationFailed"}) {
		t.Errorf("definition has %q", got)
	}
}

// webhook has the API server ask before gadgets change, until the end of the test. Without a refusal
// the webhook fails. Whoever is not the migrator has to be refused.
func webhook(t *testing.T, g gadgets, refuse func(*admissionv1.AdmissionRequest) string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		refusal := refuse(review.Request)
		if refusal == "" {
			http.Error(w, "it is broken", http.StatusInternalServerError)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: refusal}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	webhooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	must.Get(webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: g.name()},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "refuse." + g.group, AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{g.group}, APIVersions: []string{"*"}, Resources: []string{"gadgets"}},
			}},
		}},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = webhooks.Delete(context.Background(), g.name(), metav1.DeleteOptions{}) })
	awaitRefusal(t, g)
}
