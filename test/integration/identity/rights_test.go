package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// Every controller acts as its own service account, with the rights that the API server's
// bootstrap policy gives it: each has something to do here, and none is refused anything.
// Pins CRON-9, DEP-9, DS-11, EP-21, EPM-13, EPS-14, GC-17, JOB-19, NLC-22, NS-17, PDB-8, PODGC-5, ROOTCA-12, RS-9, SA-10
// and STS-9.
func TestRightsOfEveryController(t *testing.T) {
	from := mark(t)
	w := &workload{t: t, client: plane.AdminClient(), namespace: plane.Namespace(t)}
	w.createExpired() // is looked for when the cleaner starts, and an hour later
	m := start(t, func(c *manager.Config) {
		c.Controllers.BootstrapSigner.Enabled, c.Controllers.TokenCleaner.Enabled = ptr.To(true), ptr.To(true)
		c.Controllers.NodeIPAM.AllocateNodeCIDRs, c.Networking.ClusterCIDRs = ptr.To(true), []string{"10.244.0.0/16"}
		withCloud(c)
		// The nodes here never report.
		c.Controllers.NodeLifecycle.NodeStartupGracePeriod = &metav1.Duration{Duration: 2 * time.Second}
		c.Controllers.NodeLifecycle.NodeMonitorPeriod = &metav1.Duration{Duration: time.Second}
	})
	w.create()
	running := m.Runtime.Controllers()
	for _, d := range controllers.All() {
		state := supervisor.Disabled
		for _, s := range running {
			if s.Name == d.Name {
				state = s.State
			}
		}
		if state != supervisor.Running {
			t.Logf("%s is %s", d.Name, state)
			continue
		}
		user, agent := controlplane.ManagerUser, d.ClientName
		if d.ServiceAccount != "" {
			user, agent = "system:serviceaccount:kube-system:"+d.ServiceAccount, "system:serviceaccount:kube-system:"+d.ServiceAccount
		}
		await.That(t, d.Name+" has done something", func(context.Context) error {
			w.goOn()
			events, err := plane.Audit().Since(from, controlplane.ByUser(user), controlplane.Writes(), func(e *auditv1.Event) bool {
				return strings.HasSuffix(e.UserAgent, "/"+agent) && e.ObjectRef != nil && e.ObjectRef.Resource != "events" && e.ResponseStatus.Code < 400 &&
					(ofOne[d.Name] == "" || ofOne[d.Name] == e.Verb+" "+e.ObjectRef.Subresource)
			})
			if err == nil && len(events) == 0 {
				err = fmt.Errorf("%s has written nothing", user)
			}
			return err
		})
	}
	w.wantRanges()
	refused, err := manager.Forbidden(plane, from)
	must.Succeed(t, err)
	refused = slices.DeleteFunc(refused, func(line string) bool { return strings.Contains(line, "identity-fake") })
	if len(refused) > 0 {
		t.Errorf("%d requests were refused:\n%s", len(refused), strings.Join(refused, "\n"))
	}
}

// workload is something to do for every controller.
type workload struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}
}

// pods is a template and the selector of its pods.
func pods(name string) (corev1.PodTemplateSpec, *metav1.LabelSelector) {
	template := podTemplate()
	template.Labels = map[string]string{"app": name}
	return template, &metav1.LabelSelector{MatchLabels: template.Labels}
}

// made takes what a create returns.
func made(t *testing.T) func(any, error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		must.Succeed(t, err)
	}
}

func (w *workload) create() {
	w.t.Helper()
	w.createReplicated()
	w.createJobs()
	w.createNetwork()
	w.createSingle()
	w.createRoles()
	w.createRequests()
	w.createBootstrapTokens()
	w.leaveTokenUnused()
	w.createTainted()
	w.createPolicy()
	w.createServiceRange()
	w.createStorage()
	w.createDevices()
	w.createBrokenDevice()
	w.createInCloud()
}

// createReplicated is for the controllers of pods that stay.
func (w *workload) createReplicated() {
	w.t.Helper()
	ctx, apps := w.t.Context(), w.client.AppsV1()
	template, selector := pods("deployed")
	made(w.t)(apps.Deployments(w.namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: meta("deployed"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{}))
	template, selector = pods("stateful")
	made(w.t)(apps.StatefulSets(w.namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: meta("stateful"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "stateful"},
	}, metav1.CreateOptions{}))
	made(w.t)(w.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta("node-of-" + w.namespace)}, metav1.CreateOptions{}))
	w.t.Cleanup(func() {
		_ = w.client.CoreV1().Nodes().Delete(context.Background(), "node-of-"+w.namespace, metav1.DeleteOptions{})
	})
	template, selector = pods("daemon")
	made(w.t)(apps.DaemonSets(w.namespace).Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: meta("daemon"), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{}))
	template, selector = pods("controlled")
	made(w.t)(w.client.CoreV1().ReplicationControllers(w.namespace).Create(ctx, &corev1.ReplicationController{
		ObjectMeta: meta("controlled"), Spec: corev1.ReplicationControllerSpec{Selector: selector.MatchLabels, Template: &template},
	}, metav1.CreateOptions{}))
	made(w.t)(w.client.AutoscalingV2().HorizontalPodAutoscalers(w.namespace).Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: meta("scaled"),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "deployed"},
			MaxReplicas:    2,
		},
	}, metav1.CreateOptions{}))
	_, selector = pods("deployed")
	made(w.t)(w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: meta("budget"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: ptr.To(intstr.FromInt32(1))},
	}, metav1.CreateOptions{}))
}

