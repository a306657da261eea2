package clients

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

const mark = "kcmd.dev/shrunk"

// shrunk is a pod as a cache may hold it.
func shrunk() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: mark}}},
	}
}

// usersOwn is a complete pod with the mark wherever a user can write it.
func usersOwn() *corev1.Pod {
	p := shrunk()
	p.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager:  "kubectl",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:kcmd.dev/shrunk":{}}}}`),
	}, {
		Manager: mark, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`),
	}}
	p.Finalizers = []string{mark}
	p.Annotations = map[string]string{mark: "true", "managedFields": `[{"manager":"kcmd.dev/shrunk"}]`}
	p.Labels = map[string]string{mark: mark}
	p.OwnerReferences = []metav1.OwnerReference{{Name: mark}}
	p.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "A", Value: mark}}, Command: []string{`"manager":"kcmd.dev/shrunk"`}}}
	return p
}

func encodings(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	asJSON, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	asProtobuf, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), pod)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	asCBOR, err := direct.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"application/json":                    string(asJSON),
		"application/vnd.kubernetes.protobuf": string(asProtobuf),
		"application/cbor":                    "\xd9\xd9\xf7" + string(asCBOR),
		string(types.ApplyYAMLPatchType):      string(asJSON),
	}
}

// send sends a body and returns the error of the guard.
func send(t *testing.T, method, contentType string, body io.Reader) error {
	t.Helper()
	rt := &guardedTransport{manager: mark, layer: layer{roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: http.NoBody}, nil
	})}}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://host/api/v1/namespaces/ns/pods", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := rt.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Pins MGR-170.
func TestShrunkObjectsAreRefusedAndTheMarkOfAUserIsNot(t *testing.T) {
	for contentType, body := range encodings(t, shrunk()) {
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			if err := send(t, method, contentType, strings.NewReader(body)); !errors.Is(err, errShrunk) || !strings.Contains(err.Error(), "/api/v1/namespaces/ns/pods") {
				t.Errorf("%s as %s: %v", method, contentType, err)
			}
		}
	}
	for contentType, body := range encodings(t, usersOwn()) {
		if !strings.Contains(body, mark) {
			t.Errorf("%s does not contain the mark", contentType)
		}
		if err := send(t, http.MethodPut, contentType, strings.NewReader(body)); err != nil {
			t.Errorf("a user's own as %s: %v", contentType, err)
		}
	}
}

func TestWhatAPatchWritesIsLookedAt(t *testing.T) {
	for _, test := range []struct {
		name, contentType, body string
		refused                 bool
	}{
		{"merge", string(types.MergePatchType), `{"metadata":{"managedFields":[{"manager":"kcmd.dev/shrunk"}]}}`, true},
		{"merge of a finalizer", string(types.MergePatchType), `{"metadata":{"finalizers":["kcmd.dev/shrunk"]}}`, false},
		{"strategic merge of a finalizer", string(types.StrategicMergePatchType),
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["kcmd.dev/shrunk"],"uid":"1"}}`, false},
		{"merge of the metadata of a template", string(types.MergePatchType),
			`{"spec":{"template":{"metadata":{"annotations":{"kcmd.dev/shrunk":"a"}}}}}`, false},
		{"whole object", string(types.JSONPatchType), `[{"op":"replace","path":"","value":{"metadata":{"managedFields":[{"manager":"kcmd.dev/shrunk"}]}}}]`, true},
		{"metadata", string(types.JSONPatchType), `[{"op":"replace","path":"/metadata","value":{"managedFields":[{"manager":"kcmd.dev/shrunk"}]}}]`, true},
		{"managed fields", string(types.JSONPatchType), `[{"op":"add","path":"/metadata/managedFields","value":[{"manager":"kcmd.dev/shrunk"}]}]`, true},
		{"a user of that name", string(types.MergePatchType), `{"metadata":{"managedFields":[{"manager":"kcmd.dev/shrunk","operation":"Apply"}]}}`, false},
		{"one of them", string(types.JSONPatchType), `[{"op":"add","path":"/metadata/managedFields/-","value":{"manager":"kcmd.dev/shrunk"}}]`, true},
		{"its manager", string(types.JSONPatchType), `[{"op":"replace","path":"/metadata/managedFields/0/manager","value":"kcmd.dev/shrunk"}]`, true},
		{"a finalizer", string(types.JSONPatchType), `[{"op":"test","path":"/metadata/finalizers/0","value":"kcmd.dev/shrunk"},{"op":"remove","path":"/metadata/finalizers/0"}]`, false},
		{"an annotation", string(types.JSONPatchType), `[{"op":"add","path":"/metadata/annotations/kcmd.dev~1shrunk","value":"kcmd.dev/shrunk"}]`, false},
		{"apply as YAML", string(types.ApplyYAMLPatchType), "metadata:\n  managedFields:\n  - manager: kcmd.dev/shrunk\n", true},
		{"a finalizer as YAML", string(types.ApplyYAMLPatchType), "metadata:\n  finalizers: [kcmd.dev/shrunk]\n", false},
		{"something else", "text/plain", "[a kcmd.dev/shrunk b", true},
		{"something else without the mark", "text/plain", "[a b", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := send(t, http.MethodPatch, test.contentType, strings.NewReader(test.body))
			if errors.Is(err, errShrunk) != test.refused || err != nil && !test.refused {
				t.Errorf("got %v, refused is to be %v", err, test.refused)
			}
		})
	}
}

func TestTheGuardLeavesWhatOnlyReads(t *testing.T) {
	body := encodings(t, shrunk())["application/json"]
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if err := send(t, method, "application/json", strings.NewReader(body)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestTheGuardReadsBodiesThatCannotBeReadTwice(t *testing.T) {
	s := newServer(t)
	client := &http.Client{Transport: s.set(Identity{Name: "c"}, nil).Config.Transport}
	for body, refused := range map[string]bool{"harmless": false, encodings(t, shrunk())["application/json"]: true} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/x", io.NopCloser(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if refused {
			if !errors.Is(err, errShrunk) {
				t.Errorf("%q: %v", body, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := s.seen(); len(got) != 1 || string(got[0].body) != body {
			t.Errorf("the server got %+v", got)
		}
	}
}
