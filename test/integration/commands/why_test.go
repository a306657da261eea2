package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/runtime/why"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// asking is a process that the command asks.
type asking struct {
	program
	flags []string
}

// text returns the answer of the command for people.
func (a asking) text(t *testing.T, args ...string) string {
	t.Helper()
	got := a.run(t, slices.Concat([]string{"why"}, args, a.flags)...)
	got.good(t)
	return got.stdout
}

// answer returns the answer of the command for programs.
func (a asking) answer(t *testing.T, args ...string) why.Answer {
	t.Helper()
	var decoded why.Answer
	must.Succeed(t, json.Unmarshal([]byte(a.text(t, append(args, "-o", "json")...)), &decoded))
	return decoded
}

// awaitText asks until the answer has these parts.
func (a asking) awaitText(t *testing.T, what string, parts []string, args ...string) {
	t.Helper()
	await.That(t, what, func(context.Context) error {
		text := a.text(t, args...)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return fmt.Errorf("%q is missing in\n%s", part, text)
			}
		}
		return nil
	})
}

// Who asks why nothing happens to an object is told what was written, why, and what is in the way.
func TestWhy(t *testing.T) {
	binary := must.Get(manager.Build(t.Context(), plane.Dir()))(t)
	p := program{path: binary, home: t.TempDir()}
	serving := func(certificates string) func(*manager.Config) {
		return func(c *manager.Config) {
			harness.OwnLease(t)(c)
			c.Serving.TLS.CertDirectory = certificates
			c.Serving.Authorization.UnauthorizedTTL = &metav1.Duration{} // a refusal is not remembered
			c.Reload.SettleTime = &metav1.Duration{Duration: time.Millisecond}
		}
	}
	certificates := t.TempDir()
	m := manager.StartProcess(t, plane, serving(certificates))
	trust := []string{"--config", m.ConfigFile(), "--ca-file", filepath.Join(certificates, "kube-controller-manager.crt")}
	admin := []string{"--kubeconfig", plane.AdminKubeconfig()}
	leader := asking{program: p, flags: append(trust, admin...)}

	t.Run("without rights", func(t *testing.T) {
		namespace := plane.Namespace(t)
		viewer := token(t, namespace, "viewer")
		flags := append(slices.Clone(trust), "--token-file", viewer)
		command := append([]string{"why", "deployment/web"}, flags...)
		p.run(t, command...).failed(t, `cannot get path "/debug/why"`,
			"kubectl create clusterrole kube-controller-manager-why --verb=get --non-resource-url=/debug/why")
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-controller-manager-why"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/debug/why"}}},
		}
		roles, bindings := plane.AdminClient().RbacV1().ClusterRoles(), plane.AdminClient().RbacV1().ClusterRoleBindings()
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			must.Succeed(t, errors.Join(roles.Delete(ctx, role.Name, metav1.DeleteOptions{}), bindings.Delete(ctx, role.Name, metav1.DeleteOptions{})))
		})
		must.Get(roles.Create(t.Context(), role, metav1.CreateOptions{}))(t)
		must.Get(bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "viewer"}},
		}, metav1.CreateOptions{}))(t)
		await.True(t, "what was advised helps", func() bool { return p.command(t.Context(), command...).Run() == nil })
	})
	t.Run("a rollout", func(t *testing.T) { explainRollout(t, leader, m) })
	t.Run("a quota that refuses pods", func(t *testing.T) { explainQuota(t, leader) })
	t.Run("a namespace that does not go away", func(t *testing.T) { explainNamespace(t, leader) })
	t.Run("a process that stands by", func(t *testing.T) {
		certificates := t.TempDir()
		standby := manager.JoinProcess(t, plane, func(c *manager.Config) {
			serving(certificates)(c)
			c.LeaderElection.ResourceName = m.Config().LeaderElection.ResourceName
		})
		harness.Wait(t, standby, "the second process stands by", harness.StandsBy)
		second := asking{program: p, flags: append([]string{
			"--config", standby.ConfigFile(), "--ca-file", filepath.Join(certificates, "kube-controller-manager.crt"),
		}, admin...)}
		holder := harness.Status(t, m).Leadership.Lease.Holder
		second.awaitText(t, "the process says who holds the lease", []string{
			"This process stands by for ", "deployment-controller", "Of the lock main, " + holder + " holds the lease: ask that process.",
			"this process has written nothing yet.",
		}, "deployment/web")
	})
	t.Run("a controller that is disabled", func(t *testing.T) {
		off := false
		harness.Edit(t, m, func(c *manager.Config) { c.Controllers.Deployment.Enabled = &off })
		leader.awaitText(t, "the process says which setting it is", []string{
			"deployment-controller is disabled by controllers.deployment-controller.enabled.", "The object does not exist.",
		}, "deploy/nothing")
	})
}

