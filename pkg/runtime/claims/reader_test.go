package claims

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
)

// marked returns a lease of another process that claims a controller.
func marked(of Lease) *coordinationv1.Lease {
	l := lease(of, "1", "other", Annotations("other", []string{"job"}))
	l.Labels = Labels()
	return &l
}

// tenants returns leases that people may write who work in a namespace: one that claims something, and one that says where
// there are others.
func tenants() []runtime.Object {
	entry := entryOf("team-b")
	entry.Namespace = "team-a"
	return []runtime.Object{marked(Lease{"team-a", "x"}), marked(Lease{"team-b", "x"}), entry}
}

// Pins MGR-191.
func TestReader(t *testing.T) {
	unmarked := lease(mainLease, "2", "stranger", nil)
	moved, entry := Lease{"ha", "main"}, leaseOf(entryOf("ha")).String()
	for name, c := range map[string]struct {
		own, main Lease
		further   []runtime.Object
		want      []string
		requests  string
	}{
		"of a group": {
			own: groupLease, main: mainLease, further: []runtime.Object{&unmarked},
			want: []string{groupLease.String(), mainLease.String()}, requests: "[list kube-system 7 get kube-system]",
		},
		"of the main lease": {
			own: mainLease, main: mainLease, further: []runtime.Object{&unmarked},
			want: []string{groupLease.String()}, requests: "[list kube-system 7]",
		},
		"without a main lease": {
			own: groupLease, main: mainLease,
			want: []string{groupLease.String()}, requests: "[list kube-system 7 get kube-system]",
		},
		"another namespace has an entry": {
			own: mainLease, main: mainLease, further: []runtime.Object{entryOf("ha")},
			want: []string{entry, groupLease.String(), "ha/x"}, requests: "[list kube-system 7 list ha 7]",
		},
		"in another namespace": {
			own: moved, main: moved, further: []runtime.Object{entryOf("ha")},
			want: []string{entry, groupLease.String(), "ha/x"}, requests: "[list kube-system list ha]",
		},
		"in another namespace, for the first time": {
			own: moved, main: moved,
			want: []string{entry, groupLease.String(), "ha/x"}, requests: "[list kube-system create kube-system list kube-system list ha]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(append(append(tenants(), marked(groupLease), marked(Lease{"ha", "x"})), c.further...)...)
			got, err := (&Reader{Leases: client.CoordinationV1(), Main: c.main}).Read(t.Context(), c.own, "7")
			if err != nil {
				t.Fatal(err)
			}
			var names, requests []string
			for _, l := range got {
				names = append(names, leaseOf(&l).String())
			}
			for _, a := range client.Actions() {
				requests = append(requests, requestOf(t, a))
			}
			if !reflect.DeepEqual(names, c.want) || fmt.Sprint(requests) != c.requests {
				t.Errorf("got %v by %v, want %v by %s", names, requests, c.want, c.requests)
			}
		})
	}
}

// requestOf is the verb and the namespace of a request, and the version that a list is not to be older than.
func requestOf(t *testing.T, a clienttesting.Action) string {
	t.Helper()
	all := a.GetVerb() + " " + a.GetNamespace()
	list, ok := a.(clienttesting.ListActionImpl)
	if !ok {
		return all
	}
	version, match := list.ListOptions.ResourceVersion, list.ListOptions.ResourceVersionMatch
	if (version != "") != (match == metav1.ResourceVersionMatchNotOlderThan) {
		t.Errorf("asked for leases of version %q, match %q", version, match)
	}
	return strings.TrimSpace(all + " " + version)
}

// What is claimed in a namespace that may not be read is not known. The API server also refuses while it has not loaded its
// roles yet, so it is asked again. Pins MGR-191.
func TestANamespaceThatMayNotBeReadIsNoneWithoutClaims(t *testing.T) {
	for _, forbidden := range []string{"kube-system", "ha"} {
		for _, own := range []Lease{mainLease, {"ha", "main"}} {
			client := fake.NewClientset(marked(groupLease), marked(Lease{"ha", "x"}), entryOf("ha"))
			refuse := true
			client.PrependReactor("list", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if refuse && slices.Contains([]string{forbidden, metav1.NamespaceAll}, a.GetNamespace()) {
					return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil)
				}
				return false, nil, nil
			})
			r := &Reader{Leases: client.CoordinationV1(), Main: own}
			if leases, err := r.Read(t.Context(), own, ""); !apierrors.IsForbidden(err) {
				t.Errorf("%s forbidden, lease %s: read %d leases, the error is %v", forbidden, own, len(leases), err)
			}
			refuse = false
			if leases, err := r.Read(t.Context(), own, ""); err != nil || len(leases) != 3 {
				t.Errorf("lease %s: read %d leases, the error is %v", own, len(leases), err)
			}
		}
	}
}

