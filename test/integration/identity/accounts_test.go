package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// tokenRequests counts requests of the process for tokens, by account, and lists what else
// it asked about accounts.
func tokenRequests(t *testing.T, from controlplane.Mark) (byAccount map[string]int, others []string) {
	t.Helper()
	byAccount = map[string]int{}
	for _, e := range since(t, from, controlplane.ByUser(controlplane.ManagerUser), controlplane.ByResource("serviceaccounts", "serviceaccounts/token")) {
		switch {
		case !strings.HasSuffix(e.UserAgent, "/kube-controller-manager"):
		case e.ObjectRef.Subresource == "token":
			byAccount[e.ObjectRef.Name]++
		default:
			others = append(others, e.Verb+" "+e.RequestURI)
		}
	}
	return byAccount, others
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}
}

func createReplicaSet(ctx context.Context, namespace string) error {
	_, err := plane.AdminClient().AppsV1().ReplicaSets(namespace).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: podTemplate(),
		},
	}, metav1.CreateOptions{})
	return err
}

// replicated waits until each ReplicaSet of a namespace has its pod.
func replicated(t *testing.T, namespace string) {
	t.Helper()
	await.That(t, "every ReplicaSet has its pod", func(context.Context) error {
		list, err := plane.AdminClient().AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, rs := range list.Items {
			if rs.Status.Replicas != 1 {
				return fmt.Errorf("%s has %d", rs.Name, rs.Status.Replicas)
			}
		}
		return nil
	})
}

// Each account costs one request: for its token, with the first request it is needed for.
// Restarts cost none.
// Pins MGR-183.
func TestAccountsCostOneRequestEach(t *testing.T) {
	first := start(t, nil)
	published(t) // the accounts exist
	must.Succeed(t, first.Stop())
	from := mark(t)
	m := start(t, nil)
	published(t)
	before, others := tokenRequests(t, from)
	if len(before) == 0 || len(others) > 0 {
		t.Errorf("requests for tokens %v, others %q", before, others)
	}
	for account, n := range before {
		if n != 1 {
			t.Errorf("%d requests for the token of %s", n, account)
		}
	}
	from = mark(t)
	must.Succeed(t, m.Edit(t.Context(), func(c *manager.Config) {
		c.ServiceAccounts.RootCAFile = plane.RequestHeaderCAFile() // restarts the publisher, which has a token
	}))
	must.Succeed(t, m.WaitRunning(t.Context()))
	published(t)
	if again, others := tokenRequests(t, from); again["root-ca-cert-publisher"] != 0 || len(others) > 0 {
		t.Errorf("after a restart: requests for tokens %v, others %q", again, others)
	}
	t.Logf("%d accounts in use, one request each", len(before))
}

// An account is deleted, and its tokens with it: it is recreated and used.
func TestDeletedAccountIsReplaced(t *testing.T) {
	accounts := plane.AdminClient().CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	const account = "replicaset-controller"
	m := start(t, nil)
	namespace := plane.Namespace(t)
	must.Succeed(t, createReplicaSet(t.Context(), namespace))
	replicated(t, namespace)
	old, err := accounts.Get(t.Context(), account, metav1.GetOptions{})
	must.Succeed(t, err)
	must.Succeed(t, accounts.Delete(t.Context(), account, metav1.DeleteOptions{}))
	deleted := time.Now()
	work := time.NewTicker(200 * time.Millisecond)
	defer work.Stop()
	// The API server goes on accepting the token for as long as it remembers it.
	await.That(t, "the account is made anew", func(context.Context) error {
		select {
		case <-work.C:
			if err := createReplicaSet(t.Context(), namespace); err != nil {
				return err
			}
		default:
		}
		is, err := accounts.Get(t.Context(), account, metav1.GetOptions{})
		if err == nil && is.UID == old.UID {
			err = errors.New("it is still the old one")
		}
		return err
	})
	t.Logf("made anew %v after it was deleted", time.Since(deleted).Round(time.Millisecond))
	replicated(t, namespace)
	for _, c := range harness.Status(t, m).Controllers {
		if c.LastError != "" {
			t.Errorf("%s failed: %s", c.Name, c.LastError)
		}
	}
}

// An edit that needs an account for the first time does not wait for an API server that
// does not answer.
func TestReloadDoesNotWaitForTheAPIServer(t *testing.T) {
	m := start(t, func(c *manager.Config) { c.Controllers.Job.Enabled = ptr.To(false) })
	must.Succeed(t, plane.PauseAPIServer())
	resume := func() {
		if err := plane.ResumeAPIServer(); err != nil {
			t.Error(err)
		}
	}
	resumed := false
	defer func() {
		if !resumed {
			resume()
		}
	}()
	began := time.Now()
	must.Succeed(t, m.Edit(t.Context(), func(c *manager.Config) { c.Controllers.Job.Enabled = nil }))
	// Less than a request waits for an answer, and time enough for a busy machine.
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the edit took %v", took)
	} else {
		t.Logf("in force after %v", took.Round(time.Millisecond))
	}
	resume()
	resumed = true
	must.Succeed(t, m.WaitRunning(t.Context()))
	published(t)
}
