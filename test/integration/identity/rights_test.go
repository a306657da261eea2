package identity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

// Every controller acts as its own service account, with the rights that the API server's
// bootstrap policy gives it: each has something to do here, and none is refused anything.
func TestRightsOfEveryController(t *testing.T) {
	from := mark(t)
	m := start(t, nil)
	w := &workload{t: t, client: plane.AdminClient(), namespace: plane.Namespace(t)}
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
		eventually(t, d.Name+" has done something", func() error {
			w.goOn()
			events, err := plane.Audit().Since(from, controlplane.ByUser(user), controlplane.Writes(), func(e *auditv1.Event) bool {
				return strings.HasSuffix(e.UserAgent, "/"+agent) && e.ObjectRef != nil && e.ObjectRef.Resource != "events" && e.ResponseStatus.Code < 400
			})
			if err == nil && len(events) == 0 {
				err = fmt.Errorf("%s has written nothing", user)
			}
			return err
		})
	}
	refused, err := manager.Forbidden(plane, from)
	must(t, err)
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
		must(t, err)
	}
}

func (w *workload) create() {
	w.t.Helper()
	w.createReplicated()
	w.createJobs()
	w.createNetwork()
	w.createSingle()
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
	must(w.t, err)
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

// createSingle is for the rest: collection of garbage, namespaces, tokens.
func (w *workload) createSingle() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	owner, err := core.ConfigMaps(w.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("owner")}, metav1.CreateOptions{})
	must(w.t, err)
	dependent := &corev1.ConfigMap{ObjectMeta: meta("dependent")}
	dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	made(w.t)(core.ConfigMaps(w.namespace).Create(ctx, dependent, metav1.CreateOptions{}))
	must(w.t, core.ConfigMaps(w.namespace).Delete(ctx, owner.Name, metav1.DeleteOptions{}))

	held := &corev1.Pod{ObjectMeta: meta("held"), Spec: podTemplate().Spec}
	held.Finalizers = []string{"example.com/hold"}
	made(w.t)(core.Pods(w.namespace).Create(ctx, held, metav1.CreateOptions{}))
	must(w.t, core.Pods(w.namespace).Delete(ctx, held.Name, metav1.DeleteOptions{}))
	w.t.Cleanup(func() {
		_, _ = core.Pods(w.namespace).Patch(context.Background(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})

	other := plane.Namespace(w.t)
	eventually(w.t, "the account of the other namespace is there", func() error {
		_, err := core.ServiceAccounts(other).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	secret := &corev1.Secret{ObjectMeta: meta("token"), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	eventually(w.t, "a secret for a token can be created", func() error {
		_, err := core.Secrets(w.namespace).Create(ctx, secret, metav1.CreateOptions{})
		return err
	})
	must(w.t, core.Namespaces().Delete(ctx, other, metav1.DeleteOptions{}))
}

// goOn plays the kubelet for pods that are to end.
func (w *workload) goOn() {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name"})
	must(w.t, err)
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		_, _ = w.client.CoreV1().Pods(w.namespace).Patch(w.t.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	}
}
