package apis

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// aggregated is what an API server says of one kind.
func aggregated(r schema.GroupVersionResource, kind string) apidiscoveryv2.APIGroupDiscoveryList {
	list := apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{
		ObjectMeta: metav1.ObjectMeta{Name: r.Group},
		Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: r.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Resources: []apidiscoveryv2.APIResourceDiscovery{{
			Resource: r.Resource, ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: kind},
			Scope: apidiscoveryv2.ScopeNamespace, Verbs: []string{"list", "watch"},
		}}}},
	}}}
	list.APIVersion, list.Kind = "apidiscovery.k8s.io/v2", "APIGroupDiscoveryList"
	return list
}

// A refresh costs two requests, and answers all questions until the next one. Pins MGR-157.
func TestWhatDiscoveryCosts(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		answer := aggregated(deployments, "Deployment")
		if r.URL.Path == "/api" {
			answer = aggregated(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "Pod")
		}
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer api.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := New(client, clock.RealClock{})
	for n := range 3 {
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if missing := c.Missing([]schema.GroupVersionResource{deployments}); missing != "" {
			t.Error(missing)
		}
		for range 5 {
			if _, err := c.Mapper().RESTMapping(schema.GroupKind{Kind: "Pod"}); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		slices.Sort(asked)
		if !slices.Equal(asked, []string{"/api", "/apis"}) {
			t.Errorf("refresh %d: requests %q", n, asked)
		}
		asked = nil
		mu.Unlock()
	}
}
