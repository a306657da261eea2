package cloudnodelifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/cloud-provider/names"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
)

// Pins CNLC-1, CNLC-23 and CLOUD-1.
func TestNamesAndIdleness(t *testing.T) {
	d := Descriptor()
	if d.Name != names.CloudNodeLifecycleController || names.CCMControllerAliases()[d.Aliases[0]] != d.Name {
		t.Errorf("it is called %s, formerly %v", d.Name, d.Aliases)
	}
	cfg := v1beta1.NewDefault()
	if built, err := newController(controllertest.New(t).Env, valueOf(cfg)); built != nil || err != nil {
		t.Errorf("without a provider New = %v, %v", built, err)
	}
	cfg.Cloud.Provider = fakecloud.Name
	if got := valueOf(cfg).period; got != 5*time.Second {
		t.Errorf("the period is %v", got)
	}
}

// Pins CNLC-4, CNLC-6, CNLC-15, CNLC-16, CNLC-21 and CNLC-22.
func TestRoundOverTheNodes(t *testing.T) {
	nodeOf := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name() + "-" + name, UID: "uid-of-the-node"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	gone, ready, fine := nodeOf("gone", corev1.ConditionUnknown), nodeOf("ready", corev1.ConditionTrue), nodeOf("fine", corev1.ConditionFalse)
	cloud := fakecloud.The()
	cloud.Remove(gone.Name)
	cloud.Remove(ready.Name)
	env := controllertest.New(t, gone, ready, fine)
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Name
	c, err := newController(env.Env, valueOf(cfg))
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	stop := env.Run(t, c)
	controllertest.Eventually(t, "the node that is gone is deleted, and the other asked about", func() bool {
		return len(env.Writes()) == 1 && len(cloud.Calls("InstanceShutdown "+fine.Name)) == 1
	})
	stop()
	sent, ok := env.Writes()[0].(clienttesting.DeleteAction)
	if !ok || sent.GetName() != gone.Name {
		t.Fatalf("%v was sent", env.Writes()[0])
	}
	if p := sent.GetDeleteOptions().Preconditions; p == nil || p.UID == nil || *p.UID != gone.UID {
		t.Errorf("the preconditions are %+v", p)
	}
	if calls := cloud.Calls("InstanceExists " + ready.Name); len(calls) > 0 {
		t.Errorf("the cloud was asked about a node that is ready: %v", calls)
	}
}
