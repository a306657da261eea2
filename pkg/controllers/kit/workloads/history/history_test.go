package history

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/fakeclient"
)

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "c", Image: image, Command: []string{"a && b <c>"}}},
			TerminationGracePeriodSeconds: ptr.To[int64](30),
		},
	}
}

func payload(t *testing.T, image string) []byte {
	t.Helper()
	p, err := Payload(template(image))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPayload pins the bytes: they are compared with those that others stored.
// Pins WL-72.
func TestPayload(t *testing.T) {
	const want = `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"a"}},` +
		`"spec":{"containers":[{"command":["a \u0026\u0026 b \u003cc\u003e"],"image":"i","name":"c","resources":{}}],"terminationGracePeriodSeconds":30}}}}`
	if got := string(payload(t, "i")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Pins WL-73.
func TestHashAndName(t *testing.T) {
	p := payload(t, "i")
	if a, b := Hash(p, 0), Hash(p, 1); a == b || len(a) > 10 {
		t.Errorf("hashes %s and %s", a, b)
	}
	// FNV-1 of "0" is 0x050c5d1f ^ '0' = 84696367. FNV-1a would give 890022063.
	if got := Hash(nil, 0); got != "d8bfb7bc" {
		t.Errorf("hash of no payload: %s", got)
	}
	if got := Name("web", "h"); got != "web-h" {
		t.Error(got)
	}
	if got := Name(strings.Repeat("x", 300), "h"); got != strings.Repeat("x", 223)+"-h" {
		t.Error(got)
	}
}

func TestTemplateUndoesPayload(t *testing.T) {
	got, ok := Template(payload(t, "i"))
	if !ok || !equality.Semantic.DeepEqual(got, template("i")) {
		t.Errorf("got %v, %v", got, ok)
	}
	for name, p := range map[string]string{
		"no JSON":        `{`,
		"more fields":    `{"spec":{"template":{"$patch":"replace"},"replicas":1}}`,
		"no replacement": `{"spec":{"template":{"metadata":{}}}}`,
		"wrong type":     `{"spec":{"template":{"$patch":"replace","spec":1}}}`,
		"empty":          `{}`,
	} {
		if got, ok := Template([]byte(p)); ok {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestApplyTakesAnyPayload(t *testing.T) {
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{ServiceName: "s", Template: *template("old")}}
	replaced, err := Apply(set, payload(t, "new"))
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(&replaced.Spec.Template, template("new")) || replaced.Spec.ServiceName != "s" {
		t.Errorf("got %+v", replaced.Spec)
	}
	merged, err := Apply(set, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"new"}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c := merged.Spec.Template.Spec.Containers[0]; c.Image != "new" || len(c.Command) != 1 {
		t.Errorf("got %+v", c)
	}
	if set.Spec.Template.Spec.Containers[0].Image != "old" {
		t.Error("the owner was changed")
	}
	if _, err := Apply(set, []byte("{")); err == nil {
		t.Error("takes what is no patch")
	}
}

func numbered(name string, number int64, age time.Duration) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1000, 0).Add(-age))},
		Revision:   number,
	}
}

func names(revisions []*appsv1.ControllerRevision) string {
	var all []string
	for _, r := range revisions {
		all = append(all, r.Name)
	}
	return strings.Join(all, " ")
}

// Pins WL-77.
func TestSort(t *testing.T) {
	revisions := []*appsv1.ControllerRevision{
		numbered("d", 2, 0), numbered("c", 2, 0), numbered("b", 2, time.Minute), numbered("z", 1, 0), numbered("e", 3, 0),
	}
	Sort(revisions)
	if got := names(revisions); got != "z b c d e" {
		t.Error(got)
	}
	if got := NextNumber(revisions); got != 4 {
		t.Errorf("next number %d", got)
	}
	if got := NextNumber(nil); got != 1 {
		t.Errorf("first number %d", got)
	}
}

func TestSurplus(t *testing.T) {
	sorted := []*appsv1.ControllerRevision{numbered("a", 1, 0), numbered("b", 2, 0), numbered("c", 3, 0), numbered("d", 4, 0)}
	live := func(name string) bool { return name == "b" || name == "d" }
	for limit, want := range map[int]string{-1: "a c", 0: "a c", 1: "a", 2: "", 10: ""} {
		if got := names(Surplus(sorted, limit, live)); got != want {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}

// Pins WL-77.
func TestHolds(t *testing.T) {
	revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte("x")}}
	if !Holds(revision, []byte("x")) || Holds(revision, []byte("y")) {
		t.Error("payloads are not compared by bytes")
	}
}

type fixture struct {
	Control
	fake *fake.Clientset
	set  *appsv1.StatefulSet
}

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

