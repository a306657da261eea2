package controller_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kcmd.dev/test/controllertest"
)

func TestScalesOfCustomResourcesAreReadAsJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/test.kcmd.dev/v1/namespaces/n/widgets/w/scale" || r.Header.Get("Accept") != "application/json" {
			t.Errorf("asked for %s as %q", r.URL.Path, r.Header.Get("Accept"))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"uid":"u"},"spec":{"replicas":7}}`)
	}))
	t.Cleanup(server.Close)
	widgets := schema.GroupVersion{Group: "test.kcmd.dev", Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{widgets})
	mapper.Add(widgets.WithKind("Widget"), meta.RESTScopeNamespace)
	env := controllertest.New(t)
	env.Mapper = mapper
	env.RESTConfig = &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf",
	}}
	client, err := env.Scales()
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Scales("n").Get(t.Context(), schema.GroupResource{Group: "test.kcmd.dev", Resource: "widgets"}, "w", metav1.GetOptions{})
	if err != nil || got.Spec.Replicas != 7 || got.UID != "u" {
		t.Errorf("got %v, %v", got, err)
	}
	if env.RESTConfig.AcceptContentTypes != "application/vnd.kubernetes.protobuf" || env.RESTConfig.GroupVersion != nil {
		t.Errorf("the configuration of the other clients was changed: %v", env.RESTConfig)
	}
}
