package cloudnodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/names"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

// Pins CNLC-1, CNLC-23 and CLOUD-1.
func TestNamesAndIdleness(t *testing.T) {
	d := Descriptor()
	if d.Name != names.CloudNodeLifecycleController || names.CCMControllerAliases()[d.Aliases[0]] != d.Name {
		t.Errorf("it is called %s, formerly %v", d.Name, d.Aliases)
	}
	cfg := v1beta1.NewDefault()
	if built, err := newController(controllertest.New(t).Env, configOf(cfg)); built != nil || err != nil {
		t.Errorf("without a provider New = %v, %v", built, err)
	}
	cfg.Cloud.Provider = fakecloud.Name
	if got := configOf(cfg).period; got != 5*time.Second {
		t.Errorf("the period is %v", got)
	}
}

func nodeOf(t *testing.T, name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name() + "-" + name, UID: "uid-of-the-node"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// run runs an instance with the defaults.
func run(t *testing.T, env *controllertest.Env) (stop func()) {
	t.Helper()
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Name
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.Start(t)
	return env.Run(t, c)
}

// The node that is gone was never initialized.
// Pins CNLC-4, CNLC-6, CNLC-15, CNLC-16, CNLC-21, CNLC-22 and CNODE-26.
func TestRoundOverTheNodes(t *testing.T) {
	gone, ready, fine := nodeOf(t, "gone", corev1.ConditionUnknown), nodeOf(t, "ready", corev1.ConditionTrue), nodeOf(t, "fine", corev1.ConditionFalse)
	gone.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
	cloud := fakecloud.The()
	cloud.Reset()
	cloud.Remove(gone.Name)
	cloud.Remove(ready.Name)
	env := controllertest.New(t, gone, ready, fine)
	stop := run(t, env)
	controllertest.Eventually(t, "the node that is gone is deleted, and the other asked about", func() bool {
		return len(env.Writes()) > 0 && len(cloud.Calls("InstanceShutdown "+fine.Name)) > 0
	})
	stop()
	if writes := env.Writes(); len(writes) != 1 {
		t.Fatalf("sent are %v", writes)
	}
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

// One call of the provider holds up the whole round. Pins CNLC-18.
func TestNodesAreJudgedOneAfterAnother(t *testing.T) {
	cloud := fakecloud.The()
	cloud.Reset()
	held := cloud.Hold("InstanceExists " + t.Name())
	t.Cleanup(held.Release)
	env := controllertest.New(t, nodeOf(t, "a", corev1.ConditionFalse), nodeOf(t, "b", corev1.ConditionFalse))
	run(t, env)
	asked := func() int { return len(cloud.Calls("InstanceExists " + t.Name())) }
	controllertest.Eventually(t, "the provider is asked", func() bool { return asked() == 1 })
	await.Stays(t, "it is asked about one node", 50*time.Millisecond, func(context.Context) error {
		if n := asked(); n != 1 {
			return fmt.Errorf("it is asked about %d", n)
		}
		return nil
	})
	held.Release()
	controllertest.Eventually(t, "it is asked about the other", func() bool { return asked() > 1 })
}

// Pins CNLC-13 and CLOUD-16.
func TestTaintIsTriedFiveTimes(t *testing.T) {
	controllertest.InBubble(taintIsTriedFiveTimes)(t)
}

func taintIsTriedFiveTimes(t *testing.T) {
	node := nodeOf(t, "off", corev1.ConditionFalse)
	fakecloud.The().Reset()
	fakecloud.The().ShutDown(node.Name)
	env := controllertest.New(t, node)
	var tries []time.Time
	env.Intercept("get nodes "+node.Name, func(clienttesting.Action) error {
		tries = append(tries, time.Now())
		return apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("the object has been modified"))
	})
	stop := run(t, env)
	controllertest.Eventually(t, "the next round has tried", func() bool {
		env.Fake.RLock() // under which requests are answered
		defer env.Fake.RUnlock()
		return len(tries) > 5
	})
	stop()
	for i := range 4 {
		if pause := tries[i+1].Sub(tries[i]); pause < 100*time.Millisecond {
			t.Errorf("a pause of %v", pause)
		}
	}
	if pause := tries[5].Sub(tries[4]); pause < 5*time.Second {
		t.Errorf("the next round began %v after the one before", pause)
	}
}

// Pins CLOUD-17.
func TestProviderWithoutInstancesLeavesItIdle(t *testing.T) {
	env := controllertest.New(t, nodeOf(t, "gone", corev1.ConditionFalse))
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Lacking
	c := must.Get(newController(env.Env, configOf(cfg)))(t)
	env.WantIdleFor(t, c, "cloud provider does not support instances")
}