// createJobs is for the controllers of pods that end.
func (w *workload) createJobs() {
	w.t.Helper()
	ctx, batch := w.t.Context(), w.client.BatchV1()
	template := podTemplate()
	template.Labels, template.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	spec := batchv1.JobSpec{Template: template, TTLSecondsAfterFinished: ptr.To[int32](0)}
	made(w.t)(batch.Jobs(w.namespace).Create(ctx, &batchv1.Job{ObjectMeta: meta("once"), Spec: spec}, metav1.CreateOptions{}))
	cron, err := batch.CronJobs(w.namespace).Create(ctx, &batchv1.CronJob{
		ObjectMeta: meta("often"), Spec: batchv1.CronJobSpec{Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	must.Succeed(w.t, err)
	// It was to run a minute ago, so it runs now.
	cron.Status.LastScheduleTime = &metav1.Time{Time: time.Now().Add(-2 * time.Minute)}
	made(w.t)(batch.CronJobs(w.namespace).UpdateStatus(ctx, cron, metav1.UpdateOptions{}))
}

// createNetwork is for the controllers of endpoints.
func (w *workload) createNetwork() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	_, selector := pods("deployed")
	ports := []corev1.ServicePort{{Port: 80}}
	made(w.t)(core.Services(w.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: meta("selecting"), Spec: corev1.ServiceSpec{Selector: selector.MatchLabels, Ports: ports},
	}, metav1.CreateOptions{}))
	made(w.t)(core.Services(w.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: meta("mirrored"), Spec: corev1.ServiceSpec{Ports: ports},
	}, metav1.CreateOptions{}))
	made(w.t)(core.Endpoints(w.namespace).Create(ctx, &corev1.Endpoints{
		ObjectMeta: meta("mirrored"),
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.9.8.7"}}, Ports: []corev1.EndpointPort{{Port: 80}}}},
	}, metav1.CreateOptions{}))
}

// createSingle is for the rest: collection of garbage, namespaces, tokens, quotas.
func (w *workload) createSingle() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	owner, err := core.ConfigMaps(w.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("owner")}, metav1.CreateOptions{})
	must.Succeed(w.t, err)
	dependent := &corev1.ConfigMap{ObjectMeta: meta("dependent")}
	dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	made(w.t)(core.ConfigMaps(w.namespace).Create(ctx, dependent, metav1.CreateOptions{}))
	must.Succeed(w.t, core.ConfigMaps(w.namespace).Delete(ctx, owner.Name, metav1.DeleteOptions{}))

	held := &corev1.Pod{ObjectMeta: meta("held"), Spec: podTemplate().Spec}
	held.Finalizers = []string{"example.com/hold"}
	made(w.t)(core.Pods(w.namespace).Create(ctx, held, metav1.CreateOptions{}))
	must.Succeed(w.t, core.Pods(w.namespace).Delete(ctx, held.Name, metav1.DeleteOptions{}))
	w.t.Cleanup(func() {
		_, _ = core.Pods(w.namespace).Patch(context.Background(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})

	made(w.t)(core.ResourceQuotas(w.namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: meta("quota"),
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/replicationcontrollers": resource.MustParse("100")}},
	}, metav1.CreateOptions{}))

	other := plane.Namespace(w.t)
	await.That(w.t, "the account of the other namespace is there", func(context.Context) error {
		_, err := core.ServiceAccounts(other).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	secret := &corev1.Secret{ObjectMeta: meta("token"), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	await.That(w.t, "a secret for a token can be created", func(context.Context) error {
		_, err := core.Secrets(w.namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	must.Succeed(w.t, core.Namespaces().Delete(ctx, other, metav1.DeleteOptions{}))
}

// createRoles is for the controllers of roles.
func (w *workload) createRoles() {
	w.t.Helper()
	ctx, roles := w.t.Context(), w.client.RbacV1().ClusterRoles()
	part := &rbacv1.ClusterRole{
		ObjectMeta: meta("part-of-" + w.namespace),
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}},
	}
	whole := &rbacv1.ClusterRole{
		ObjectMeta:      meta("whole-of-" + w.namespace),
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: part.Labels}}},
	}
	for _, role := range []*rbacv1.ClusterRole{part, whole} {
		made(w.t)(roles.Create(ctx, role, metav1.CreateOptions{}))
		w.t.Cleanup(func() { _ = roles.Delete(context.Background(), role.Name, metav1.DeleteOptions{}) })
	}
}

// createServiceRange is for the controller that guards the ranges of Services.
func (w *workload) createServiceRange() {
	w.t.Helper()
	cidrs := w.client.NetworkingV1().ServiceCIDRs()
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: meta(w.namespace), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.200.0.0/24"}}}
	made(w.t)(cidrs.Create(w.t.Context(), cidr, metav1.CreateOptions{}))
	w.t.Cleanup(func() { _ = cidrs.Delete(context.Background(), cidr.Name, metav1.DeleteOptions{}) })
}

// createPolicy is for the controller that checks the types in policies.
func (w *workload) createPolicy() {
	w.t.Helper()
	policies := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta(w.namespace)}
	policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: "true"}}
	policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		},
	}}}
	made(w.t)(policies.Create(w.t.Context(), policy, metav1.CreateOptions{}))
	w.t.Cleanup(func() { _ = policies.Delete(context.Background(), policy.Name, metav1.DeleteOptions{}) })
}

