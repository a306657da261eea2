package owners

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var ownerKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}

func object(name string, uid types.UID, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func labeled(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": value} }
}

func controlledBy(uid types.UID) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences,
			metav1.OwnerReference{UID: "bystander"},
			metav1.OwnerReference{UID: uid, Kind: "ReplicaSet", Name: "owner", Controller: ptr.To(true)})
	}
}

func beingDeleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestDecide(t *testing.T) {
	owner := object("owner", "o")
	deletedOwner := object("owner", "o", beingDeleted)
	clusterOwner := object("owner", "o", func(p *corev1.Pod) { p.Namespace = "" })
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	for _, test := range []struct {
		name      string
		owner     *corev1.Pod
		candidate *corev1.Pod
		matches   bool
		want      decision
	}{
		{"WL-17: another's and matching", owner, object("p", "p", controlledBy("x")), true, ignore},
		{"WL-17: another's and not matching", owner, object("p", "p", controlledBy("x")), false, ignore},
		{"WL-18: own and matching", owner, object("p", "p", controlledBy("o")), true, keep},
		{"WL-18: own, matching, owner being deleted", deletedOwner, object("p", "p", controlledBy("o")), true, keep},
		{"WL-18: own, matching, being deleted itself", owner, object("p", "p", controlledBy("o"), beingDeleted), true, keep},
		{"WL-19: own, not matching", owner, object("p", "p", controlledBy("o")), false, release},
		{"WL-19: own, not matching, being deleted itself", owner, object("p", "p", controlledBy("o"), beingDeleted), false, release},
		{"WL-19: own, not matching, owner being deleted", deletedOwner, object("p", "p", controlledBy("o")), false, ignore},
		{"WL-20: orphan, matching", owner, object("p", "p"), true, adopt},
		{"WL-20: orphan, not matching", owner, object("p", "p"), false, ignore},
		{"WL-20: orphan, owner being deleted", deletedOwner, object("p", "p"), true, ignore},
		{"WL-20: orphan being deleted", owner, object("p", "p", beingDeleted), true, ignore},
		{"WL-20: orphan in another namespace", owner, object("p", "p", elsewhere), true, ignore},
		{"WL-20: orphan of a cluster-scoped owner", clusterOwner, object("p", "p", elsewhere), true, adopt},
		{"WL-12: only a plain owner reference", owner, object("p", "p", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{UID: "x"}}
		}), true, adopt},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := decide(test.owner, test.candidate, func() bool { return test.matches }); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// fixture is a Claimer that records what it does.
type fixture struct {
	Claimer[*corev1.Pod]
	patched []string
	asked   int
}

func newFixture(patchErr map[string]error, canAdopt error) *fixture {
	f := &fixture{}
	f.Claimer = Claimer[*corev1.Pod]{
		Owner:     object("owner", "o"),
		OwnerKind: ownerKind,
		Kind:      "Pod",
		Selector:  labels.SelectorFromSet(labels.Set{"app": "a"}),
		CanAdopt: func(context.Context) error {
			f.asked++
			return canAdopt
		},
		Patch: func(_ context.Context, p *corev1.Pod, _ []byte) error {
			f.patched = append(f.patched, p.Name)
			return patchErr[p.Name]
		},
	}
	return f
}

