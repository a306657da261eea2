// Package cost counts, in the API server's own log, what one unit of work of each
// workload controller costs in requests. Run with -v to see the table.
package cost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	nodes = 10
)

var (
	plane *controlplane.ControlPlane
	kcm   *manager.Manager
	admin kubernetes.Interface
)

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: nodes, Scheduler: true}
	os.Exit(manager.RunTests(m, options, runtime.Options{}, nil, func(cp *controlplane.ControlPlane, started *manager.Manager) {
		plane, kcm, admin = cp, started, cp.AdminClient()
	}))
}

// unit is some work of one controller.
type unit struct {
	// account is the service account of the controller.
	account string
	// each names what the requests are divided by, of which there are count.
	each  string
	count int
	// upstream is what the specification gives for upstream, per each, events left out.
	upstream string
	// most is how many requests per each are accepted, events left out.
	most float64
	// prepare sets the stage; its requests do not count. work returns when all is done.
	prepare, work func(t *testing.T, namespace string)
}

var labels = map[string]string{"app": "web"}

func podTemplate(restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: restart, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "c", Image: "x", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}},
		},
	}
}

func units() []unit {
	selector := &metav1.LabelSelector{MatchLabels: labels}
	deploy := func(replicas int32) func(*testing.T, string) {
		return func(t *testing.T, namespace string) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: selector, Template: podTemplate(corev1.RestartPolicyAlways),
			}}
			must.Get(admin.AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}))(t)
			await.That(t, "the deployment is available", func(ctx context.Context) error {
				now, err := admin.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
				if err == nil && (now.Status.AvailableReplicas != replicas || now.Status.ObservedGeneration != now.Generation) {
					err = fmt.Errorf("status %+v", now.Status)
				}
				return err
			})
		}
	}
	service := func(t *testing.T, namespace string) {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}
		must.Get(admin.CoreV1().Services(namespace).Create(t.Context(), s, metav1.CreateOptions{}))(t)
	}
	jobs := func(count int, ttl *int32) func(*testing.T, string) {
		return func(t *testing.T, namespace string) {
			for n := range count {
				job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("job-", n)}, Spec: batchv1.JobSpec{
					TTLSecondsAfterFinished: ttl, Template: podTemplate(corev1.RestartPolicyNever),
				}}
				job.Spec.Template.Labels = nil
				must.Get(admin.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}))(t)
			}
			await.That(t, "the jobs have ended", func(ctx context.Context) error {
				list, err := admin.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, job := range list.Items {
					if job.Status.CompletionTime == nil {
						return fmt.Errorf("%s: %+v", job.Name, job.Status)
					}
				}
				return nil
			})
		}
	}
	return []unit{
		{account: "deployment-controller", each: "deployment of 50", count: 1, upstream: "1 POST, about 2 PUT status per pod at most, 1 conflicting PUT", most: 25, work: deploy(50)},
		{account: "replicaset-controller", each: "pod", count: 50, upstream: "1 POST, up to 2 PUT status", most: 1.5, work: deploy(50)},
		{account: "statefulset-controller", each: "pod", count: 10, upstream: "1 POST, up to 1 PUT status per transition", most: 3.5, work: func(t *testing.T, namespace string) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To(int32(10)), Selector: selector, Template: podTemplate(corev1.RestartPolicyAlways),
			}}
			must.Get(admin.AppsV1().StatefulSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
			await.That(t, "the set is complete", func(ctx context.Context) error {
				now, err := admin.AppsV1().StatefulSets(namespace).Get(ctx, "web", metav1.GetOptions{})
				if err == nil && now.Status.AvailableReplicas != 10 {
					err = fmt.Errorf("status %+v", now.Status)
				}
				return err
			})
		}},
		{account: "daemon-set-controller", each: "node", count: nodes, upstream: "1 POST, up to 1 PUT status per sync", most: 2.5, work: func(t *testing.T, namespace string) {
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: podTemplate(corev1.RestartPolicyAlways)}}
			must.Get(admin.AppsV1().DaemonSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}))(t)
			await.That(t, "the set is complete", func(ctx context.Context) error {
				now, err := admin.AppsV1().DaemonSets(namespace).Get(ctx, "web", metav1.GetOptions{})
				if err == nil && now.Status.NumberAvailable != nodes {
					err = fmt.Errorf("status %+v", now.Status)
				}
				return err
			})
		}},
		{account: "job-controller", each: "job of one pod", count: 10, upstream: "1 POST, 1 PATCH, 4 PUT status", most: 6, work: jobs(10, nil)},
		{account: "ttl-after-finished-controller", each: "job", count: 10, upstream: "1 GET, 1 DELETE", most: 1.2, work: func(t *testing.T, namespace string) {
			jobs(10, ptr.To(int32(3)))(t, namespace)
			await.That(t, "the jobs are gone", func(ctx context.Context) error {
				list, err := admin.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
				if err == nil && len(list.Items) > 0 {
					err = fmt.Errorf("%d are left", len(list.Items))
				}
				return err
			})
		}},
		{account: "cronjob-controller", each: "run", count: 10, upstream: "1 POST, 1 PUT status, 1 PUT status at the end", most: 3.5, work: func(t *testing.T, namespace string) {
			for n := range 10 {
				cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cron-", n)}, Spec: batchv1.CronJobSpec{
					// Due now, and not again while this is looked at.
					Schedule:    fmt.Sprintf("%d %d * * *", time.Now().UTC().Minute(), time.Now().UTC().Hour()),
					TimeZone:    ptr.To("UTC"),
					JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: podTemplate(corev1.RestartPolicyNever)}},
				}}
				created := must.Get(admin.BatchV1().CronJobs(namespace).Create(t.Context(), cron, metav1.CreateOptions{}))(t)
				patch := fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, time.Now().Add(-2*time.Minute).UTC().Format(time.RFC3339))
				must.Get(admin.BatchV1().CronJobs(namespace).Patch(t.Context(), created.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))(t)
			}
			await.That(t, "each has run once", func(ctx context.Context) error {
				list, err := admin.BatchV1().CronJobs(namespace).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, cron := range list.Items {
					if cron.Status.LastSuccessfulTime == nil || len(cron.Status.Active) > 0 {
						return fmt.Errorf("%s: %+v", cron.Name, cron.Status)
					}
				}
				return nil
			})
		}},
		{account: "disruption-controller", each: "budget", count: 1, upstream: "1 PUT status per change", most: 2, prepare: deploy(10), work: func(t *testing.T, namespace string) {
			budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: selector, MaxUnavailable: ptr.To(intstr.FromInt32(3)),
			}}
			must.Get(admin.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), budget, metav1.CreateOptions{}))(t)
			await.That(t, "the budget is known", func(ctx context.Context) error {
				now, err := admin.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "web", metav1.GetOptions{})
				if err == nil && now.Status.DisruptionsAllowed != 3 {
					err = fmt.Errorf("status %+v", now.Status)
				}
				return err
			})
		}},
		{account: "endpoint-controller", each: "service of 20 pods", count: 1, upstream: "1 POST", most: 1, prepare: deploy(20), work: func(t *testing.T, namespace string) {
			service(t, namespace)
			await.That(t, "the endpoints are there", func(ctx context.Context) error {
				now, err := admin.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
				if err == nil && (len(now.Subsets) != 1 || len(now.Subsets[0].Addresses) != 20) {
					err = errors.New("addresses are missing")
				}
				return err
			})
		}},
		{account: "endpointslicemirroring-controller", each: "endpoints", count: 1, upstream: "1 POST", most: 1, work: func(t *testing.T, namespace string) {
			bare := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			own := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "10.9.8.7"}}, Ports: []corev1.EndpointPort{{Port: 80}},
			}}}
			must.Get(admin.CoreV1().Services(namespace).Create(t.Context(), bare, metav1.CreateOptions{}))(t)
			must.Get(admin.CoreV1().Endpoints(namespace).Create(t.Context(), own, metav1.CreateOptions{}))(t)
			await.That(t, "the slice is there", func(ctx context.Context) error {
				list, err := admin.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
				if err == nil && len(list.Items) != 1 {
					err = fmt.Errorf("%d slices", len(list.Items))
				}
				return err
			})
		}},
		{account: "generic-garbage-collector", each: "dependent", count: 51, upstream: "1 GET, 1 DELETE, and 1 GET per owner", most: 2.2, prepare: deploy(50), work: func(t *testing.T, namespace string) {
			background := metav1.DeletePropagationBackground
			must.Succeed(t, admin.AppsV1().Deployments(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &background}))
			await.That(t, "the pods are gone", func(ctx context.Context) error {
				list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
				if err == nil && len(list.Items) > 0 {
					err = fmt.Errorf("%d are left", len(list.Items))
				}
				return err
			})
		}},
	}
}