// A process whose entry was not made is not seen by others, and may not go on.
func TestWithoutAnEntryNothingIsRead(t *testing.T) {
	own := Lease{"ha", "main"}
	spoilt := entryOf("ha")
	spoilt.Annotations = nil
	for name, objects := range map[string][]runtime.Object{"the entry is refused": nil, "it names no namespace": {spoilt}} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(objects...)
			if len(objects) == 0 {
				client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil)
				})
			}
			if _, err := (&Reader{Leases: client.CoordinationV1(), Main: own}).Read(t.Context(), own, ""); err == nil {
				t.Error("it is read all the same")
			}
		})
	}
}

// interrupted is a client that does something before one of its requests.
type interrupted struct {
	coordinationv1client.LeasesGetter
	wait int
	do   func()
}

func (i *interrupted) Leases(namespace string) coordinationv1client.LeaseInterface {
	if i.wait--; i.wait == 0 {
		i.do()
	}
	return i.LeasesGetter.Leases(namespace)
}

// order is one in which two processes, with their leases in different namespaces, claim a controller and read.
type order struct {
	first, second Lease
	entries       int // bit by bit: who has an entry from earlier
	// The second claims before this request of the first, and reads before this one.
	claims, reads int
}

// orders are all of them: a process sends five requests at most.
func orders() []order {
	const requests = 5
	a, b := Lease{"a", "main"}, Lease{"b", "main"}
	var all []order
	for _, pair := range [][2]Lease{{a, b}, {a, mainLease}, {mainLease, a}} {
		for entries := range 4 {
			for claims := 1; claims <= requests+1; claims++ {
				for reads := claims; reads <= requests+1; reads++ {
					all = append(all, order{pair[0], pair[1], entries, claims, reads})
				}
			}
		}
	}
	return all
}

// happen lets both claim and read, and reports whether each of them sees the other.
func (o order) happen(t *testing.T) (first, second bool) {
	t.Helper()
	all := stored{}
	for n, l := range []Lease{o.first, o.second} {
		if o.entries>>n&1 == 1 {
			all.add(entryOf(l.Namespace))
		}
	}
	reads := &interrupted{all, o.reads, func() { second = finds(t, &Reader{Leases: all, Main: o.second}, o.second, o.first) }}
	claims := &interrupted{reads, o.claims, func() { all.add(marked(o.second)) }}
	all.add(marked(o.first))
	first = finds(t, &Reader{Leases: claims, Main: o.first}, o.first, o.second)
	for reads.wait > 0 {
		claims.Leases("") // the second is later than all requests of the first
	}
	return first, second
}

// Whatever the order of their requests, of two processes one sees the other. Pins MGR-191.
func TestProcessesOfDifferentNamespacesSeeEachOther(t *testing.T) {
	for _, o := range orders() {
		if first, second := o.happen(t); !first && !second {
			t.Errorf("neither sees the other: %+v", o)
		}
	}
}

// stored is an API server with marked leases.
type stored map[Lease]coordinationv1.Lease

func (s stored) Leases(namespace string) coordinationv1client.LeaseInterface {
	return storedIn{stored: s, namespace: namespace}
}

func (s stored) add(l *coordinationv1.Lease) { s[leaseOf(l)] = *l }

// storedIn is one namespace of it.
type storedIn struct {
	coordinationv1client.LeaseInterface
	stored    stored
	namespace string
}

func (s storedIn) Create(_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	s.stored.add(l)
	return l, nil
}

func (s storedIn) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	var list coordinationv1.LeaseList
	for name, l := range s.stored {
		if name.Namespace == s.namespace {
			list.Items = append(list.Items, l)
		}
	}
	return &list, nil
}

// finds reports whether a read by the holder of own shows another lease.
func finds(t *testing.T, r *Reader, own, other Lease) bool {
	t.Helper()
	leases, err := r.Read(t.Context(), own, "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(leases, func(l coordinationv1.Lease) bool { return leaseOf(&l) == other })
}