func names(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

var podsResource = schema.GroupResource{Resource: "pods"}

func TestClaim(t *testing.T) {
	notFound := apierrors.NewNotFound(podsResource, "x")
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)
	conflict := apierrors.NewConflict(podsResource, "x", errors.New("changed"))
	boom := errors.New("boom")
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "PATCH", podsResource, "x", "404 page not found", 0, true)
	mine, stray := controlledBy("o"), labeled("b")
	for _, test := range []struct {
		name       string
		candidates []*corev1.Pod
		patchErr   map[string]error
		canAdopt   error
		want       []string
		patched    []string
		asked      int
		wantErr    string
		requeue    bool
	}{
		{
			name:       "WL-22: nothing to patch asks nothing",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a"), mine), object("p2", "2", stray)},
			want:       []string{"p1"},
		},
		{
			name:       "WL-22: adopts and asks once",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", labeled("a"))},
			want:       []string{"p1", "p2"}, patched: []string{"p1", "p2"}, asked: 1,
		},
		{
			name:       "WL-21, WL-22: may not adopt, asks once, still releases",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", labeled("a")), object("p3", "3", stray, mine)},
			canAdopt:   boom,
			patched:    []string{"p3"}, asked: 1,
			wantErr: "[can't adopt Pod ns/p1 (1): boom, can't adopt Pod ns/p2 (2): boom]",
		},
		{
			name:       "WL-20: an adopted object that is gone is no error and not claimed",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", labeled("a"))},
			patchErr:   map[string]error{"p1": notFound},
			want:       []string{"p2"}, patched: []string{"p1", "p2"}, asked: 1,
		},
		{
			name:       "WL-21: a failed adoption does not stop the others",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", labeled("a")), object("p3", "3", labeled("a"), mine)},
			patchErr:   map[string]error{"p1": boom},
			want:       []string{"p2", "p3"}, patched: []string{"p1", "p2"}, asked: 1, wantErr: "boom",
		},
		{
			name:       "WL-20: an invalid adoption is an error",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a"))},
			patchErr:   map[string]error{"p1": invalid},
			patched:    []string{"p1"}, asked: 1, wantErr: invalid.Error(),
		},
		{
			name:       "WL-19, WL-24: releasing what is gone or another by now is no error",
			candidates: []*corev1.Pod{object("p1", "1", stray, mine), object("p2", "2", stray, mine)},
			patchErr:   map[string]error{"p1": notFound, "p2": invalid},
			patched:    []string{"p1", "p2"},
		},
		{
			name:       "WL-117: the page of a proxy does not say that an object is gone",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", stray, mine)},
			patchErr:   map[string]error{"p1": page, "p2": page},
			patched:    []string{"p1", "p2"}, asked: 1, wantErr: page.Error(),
		},
		{
			name:       "WL-19: a failed release is an error",
			candidates: []*corev1.Pod{object("p1", "1", stray, mine), object("p2", "2", labeled("a"), mine)},
			patchErr:   map[string]error{"p1": boom},
			want:       []string{"p2"}, patched: []string{"p1"}, wantErr: "boom",
		},
		{
			name:       "WL-102: conflicts are a reason to requeue the owner",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", stray, mine)},
			patchErr:   map[string]error{"p1": conflict, "p2": fmt.Errorf("patching: %w", conflict)},
			patched:    []string{"p1", "p2"}, asked: 1, requeue: true,
			wantErr: "[" + conflict.Error() + ", patching: " + conflict.Error() + "]",
		},
		{
			name:       "WL-102: a conflict does not hide a failure",
			candidates: []*corev1.Pod{object("p1", "1", labeled("a")), object("p2", "2", stray, mine)},
			patchErr:   map[string]error{"p1": conflict, "p2": boom},
			patched:    []string{"p1", "p2"}, asked: 1, wantErr: "[" + conflict.Error() + ", boom]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(test.patchErr, test.canAdopt)
			claimed, err := f.Claim(t.Context(), test.candidates)
			if got := names(claimed); !slices.Equal(got, test.want) {
				t.Errorf("claimed %v, want %v", got, test.want)
			}
			if !slices.Equal(f.patched, test.patched) {
				t.Errorf("patched %v, want %v", f.patched, test.patched)
			}
			if f.asked != test.asked {
				t.Errorf("asked whether to adopt %d times, want %d", f.asked, test.asked)
			}
			if got := errorText(err); got != test.wantErr {
				t.Errorf("error %q, want %q", got, test.wantErr)
			}
			if got := reconcile.IsExpected(err); got != test.requeue {
				t.Errorf("the owner is requeued: %v", got)
			}
		})
	}
}

// Pins WL-16.
func TestClaimAppliesFiltersAfterTheSelector(t *testing.T) {
	f := newFixture(nil, nil)
	var filtered []string
	f.Filters = []func(*corev1.Pod) bool{func(p *corev1.Pod) bool {
		filtered = append(filtered, p.Name)
		return p.Name != "p2"
	}}
	claimed, err := f.Claim(t.Context(), []*corev1.Pod{
		object("p1", "1", labeled("a"), controlledBy("o")),
		object("p2", "2", labeled("a"), controlledBy("o")),
		object("p3", "3", labeled("b")),
	})
	if err != nil || !slices.Equal(names(claimed), []string{"p1"}) {
		t.Errorf("claimed %v, %v", names(claimed), err)
	}
	if !slices.Equal(filtered, []string{"p1", "p2"}) || !slices.Equal(f.patched, []string{"p2"}) {
		t.Errorf("filtered %v, patched %v", filtered, f.patched)
	}
}

// Pins WL-22.
func TestRecheck(t *testing.T) {
	owner := object("owner", "o")
	for _, test := range []struct {
		name  string
		fresh *corev1.Pod
		err   error
		want  string
	}{
		{"same and alive", object("owner", "o"), nil, ""},
		{"cannot be read", nil, errors.New("boom"), "can't recheck DeletionTimestamp: boom"},
		{"recreated", object("owner", "n"), nil, "original ReplicaSet ns/owner is gone: got uid n, wanted o"},
		{"being deleted", object("owner", "o", beingDeleted), nil, "ns/owner has just been deleted at "},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := recheck(owner, "ReplicaSet", func(context.Context) (*corev1.Pod, error) { return test.fresh, test.err })(t.Context())
			if got := errorText(err); got != test.want && (test.want == "" || !strings.HasPrefix(got, test.want)) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("%v does not wrap the cause", err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
