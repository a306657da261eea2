// Package unseen tests what controllers conclude while their caches lack what the API server
// has: objects that another process has just made, and objects that came and went while a
// watch was interrupted.
//
//  1. All tests share one control plane. Each has a manager of its own, which sees the API
//     server through a proxy; the test itself does not.
//  2. What the proxy keeps back is lifted or lost. Nothing waits for a fixed time.
package unseen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
)

const (
	// deadline bounds every wait; a healthy run comes nowhere near it.
	deadline     = 30 * time.Second
	pollInterval = 25 * time.Millisecond
)

var (
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
)

func TestMain(m *testing.M) {
	os.Exit(controlplane.RunTests(m, controlplane.Options{NoServiceAccountAdmission: true}, func(c *controlplane.ControlPlane) {
		plane, admin = c, c.AdminClient()
	}))
}

// start runs a manager with one controller behind a proxy.
func start(t *testing.T, enable func(*manager.Config) **bool) *faultproxy.Proxy {
	t.Helper()
	proxy := faultproxy.Start(t, plane)
	kubeconfig, err := proxy.Kubeconfig("manager", "system:kube-controller-manager")
	if err != nil {
		t.Fatal(err)
	}
	m := manager.Start(t, plane, func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = kubeconfig
		c.ControllerDefaults.Enabled = ptr.To(false)
		*enable(c) = ptr.To(true)
	})
	err = m.Wait(t.Context(), "the controller works", func(s *runtime.Status) error {
		for _, c := range s.Controllers {
			for _, l := range c.Loops {
				if l.Waiting != "" {
					return fmt.Errorf("%s waits: %s", c.Name, l.Waiting)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return proxy
}

func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, deadline, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, last)
	}
}

// isGone turns the answer to a read into an error unless it is that there is no such object.
func isGone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("it is still there")
}

// The API server deletes Endpoints with their Service. Those that the last leader created
// just after that are left to the next one, which may not see them yet.
func TestEndpointsThatAPredecessorMadeTooLateAreDeleted(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := start(t, func(c *manager.Config) **bool { return &c.Controllers.Endpoints.Enabled })
	proxy.HoldEvents(faultproxy.Requests{Resource: corev1.Resource("endpoints")})
	services := proxy.HoldEvents(faultproxy.Requests{Resource: corev1.Resource("services")})

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := admin.CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().Services(namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := admin.CoreV1().Endpoints(namespace).Create(t.Context(), endpoints, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	services.Lift()
	eventually(t, "the Endpoints are gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
		return isGone(err)
	})
}

func TestADefaultAccountThatCameAndWentUnseenIsMadeAgain(t *testing.T) {
	proxy := start(t, func(c *manager.Config) **bool { return &c.Controllers.ServiceAccount.Enabled })
	accounts := faultproxy.Requests{Resource: corev1.Resource("serviceaccounts")}
	dropped := proxy.DropEvents(accounts, func(e faultproxy.Event) bool { return true })
	namespace := plane.Namespace(t)
	var first *corev1.ServiceAccount
	read := func(ctx context.Context) (account *corev1.ServiceAccount, err error) {
		return admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	}
	eventually(t, "there is an account", func(ctx context.Context) (err error) {
		first, err = read(ctx)
		return err
	})
	if err := admin.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the events are lost", func(context.Context) error {
		if dropped.Hits() < 2 {
			return fmt.Errorf("%d are", dropped.Hits())
		}
		return nil
	})
	dropped.Lift()
	eventually(t, "there is an account again", func(ctx context.Context) error {
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
	proxy := start(t, func(c *manager.Config) **bool { return &c.Controllers.Job.Enabled })
	held := proxy.HoldEvents(faultproxy.Requests{Resource: schema.GroupResource{Group: batchv1.GroupName, Resource: "jobs"}})

	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "pi", Image: "pi:1"}}}
	job, err := admin.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := admin.CoreV1().Pods(namespace)
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
	eventually(t, "the pod is dealt with", func(ctx context.Context) error {
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
	eventually(t, "the pod is counted", func(ctx context.Context) error {
		job, err := admin.BatchV1().Jobs(namespace).Get(ctx, "pi", metav1.GetOptions{})
		if err == nil && job.Status.Failed != 1 {
			err = fmt.Errorf("the status is %+v", job.Status)
		}
		return err
	})
}

func TestPodsThatCannotBeDeletedDoNotKeepTheRestOfANamespace(t *testing.T) {
	namespace := plane.Namespace(t)
	proxy := start(t, func(c *manager.Config) **bool { return &c.Controllers.Namespace.Enabled })
	refused := proxy.Refuse(faultproxy.Requests{Verbs: []string{"deletecollection"}, Resource: corev1.Resource("pods"), Namespace: namespace},
		&apierrors.NewInternalError(fmt.Errorf("the webhook of pods is down")).ErrStatus)
	_, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "content"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the content is gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "content", metav1.GetOptions{})
		return isGone(err)
	})
	if _, err := admin.CoreV1().Pods(namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	refused.Lift()
	eventually(t, "the namespace is gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return isGone(err)
	})
}