// settled waits until no queue holds anything for half a second.
func settled(t *testing.T) {
	t.Helper()
	quiet := time.Now()
	await.That(t, "nothing is left to do", func(context.Context) error {
		for _, c := range kcm.Runtime.Controllers() {
			for _, l := range c.Loops {
				if l.Depth > 0 || len(l.InFlight) > 0 {
					quiet = time.Now()
				}
			}
		}
		if time.Since(quiet) < 500*time.Millisecond {
			return errors.New("something moved")
		}
		return nil
	})
}

func TestRequestsPerUnitOfWork(t *testing.T) {
	for _, u := range units() {
		t.Run(u.account+"/"+u.each, func(t *testing.T) {
			namespace := plane.Namespace(t)
			await.That(t, "pods can be created", func(ctx context.Context) error {
				_, err := admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
				return err
			})
			if u.prepare != nil {
				u.prepare(t, namespace)
			}
			settled(t)
			mark, err := plane.Audit().Mark()
			if err != nil {
				t.Fatal(err)
			}
			u.work(t, namespace)
			settled(t)
			requests, err := plane.Audit().Since(mark, controlplane.ByUser("system:serviceaccount:kube-system:"+u.account))
			if err != nil {
				t.Fatal(err)
			}
			byKind := map[string]int{}
			total := 0
			for _, r := range requests {
				if r.ObjectRef == nil || r.ObjectRef.Namespace != namespace || r.ObjectRef.Resource == "events" {
					continue
				}
				kind := r.Verb + " " + r.ObjectRef.Resource
				if r.ObjectRef.Subresource != "" {
					kind += "/" + r.ObjectRef.Subresource
				}
				byKind[kind]++
				total++
			}
			per := float64(total) / float64(u.count)
			t.Logf("%.2f requests per %s: %s; upstream: %s", per, u.each, counts(byKind), u.upstream)
			if total == 0 || per > u.most {
				t.Errorf("%.2f requests per %s, want some and at most %.2f", per, u.each, u.most)
			}
		})
	}
}

func counts(byKind map[string]int) string {
	var all []string
	for kind, n := range byKind {
		all = append(all, fmt.Sprintf("%d %s", n, kind))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
