package clients

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"kcmd.dev/pkg/controller"
)

var storedPod = corev1.Pod{
	TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
	ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7"},
	Spec:       corev1.PodSpec{NodeName: "node"},
}

// answers like an API server that can leave out all but the metadata, or like one that cannot.
func answers(t *testing.T, able bool) func(w http.ResponseWriter, r *http.Request) {
	types := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(types); err != nil {
		t.Fatal(err)
	}
	if err := scheme.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	encoder := protobuf.NewSerializer(types, types)
	return func(w http.ResponseWriter, r *http.Request) {
		var object runtime.Object = &storedPod
		if able && strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
			object = &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
				ObjectMeta: storedPod.ObjectMeta,
			}
		}
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.WriteHeader(http.StatusCreated)
		if err := encoder.Encode(object, w); err != nil {
			t.Errorf("encoding the answer: %v", err)
		}
	}
}

func TestAnswersHaveWhatIsRead(t *testing.T) {
	const ns = "ns"
	whole := storedPod
	whole.TypeMeta = metav1.TypeMeta{}
	metadata := corev1.Pod{ObjectMeta: whole.ObjectMeta}
	writes := map[string]func(ctx context.Context, s *Set) (*corev1.Pod, error){
		"create": func(ctx context.Context, s *Set) (*corev1.Pod, error) {
			return s.Kubernetes.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{}, metav1.CreateOptions{})
		},
		"update": func(ctx context.Context, s *Set) (*corev1.Pod, error) {
			return s.Kubernetes.CoreV1().Pods(ns).UpdateStatus(ctx, &corev1.Pod{ObjectMeta: whole.ObjectMeta}, metav1.UpdateOptions{})
		},
		"patch": func(ctx context.Context, s *Set) (*corev1.Pod, error) {
			return s.Kubernetes.CoreV1().Pods(ns).Patch(ctx, "p", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		},
	}
	get := func(ctx context.Context, s *Set) (*corev1.Pod, error) {
		return s.Kubernetes.CoreV1().Pods(ns).Get(ctx, "p", metav1.GetOptions{})
	}
	for _, able := range []bool{true, false} {
		s := newServer(t)
		s.answer(answers(t, able))
		set := s.set(Identity{Name: "x"}, NewFence())
		check := func(name string, ctx context.Context, call func(context.Context, *Set) (*corev1.Pod, error), want corev1.Pod) {
			t.Helper()
			pod, err := call(ctx, set)
			if err != nil {
				t.Errorf("%s, API server able %v: %v", name, able, err)
			} else if pod.String() != want.String() {
				t.Errorf("%s, API server able %v:\ngot  %v\nwant %v", name, able, pod, &want)
			}
		}
		brief := whole
		if able {
			brief = metadata
		}
		for name, write := range writes {
			check(name, t.Context(), write, whole)
			check(name+" for the metadata", controller.OnlyMetadata(t.Context()), write, brief)
		}
		check("get", controller.OnlyMetadata(t.Context()), get, whole)
	}
}

// The answer to the deletion of a collection is a list, of which an API server sends no metadata if it is asked for that
// of an object: it fails, after the deletion. The dynamic client reads JSON.
func TestWhichDeletionsAskForMetadata(t *testing.T) {
	s := newServer(t)
	s.answer(answers(t, true))
	set := s.set(Identity{Name: "x"}, NewFence())
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	brief := controller.OnlyMetadata(t.Context())
	for _, err := range []error{
		set.Kubernetes.CoreV1().Pods("ns").Delete(brief, "p", metav1.DeleteOptions{}),
		set.Dynamic.Resource(pods).Namespace("ns").Delete(brief, "p", metav1.DeleteOptions{}),
		set.Kubernetes.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}),
		set.Metadata.Resource(pods).Namespace("ns").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	var changed []bool
	for _, r := range s.seen() {
		changed = append(changed, strings.HasPrefix(r.accept, acceptMetadata))
	}
	if want := []bool{true, false, false, false}; !slices.Equal(changed, want) {
		t.Errorf("metadata was asked for %v, want %v", changed, want)
	}
}

func TestAnErrorIsNotAnAnswer(t *testing.T) {
	s := newServer(t)
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusConflict, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonConflict, Code: http.StatusConflict,
		})
	})
	set := s.set(Identity{Name: "x"}, NewFence())
	_, err := set.Kubernetes.CoreV1().Pods("ns").Create(controller.OnlyMetadata(t.Context()), &corev1.Pod{}, metav1.CreateOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
}

func TestMetadataBody(t *testing.T) {
	broken := errors.New("connection reset")
	typed := string(metadataPrefix)
	for _, test := range []struct {
		name, body, want string
		err              error // at the end of the body
	}{
		{"nothing", "", "", io.EOF},
		{"short", "{}", "{}", io.EOF},
		{"long", strings.Repeat("x", 200), strings.Repeat("x", 200), io.EOF},
		{"metadata", typed + "rest", "k8s\x00rest", io.EOF},
		{"metadata alone", typed, "k8s\x00", io.EOF},
		{"cut off", typed[:9], typed[:9], broken},
		{"shorter than announced", "{", "{", io.ErrUnexpectedEOF},
		{"cut off later", typed + "re", "k8s\x00re", broken},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := io.MultiReader(strings.NewReader(test.body), failing{test.err})
			var got bytes.Buffer
			b := &metadataBody{ReadCloser: io.NopCloser(body)}
			p := make([]byte, 3)
			var err error
			for err == nil {
				var n int
				n, err = b.Read(p)
				got.Write(p[:n])
			}
			if got.String() != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q and %v, want %q and %v", got.String(), err, test.want, test.err)
			}
		})
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
