package pods

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/fakeclient"
)

func owner() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "rs", UID: "o"}}
}

func ref() *metav1.OwnerReference {
	return metav1.NewControllerRef(owner(), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
}

func template() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ignored", Namespace: "ignored", GenerateName: "ignored",
			OwnerReferences: []metav1.OwnerReference{{UID: "ignored"}},
			Labels:          map[string]string{"app": "a"},
			Annotations:     map[string]string{"note": "n"},
			Finalizers:      []string{"f"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "E", Value: "v"}}}}},
	}
}

// Pins WL-27.
func TestFromTemplate(t *testing.T) {
	source := template()
	got := FromTemplate(source, owner(), *ref())
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "rs-",
			Labels:       map[string]string{"app": "a"},
			Annotations:  map[string]string{"note": "n"},
			Finalizers:   []string{"f"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "o",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "E", Value: "v"}}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got.Labels["x"], got.Annotations["x"], got.Finalizers[0], got.Spec.Containers[0].Env[0].Value = "x", "x", "x", "x"
	if diff := cmp.Diff(template(), source); diff != "" {
		t.Errorf("the pod shares memory with the template: %s", diff)
	}
}

// Pins WL-27.
func TestNamePrefix(t *testing.T) {
	for name, want := range map[string]string{"rs": "rs-", "a.b": "a.b-", "Not-Valid": "Not-Valid"} {
		if got := NamePrefix(name); got != want {
			t.Errorf("prefix of %q is %q, want %q", name, got, want)
		}
	}
}

// control is a Control whose API server answers one verb with an error.
func control(verb string, err error) (Control, *fake.Clientset, *record.FakeRecorder) {
	client := fakeclient.New(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}})
	if err != nil {
		client.PrependReactor(verb, "pods", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
	events := record.NewFakeRecorder(10)
	return Control{controller.Env{Client: client, Events: events}}, client, events
}

// plainNotFound is what client-go makes of the "404 page not found" of a proxy.
func plainNotFound() error {
	return apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", Resource, "p", "404 page not found", 0, true)
}

func recorded(events *record.FakeRecorder) []string {
	close(events.Events)
	var all []string
	for event := range events.Events {
		all = append(all, event)
	}
	return all
}

func namespaceTerminating() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("going"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestCreate(t *testing.T) {
	boom := errors.New("boom")
	terminating := namespaceTerminating()
	change := func(f func(*metav1.OwnerReference)) *metav1.OwnerReference {
		r := ref()
		f(r)
		return r
	}
	for _, test := range []struct {
		name     string
		template *corev1.PodTemplateSpec
		ref      *metav1.OwnerReference
		apiErr   error
		cut      bool
		wantErr  string
		want     []string
		requests int
	}{
		{name: "WL-30: created", template: template(), ref: ref(), want: []string{"Normal SuccessfulCreate Created pod: "}, requests: 1},
		{name: "WL-29: refused", template: template(), ref: ref(), apiErr: boom, wantErr: "boom", want: []string{"Warning FailedCreate Error creating: boom"}, requests: 1},
		{name: "WL-29: namespace is going", template: template(), ref: ref(), apiErr: terminating, wantErr: terminating.Error(), requests: 1},
		{name: "WL-100: cut off", template: template(), ref: ref(), apiErr: boom, cut: true, wantErr: "boom", requests: 1},
		{name: "WL-28: no labels", template: &corev1.PodTemplateSpec{}, ref: ref(), wantErr: "unable to create pods, no labels"},
		{name: "WL-28: no reference", template: template(), wantErr: "controllerRef is nil"},
		{name: "WL-28: no version", template: template(), ref: change(func(r *metav1.OwnerReference) { r.APIVersion = "" }), wantErr: "controllerRef has empty APIVersion"},
		{name: "WL-28: no kind", template: template(), ref: change(func(r *metav1.OwnerReference) { r.Kind = "" }), wantErr: "controllerRef has empty Kind"},
		{name: "WL-28: no controller", template: template(), ref: change(func(r *metav1.OwnerReference) { r.Controller = nil }), wantErr: "controllerRef.Controller is not set to true"},
		{name: "WL-28: not the controller", template: template(), ref: change(func(r *metav1.OwnerReference) { r.Controller = ptr.To(false) }), wantErr: "controllerRef.Controller is not set to true"},
		{name: "WL-28: perhaps not blocking", template: template(), ref: change(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = nil }), wantErr: "controllerRef.BlockOwnerDeletion is not set to true"},
		{name: "WL-28: not blocking", template: template(), ref: change(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = ptr.To(false) }), wantErr: "controllerRef.BlockOwnerDeletion is not set to true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, client, events := control("create", test.apiErr)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cut {
				cancel()
			}
			created, err := c.Create(ctx, owner(), test.template, test.ref)
			if got := errorText(err); got != test.wantErr || (err == nil) != (created != nil) {
				t.Errorf("got %v, %q, want %q", created, got, test.wantErr)
			}
			if test.apiErr != nil && (!errors.Is(err, test.apiErr) || errors.Unwrap(err) != nil) {
				t.Errorf("the error of the API was replaced or wrapped: %v", err)
			}
			if got := recorded(events); !slices.Equal(got, test.want) {
				t.Errorf("events %q, want %q", got, test.want)
			}
			if got := len(client.Actions()); got != test.requests {
				t.Errorf("%d requests, want %d", got, test.requests)
			}
		})
	}
}