// createBootstrapTokens is for the controllers of bootstrap tokens: one signs, one has expired.
func (w *workload) createBootstrapTokens() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	info := &corev1.ConfigMap{ObjectMeta: meta(bootstrapapi.ConfigMapClusterInfo), Data: map[string]string{bootstrapapi.KubeConfigKey: "x"}}
	made(w.t)(core.ConfigMaps(metav1.NamespacePublic).Create(ctx, info, metav1.CreateOptions{}))
	w.t.Cleanup(func() {
		_ = core.ConfigMaps(metav1.NamespacePublic).Delete(context.Background(), info.Name, metav1.DeleteOptions{})
	})
	for id, expiration := range map[string]string{"signer": "", "passed": "2020-01-01T00:00:00Z"} {
		name := bootstrapapi.BootstrapTokenSecretPrefix + id
		made(w.t)(core.Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
			ObjectMeta: meta(name),
			Type:       bootstrapapi.SecretTypeBootstrapToken,
			StringData: map[string]string{
				bootstrapapi.BootstrapTokenIDKey: id, bootstrapapi.BootstrapTokenSecretKey: "0123456789abcdef",
				bootstrapapi.BootstrapTokenUsageSigningKey: "true", bootstrapapi.BootstrapTokenExpirationKey: expiration,
			},
		}, metav1.CreateOptions{}))
		w.t.Cleanup(func() {
			_ = core.Secrets(metav1.NamespaceSystem).Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
}

// leaveTokenUnused is for the controller of unused tokens, which has nothing to do before days
// have passed: it is that of another manager, to which they have.
func (w *workload) leaveTokenUnused() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	await.That(w.t, "the token is there", func(context.Context) error {
		secret, err := core.Secrets(w.namespace).Get(ctx, "token", metav1.GetOptions{})
		if err == nil && len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			err = errors.New("the secret is empty")
		}
		return err
	})
	generated := []byte(`{"secrets":[{"name":"token"}]}`)
	made(w.t)(core.ServiceAccounts(w.namespace).Patch(ctx, "default", types.MergePatchType, generated, metav1.PatchOptions{}))
	manager.Join(w.t, plane, runtime.Options{Clock: harness.ShiftedClock(4 * 24 * time.Hour)},
		harness.All(harness.WithoutLease, harness.Only(func(c *manager.Config) []**bool {
			c.Controllers.LegacyServiceAccountTokenCleaner.CleanUpPeriod = &metav1.Duration{Duration: 24 * time.Hour}
			return []**bool{&c.Controllers.LegacyServiceAccountTokenCleaner.Enabled}
		})))
}

// createTainted is for the controllers of nodes: a node whose pod does not tolerate its taint.
func (w *workload) createTainted() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	node := &corev1.Node{ObjectMeta: meta("tainted-of-" + w.namespace)}
	node.Spec.Taints = []corev1.Taint{{Key: "example.com/identity", Effect: corev1.TaintEffectNoExecute}}
	made(w.t)(core.Nodes().Create(ctx, node, metav1.CreateOptions{}))
	w.t.Cleanup(func() { _ = core.Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	pod := &corev1.Pod{ObjectMeta: meta("evicted"), Spec: podTemplate().Spec}
	pod.Spec.NodeName = node.Name
	made(w.t)(core.Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}))
}

// createDevices is for the controller of claims: a pod that needs a device.
func (w *workload) createDevices() {
	w.t.Helper()
	ctx := w.t.Context()
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: meta("device")}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "none"}}}
	made(w.t)(w.client.ResourceV1().ResourceClaimTemplates(w.namespace).Create(ctx, template, metav1.CreateOptions{}))
	pod := &corev1.Pod{ObjectMeta: meta("with-device"), Spec: podTemplate().Spec}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: &template.Name}}
	made(w.t)(w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}))
}

// wantRanges waits until a node has got a range of pod addresses.
func (w *workload) wantRanges() {
	await.That(w.t, "a node has a range", func(ctx context.Context) error {
		node, err := w.client.CoreV1().Nodes().Get(ctx, "node-of-"+w.namespace, metav1.GetOptions{})
		if err == nil && node.Spec.PodCIDR == "" {
			err = errors.New("it has none")
		}
		return err
	})
}

// goOn plays the kubelet for pods that are to end.
func (w *workload) goOn() {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name"})
	must.Succeed(w.t, err)
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		_, _ = w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	}
}