func newFixture(t *testing.T, objects ...runtime.Object) fixture {
	t.Helper()
	f := fixture{
		fake: fakeclient.New(objects...),
		set:  &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "o", Annotations: map[string]string{"note": "n"}}},
	}
	informer := informers.NewSharedInformerFactory(f.fake, 0).Apps().V1().ControllerRevisions().Informer()
	f.Control = NewControl(f.fake, informer)
	for _, o := range objects {
		if err := informer.GetStore().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f fixture) revision(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	return New(Owner{f.set, kind}, template(image), payload(t, image), number, 0)
}

// Pins WL-74.
func TestNew(t *testing.T) {
	r := newFixture(t).revision(t, "i", 7)
	hash := Hash(payload(t, "i"), 0)
	ref := metav1.GetControllerOf(r)
	if r.Name != "web-"+hash || r.Namespace != "" || r.Revision != 7 || r.Annotations["note"] != "n" ||
		len(r.Labels) != 2 || r.Labels["app"] != "a" || r.Labels[hashLabel] != hash ||
		ref == nil || ref.UID != "o" || ref.Kind != "StatefulSet" || ref.APIVersion != "apps/v1" {
		t.Errorf("got %+v", r)
	}
}

// Pins WL-78.
func TestListIsWhatIsOwnedOrOrphanedAndMatches(t *testing.T) {
	make := func(name string, number int64, app string, owner types.UID) *appsv1.ControllerRevision {
		r := numbered(name, number, 0)
		r.Labels = map[string]string{"app": app}
		if owner != "" {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: owner, Controller: ptr.To(true)}}
		}
		return r
	}
	elsewhere := make("elsewhere", 1, "a", "")
	elsewhere.Namespace = "other"
	f := newFixture(t, make("orphan", 3, "a", ""), make("owned", 2, "a", "o"), make("of-predecessor", 1, "a", "older"),
		make("foreign-orphan", 1, "b", ""), make("unmatched", 1, "b", "o"), elsewhere)
	got, err := f.List("StatefulSet", f.set, labels.SelectorFromSet(labels.Set{"app": "a"}))
	if err != nil || names(got) != "owned orphan" {
		t.Errorf("got %q, %v", names(got), err)
	}
	all, err := f.Candidates("StatefulSet", f.set)
	if err != nil || len(all) != 4 {
		t.Errorf("candidates %q, %v", names(all), err)
	}
	if _, err := f.List("StatefulSet", &appsv1.StatefulSet{}, labels.Everything()); err == nil {
		t.Error("an owner without identity is looked up")
	}
}

// Pins WL-75.
func TestCreate(t *testing.T) {
	taken := func(collisions int32, raw []byte) *appsv1.ControllerRevision {
		r := numbered(Name("web", Hash(payload(t, "i"), collisions)), 1, 0)
		r.Data.Raw = raw
		return r
	}
	for _, test := range []struct {
		name           string
		existing       []runtime.Object
		wantCollisions int32
		wantCreated    bool
	}{
		{"free", nil, 0, true},
		{"exists", []runtime.Object{taken(0, payload(t, "i"))}, 0, false},
		{"taken", []runtime.Object{taken(0, []byte("x"))}, 1, true},
		{"taken twice", []runtime.Object{taken(0, []byte("x")), taken(1, []byte("y"))}, 2, true},
		{"taken, then exists", []runtime.Object{taken(0, []byte("x")), taken(1, payload(t, "i"))}, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, test.existing...)
			got, collisions, err := f.Create(t.Context(), "ns", "web", f.revision(t, "i", 5), 0)
			if err != nil {
				t.Fatal(err)
			}
			if want := Name("web", Hash(payload(t, "i"), test.wantCollisions)); got.Name != want || got.Namespace != "ns" || collisions != test.wantCollisions {
				t.Errorf("got %s after %d collisions, want %s after %d", got.Name, collisions, want, test.wantCollisions)
			}
			if created := got.Revision == 5; created != test.wantCreated {
				t.Errorf("created: %v", created)
			}
			if created := got.Labels[hashLabel] == Hash(payload(t, "i"), 0); created != test.wantCreated {
				t.Error("the label of a new revision is not the first hash")
			}
		})
	}
}