func TestNamesAreGeneratedFrom(t *testing.T) {
	for _, test := range []struct {
		want   string
		create func(c Control) (*metav1.ObjectMeta, error)
	}{
		{"other-0-", func(c Control) (*metav1.ObjectMeta, error) {
			return c.CreateNamed(t.Context(), owner(), template(), ref(), "other-0-")
		}},
		{NamePrefix(owner().GetName()), func(c Control) (*metav1.ObjectMeta, error) {
			return c.Create(t.Context(), owner(), template(), ref())
		}},
	} {
		c, _, _ := control("create", nil)
		if pod, err := test.create(c); err != nil || pod.GenerateName != test.want {
			t.Errorf("the pod is %v, %v, want a name from %q", pod, err, test.want)
		}
	}
}

func TestDelete(t *testing.T) {
	boom := errors.New("boom")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	namesake := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p", errors.New("other UID"))
	ofAProxy := plainNotFound()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	for _, test := range []struct {
		name    string
		apiErr  error
		cut     bool
		wantErr string
		want    []string
	}{
		{name: "WL-32: deleted", want: []string{"Normal SuccessfulDelete Deleted pod: p"}},
		{name: "WL-32: gone already", apiErr: gone, wantErr: gone.Error()},
		{name: "WL-32: refused", apiErr: boom, wantErr: "unable to delete pods: boom", want: []string{"Warning FailedDelete Error deleting: boom"}},
		{name: "WL-117: the answer of a proxy", apiErr: ofAProxy, wantErr: "unable to delete pods: " + ofAProxy.Error(),
			want: []string{"Warning FailedDelete Error deleting: " + ofAProxy.Error()}},
		{name: "WL-112: another pod has the name", apiErr: namesake, wantErr: "unable to delete pods: " + namesake.Error()},
		{name: "WL-100: cut off", apiErr: boom, cut: true, wantErr: "unable to delete pods: boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, client, events := control("delete", test.apiErr)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cut {
				cancel()
			}
			err := c.Delete(ctx, owner(), pod)
			options := client.Actions()[0].(ktesting.DeleteActionImpl).DeleteOptions
			if want := (metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("p")}); !reflect.DeepEqual(options, want) {
				t.Errorf("deleted with %+v, want %+v", options, want)
			}
			if got := errorText(err); got != test.wantErr {
				t.Errorf("got %q, want %q", got, test.wantErr)
			}
			if apierrors.IsNotFound(test.apiErr) && !apierrors.IsNotFound(err) {
				t.Errorf("nobody can tell that the pod is gone: %v", err)
			}
			if reconcile.IsExpected(err) != apierrors.IsConflict(test.apiErr) {
				t.Errorf("a failure or none: %v", err)
			}
			if got := recorded(events); !slices.Equal(got, test.want) {
				t.Errorf("events %q, want %q", got, test.want)
			}
		})
	}
}

func TestPatchIsAStrategicMerge(t *testing.T) {
	c, _, _ := control("", nil)
	patched, err := c.Patch(t.Context(), "ns", "p", []byte(`{"metadata":{"ownerReferences":[{"uid":"o","name":"rs"}]}}`))
	if err != nil || len(patched.OwnerReferences) != 1 {
		t.Fatalf("got %v, %v", patched, err)
	}
	patched, err = c.Patch(t.Context(), "ns", "p", []byte(`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"o"}]}}`))
	if err != nil || len(patched.OwnerReferences) != 0 {
		t.Fatalf("got %v, %v", patched, err)
	}
}

func TestNamespaceTerminating(t *testing.T) {
	if !NamespaceTerminating(namespaceTerminating()) {
		t.Error("not recognised")
	}
	if NamespaceTerminating(nil) || NamespaceTerminating(errors.New("x")) || NamespaceTerminating(apierrors.NewNotFound(schema.GroupResource{}, "x")) {
		t.Error("taken for a namespace that is going")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
