package serving

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/fakeclient"
)

// The API server does not say how a front proxy authenticates itself: then there is none, until it does. Pins MGR-187.
func TestTheFrontProxyIsLookedUpInTheBackground(t *testing.T) {
	client := fakeclient.New()
	asked := false
	client.PrependReactor("*", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked = true
		return true, nil, errors.New("down")
	})
	proxy, err := frontProxy(v1beta1.Authentication{}, client)
	if err != nil {
		t.Fatal(err)
	}
	runner, ok := proxy.CAContentProvider.(dynamiccertificates.ControllerRunner)
	if !ok {
		t.Fatalf("nobody looks it up: %T", proxy.CAContentProvider)
	}
	if err := runner.RunOnce(t.Context()); err != nil || asked {
		t.Errorf("the start waits for an answer: %v", err)
	}
	if _, verifies := proxy.CAContentProvider.VerifyOptions(); verifies || len(proxy.UsernameHeaders.Value()) > 0 {
		t.Error("a proxy is accepted")
	}
}