func TestCreateFails(t *testing.T) {
	f := newFixture(t)
	f.fake.PrependReactor("create", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no")
	})
	if _, _, err := f.Create(t.Context(), "ns", "web", f.revision(t, "i", 1), 0); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := f.Create(ended, "ns", "web", f.revision(t, "i", 1), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Pins WL-76.
func TestRenumber(t *testing.T) {
	conflict := apierrors.NewConflict(appsv1.Resource("controllerrevisions"), "a", errors.New("changed"))
	for _, test := range []struct {
		name      string
		number    int64
		conflicts int
		live      int64
		wantErr   bool
		want      []string
	}{
		{"other number", 4, 0, 1, false, []string{"update"}},
		{"same number", 1, 0, 1, false, nil},
		{"conflict", 4, 2, 1, false, []string{"update", "get", "update", "get", "update"}},
		{"another did it", 4, 1, 4, false, []string{"update", "get"}},
		{"conflicts without end", 4, 99, 1, true, []string{"update", "get", "update", "get", "update", "get", "update", "get"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			cached := numbered("a", 1, 0)
			f := newFixture(t, numbered("a", test.live, 0))
			left := test.conflicts
			f.fake.PrependReactor("update", "*", func(ktesting.Action) (bool, runtime.Object, error) {
				left--
				return left >= 0, nil, conflict
			})
			got, err := f.Renumber(t.Context(), cached, test.number)
			if (err != nil) != test.wantErr {
				t.Fatalf("got %v", err)
			}
			if err == nil && got.Revision != test.number {
				t.Errorf("got %d", got.Revision)
			}
			var verbs []string
			for _, a := range f.fake.Actions() {
				verbs = append(verbs, a.GetVerb())
			}
			if !slices.Equal(verbs, test.want) {
				t.Errorf("requests %v, want %v", verbs, test.want)
			}
			if cached.Revision != 1 {
				t.Error("the cached revision was changed")
			}
		})
	}
}

// Pins WL-118.
func TestRenumberLeavesASuccessorAlone(t *testing.T) {
	successor := numbered("a", 1, 0)
	successor.UID = "another"
	f := newFixture(t, successor)
	conflict := apierrors.NewConflict(appsv1.Resource("controllerrevisions"), "a", errors.New("uid"))
	f.fake.PrependReactor("update", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
		sent := action.(ktesting.UpdateAction).GetObject().(*appsv1.ControllerRevision)
		return sent.UID != successor.UID, nil, conflict
	})
	if got, err := f.Renumber(t.Context(), numbered("a", 1, 0), 4); !reconcile.IsExpected(err) {
		t.Errorf("got %v, %v", got, err)
	}
	live, err := f.fake.AppsV1().ControllerRevisions("ns").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || live.Revision != 1 {
		t.Errorf("the successor is %v, %v", live, err)
	}
}

func TestDelete(t *testing.T) {
	f := newFixture(t, numbered("a", 1, 0))
	for range 2 {
		if err := f.Delete(t.Context(), numbered("a", 1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	options := f.fake.Actions()[0].(ktesting.DeleteActionImpl).DeleteOptions
	if options.Preconditions == nil || *options.Preconditions.UID != "a" {
		t.Errorf("deleted with %+v", options)
	}
	f.fake.PrependReactor("delete", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
	if err := f.Delete(t.Context(), numbered("a", 1, 0)); err == nil {
		t.Error("the error is lost")
	}
}

// Pins WL-124.
func TestARevisionThatIsNotDeletedKeepsNoOther(t *testing.T) {
	f := newFixture(t, numbered("a", 1, 0), numbered("b", 2, 0), numbered("c", 3, 0))
	no := errors.New("no")
	f.fake.PrependReactor("delete", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
		return action.(ktesting.DeleteAction).GetName() == "a", nil, no
	})
	if err := f.DeleteAll(t.Context(), []*appsv1.ControllerRevision{numbered("a", 1, 0), numbered("b", 2, 0)}); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	left, err := f.fake.AppsV1().ControllerRevisions("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 2 || left.Items[0].Name != "a" || left.Items[1].Name != "c" {
		t.Errorf("left are %v, %v", left.Items, err)
	}
}

// Pins WL-117.
func TestDeleteBelievesTheAPIServerOnly(t *testing.T) {
	resource := appsv1.Resource("controllerrevisions")
	for name, test := range map[string]struct {
		answer  error
		wantErr bool
	}{
		"it is gone":        {apierrors.NewNotFound(resource, "a"), false},
		"it is another one": {apierrors.NewConflict(resource, "a", errors.New("uid")), false},
		"the answer of a proxy": {apierrors.NewGenericServerResponse(
			http.StatusNotFound, "delete", resource, "a", "404 page not found", 0, true), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, numbered("a", 1, 0))
			f.fake.PrependReactor("delete", "*", func(ktesting.Action) (bool, runtime.Object, error) {
				return true, nil, test.answer
			})
			if err := f.Delete(t.Context(), numbered("a", 1, 0)); (err != nil) != test.wantErr {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestPatch(t *testing.T) {
	f := newFixture(t, numbered("a", 1, 0))
	got, err := f.Patch(t.Context(), numbered("a", 1, 0), types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))
	if err != nil || got.Labels["x"] != "y" {
		t.Errorf("got %v, %v", got, err)
	}
}

// Pins WL-119.
func TestARevisionThatIsNotNumberedInTime(t *testing.T) {
	f := newFixture(t, numbered("a", 1, 0))
	f.fake.PrependReactor("update", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, &url.Error{Op: "Put", URL: "https://server", Err: context.DeadlineExceeded}
	})
	if got, err := f.Renumber(t.Context(), numbered("a", 1, 0), 4); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", got, err)
	}
}