// explainRollout shows the writes of two controllers for one Deployment, and in which generation
// of the configuration they were made.
func explainRollout(t *testing.T, a asking, m *manager.Process) {
	namespace := harness.NamespaceForPods(t, plane)
	deployments := plane.AdminClient().AppsV1().Deployments(namespace)
	d := harness.NewDeployment(2, nil)
	must.Get(deployments.Create(t.Context(), d, metav1.CreateOptions{}))(t)
	find := func(answer why.Answer, verb, resource, controller string) (why.Write, error) {
		for _, w := range slices.Backward(answer.Writes) {
			if w.Verb == verb && w.Object.Resource == resource && w.Controller == controller && w.Error == "" {
				return w, nil
			}
		}
		return why.Write{}, fmt.Errorf("there is no %s of %s by %s in %+v", verb, resource, controller, answer.Writes)
	}
	var pod, set why.Write
	await.That(t, "the creation of pods is explained", func(context.Context) (err error) {
		answer := a.answer(t, "deployment/"+d.Name, "-n", namespace, "--last", "1000")
		pod, err = find(answer, "create", "pods", "replicaset-controller")
		if err == nil {
			set, err = find(answer, "create", "replicasets.apps", "deployment-controller")
		}
		return err
	})
	status := harness.Status(t, m)
	term, generation := status.Leadership.Term, status.Configuration.Generation
	if pod.Code != 201 || pod.Term != term || pod.Generation != generation || pod.Took <= 0 || pod.Object.Name == "" || strings.HasSuffix(pod.Object.Name, "*") {
		t.Errorf("the write of a pod is %+v, in term %d and generation %d", pod, term, generation)
	}
	if pod.Key != namespace+"/"+set.Object.Name || pod.Trigger != "ReplicaSet "+pod.Key+" added" || pod.Queue != "replicaset" {
		t.Errorf("the pod was made for %q because of %q, and the ReplicaSet is %q", pod.Key, pod.Trigger, set.Object.Name)
	}
	if want := namespace + "/" + d.Name; set.Key != want || set.Trigger != "Deployment "+want+" added" {
		t.Errorf("the ReplicaSet was made for %q because of %q", set.Key, set.Trigger)
	}
	harness.Edit(t, m, func(c *manager.Config) { c.Reload.SettleTime = &metav1.Duration{Duration: 2 * time.Millisecond} })
	must.Get(deployments.Patch(t.Context(), d.Name, types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}))(t)
	await.That(t, "the update of the ReplicaSet is in the next generation", func(context.Context) error {
		w, err := find(a.answer(t, "replicaset", set.Object.Name, "-n", namespace, "--last", "1000"), "update", "replicasets.apps", "deployment-controller")
		if err == nil && w.Generation != generation+1 {
			err = fmt.Errorf("the write is %+v", w)
		}
		return err
	})
}

// explainQuota shows who is refused what, and when it is tried again.
func explainQuota(t *testing.T, a asking) {
	namespace := harness.NamespaceForPods(t, plane)
	quotas := plane.AdminClient().CoreV1().ResourceQuotas(namespace)
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	must.Get(quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "no-pods"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
	}, metav1.CreateOptions{}))(t)
	await.That(t, "the quota is in force", func(ctx context.Context) error {
		quota, err := quotas.Get(ctx, "no-pods", metav1.GetOptions{})
		if err == nil && len(quota.Status.Hard) == 0 {
			err = errors.New("it has no status")
		}
		return err
	})
	d := harness.NewDeployment(1, func(d *appsv1.Deployment) { d.Name = "refused" })
	must.Get(plane.AdminClient().AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}))(t)
	a.awaitText(t, "the refusal is explained", []string{
		"The last create of pods by replicaset-controller failed: pods \"refused-",
		"is forbidden: exceeded quota: no-pods, requested: pods=1, used: pods=0, limited: pods=0",
		"replicaset-controller, queue replicaset, key " + namespace + "/refused-",
		"failures in a row, the last of which is: ",
		"deployment-controller  ", "Running", " 403 pods ",
	}, "deployment/refused", "-n", namespace, "--last", "1000")
}

// explainNamespace shows what keeps a namespace, and that asking sends no request.
func explainNamespace(t *testing.T, a asking) {
	namespace := plane.Namespace(t)
	admin := plane.AdminClient().CoreV1()
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "keeper", Finalizers: []string{"example.com/hold"}}}
	must.Get(admin.ConfigMaps(namespace).Create(t.Context(), held, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_, err := admin.ConfigMaps(namespace).Patch(context.WithoutCancel(t.Context()), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	must.Succeed(t, admin.Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	a.awaitText(t, "what is left is named", []string{
		"It was deleted ",
		"NamespaceFinalizersRemaining, since ", "example.com/hold in 1 resource instances",
		"configmaps keeper is left: it has the finalizer example.com/hold, which no controller of Kubernetes removes: whoever set it has to.",
		"namespace-controller, queue namespace, key " + namespace + ": waits until ",
		"deletecollection",
	}, "ns/"+namespace, "--last", "1000")
}
