package takeover

import (
	"context"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// startBehindProxy runs a manager with one controller behind a proxy.
func startBehindProxy(t *testing.T, enable func(*manager.Config) **bool) *faultproxy.Proxy {
	t.Helper()
	r := harness.Behind(t, plane, harness.Only(func(c *manager.Config) []**bool { return []**bool{enable(c)} }))
	r.Works(t)
	return r.Proxy
}

// The API server deletes Endpoints with their Service. Those that the last leader created
// just after that are left to the next one, which may not see them yet.
func TestEndpointsThatAPredecessorMadeTooLateAreDeleted(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := startBehindProxy(t, func(c *manager.Config) **bool { return &c.Controllers.Endpoints.Enabled })
	proxy.HoldEvents(faultproxy.Requests{Resource: corev1.Resource("endpoints")})
	services := proxy.HoldEvents(faultproxy.Requests{Resource: corev1.Resource("services")})

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := plane.AdminClient().CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := plane.AdminClient().CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := plane.AdminClient().CoreV1().Endpoints(namespace).Create(t.Context(), endpoints, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	services.Lift()
	await.That(t, "the Endpoints are gone", func(ctx context.Context) error {
		_, err := plane.AdminClient().CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
		return await.Gone(err)
	})
}

func TestADefaultAccountThatCameAndWentUnseenIsMadeAgain(t *testing.T) {
	proxy := startBehindProxy(t, func(c *manager.Config) **bool { return &c.Controllers.ServiceAccount.Enabled })
	accounts := faultproxy.Requests{Resource: corev1.Resource("serviceaccounts")}
	dropped := proxy.DropEvents(accounts, func(e faultproxy.Event) bool { return true })
	namespace := plane.Namespace(t)
	var first *corev1.ServiceAccount
	read := func(ctx context.Context) (account *corev1.ServiceAccount, err error) {
		return plane.AdminClient().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	}
	await.That(t, "there is an account", func(ctx context.Context) (err error) {
		first, err = read(ctx)
		return err
	})
	if err := plane.AdminClient().CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the events are lost", func(context.Context) error {
		if dropped.Hits() < 2 {
			return fmt.Errorf("%d are", dropped.Hits())
		}
		return nil
	})
	dropped.Lift()
	await.That(t, "there is an account again", func(ctx context.Context) error {
		second, err := read(ctx)
		if err == nil && second.UID == first.UID {
			err = fmt.Errorf("it is the first")
		}
		return err
	})
}

// The pods of a Job can be seen before the Job is. One that ends meanwhile must be counted.
func TestAPodThatEndsBeforeItsJobIsSeenIsCounted(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := startBehindProxy(t, func(c *manager.Config) **bool { return &c.Controllers.Job.Enabled })
	held := proxy.HoldEvents(faultproxy.Requests{Resource: schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}})

	spec := corev1.PodSpec{SchedulerName: "nobody", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "pi", Image: "pi:1"}}}
	job, err := plane.AdminClient().BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := plane.AdminClient().CoreV1().Pods(namespace)
	_, err = pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "first", Labels: job.Spec.Template.Labels, Finalizers: []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asked := faultproxy.Requests{Verbs: []string{"get"}, Resource: schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}, Namespace: namespace}
	if err := pods.Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the pod is dealt with", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "first", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // what this means shows when the Job is seen
		}
		if err == nil && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) && proxy.Seen(asked) == 0 {
			err = fmt.Errorf("it has the finalizer, and nobody has asked for the Job")
		}
		return err
	})
	held.Lift()
	await.That(t, "the pod is counted", func(ctx context.Context) error {
		job, err := plane.AdminClient().BatchV1().Jobs(namespace).Get(ctx, "pi", metav1.GetOptions{})
		if err == nil && job.Status.Failed != 1 {
			err = fmt.Errorf("the status is %+v", job.Status)
		}
		return err
	})
}

func TestPodsThatCannotBeDeletedDoNotKeepTheRestOfANamespace(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := startBehindProxy(t, func(c *manager.Config) **bool { return &c.Controllers.Namespace.Enabled })
	refused := proxy.Refuse(faultproxy.Requests{Verbs: []string{"deletecollection"}, Resource: corev1.Resource("pods"), Namespace: namespace},
		&apierrors.NewInternalError(fmt.Errorf("the webhook of pods is down")).ErrStatus)
	_, err := plane.AdminClient().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plane.AdminClient().CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "content"}}, metav1.CreateOptions{})
	must.Succeed(t, err)
	if err := plane.AdminClient().CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the content is gone", func(ctx context.Context) error {
		_, err := plane.AdminClient().CoreV1().ConfigMaps(namespace).Get(ctx, "content", metav1.GetOptions{})
		return await.Gone(err)
	})
	if _, err := plane.AdminClient().CoreV1().Pods(namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	refused.Lift()
	await.That(t, "the namespace is gone", func(ctx context.Context) error {
		_, err := plane.AdminClient().CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return await.Gone(err)
	})
}
