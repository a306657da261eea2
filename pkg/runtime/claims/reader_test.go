package claims

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/fakeclient"
)

// marked returns a lease of another process that claims a controller.
func marked(of Lease) *coordinationv1.Lease {
	l := lease(of, "1", "other", Annotations("other", []string{"job"}))
	l.Labels = Labels()
	return &l
}

// tenants returns leases that people may write who work in a namespace: one that claims something, and one that says
// where there are others.
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
			own: moved, main: moved, further: []runtime.Object{entryAt("6")},
			want: []string{entry, groupLease.String(), "ha/x"}, requests: "[list kube-system 7 list ha 7]",
		},
		"in another namespace, with an entry that is newer": {
			own: moved, main: moved, further: []runtime.Object{entryAt("10")},
			want: []string{entry, groupLease.String(), "ha/x"}, requests: "[list kube-system 7 list ha 10]",
		},
		"in another namespace, for the first time": {
			own: moved, main: moved,
			want:     []string{entry, groupLease.String(), "ha/x"},
			requests: "[list kube-system 7 create kube-system list kube-system list ha]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := fakeclient.New(append(append(tenants(), marked(groupLease), marked(Lease{"ha", "x"})), c.further...)...)
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

// entryAt is the entry of a namespace with a resource version.
func entryAt(version string) *coordinationv1.Lease {
	entry := entryOf("ha")
	entry.ResourceVersion = version
	return entry
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

// What is claimed in a namespace that may not be read is not known. The API server also refuses while it has not loaded
// its roles yet, so it is asked again. Pins MGR-191.
func TestANamespaceThatMayNotBeReadIsNoneWithoutClaims(t *testing.T) {
	for _, forbidden := range []string{"kube-system", "ha"} {
		for _, own := range []Lease{mainLease, {"ha", "main"}} {
			client := fakeclient.New(marked(groupLease), marked(Lease{"ha", "x"}), entryOf("ha"))
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

// That the main lease does not exist has to be said by the API server: the page of a proxy says nothing about who holds
// it. Pins MGR-191 and MGR-194.
func TestThePageOfAProxyIsNoMissingMainLease(t *testing.T) {
	client := fakeclient.New(marked(groupLease))
	page := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "GET", coordinationv1.Resource("leases"), mainLease.Name, "404 page not found", 0, true)
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, page })
	leases, err := (&Reader{Leases: client.CoordinationV1(), Main: mainLease}).Read(t.Context(), groupLease, "7")
	if !errors.Is(err, page) {
		t.Errorf("read %d leases, the error is %v", len(leases), err)
	}
}

// A process whose entry was not made is not seen by others, and may not go on. A dry run shows that too.
func TestWithoutAnEntryNothingIsRead(t *testing.T) {
	own := Lease{"ha", "main"}
	spoilt := entryOf("ha")
	spoilt.Annotations = nil
	for name, objects := range map[string][]runtime.Object{"it is refused": nil, "it names no namespace": {spoilt}} {
		for _, dryRun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dry run %t", name, dryRun), func(t *testing.T) {
				client := fakeclient.New(objects...)
				if len(objects) == 0 {
					client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "", nil)
					})
				}
				r := &Reader{Leases: client.CoordinationV1(), Main: own, DryRun: dryRun}
				if _, err := r.Read(t.Context(), own, ""); err == nil {
					t.Error("it is read all the same")
				}
			})
		}
	}
}

// A dry run reads what a Read would read after it has made the entry, and makes none.
func TestADryRunStoresNothing(t *testing.T) {
	own := Lease{"ha", "main"}
	client := fakeclient.New()
	var requests []string
	client.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		requests = append(requests, requestOf(t, a))
		create, ok := a.(clienttesting.CreateActionImpl)
		if ok && !slices.Equal(create.CreateOptions.DryRun, []string{metav1.DryRunAll}) {
			t.Errorf("the entry is created with %+v", create.CreateOptions)
		}
		return ok, create.Object, nil
	})
	r := &Reader{Leases: client.CoordinationV1(), Main: own, DryRun: true}
	if _, err := r.Read(t.Context(), own, ""); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(requests); got != "[list kube-system create kube-system list ha]" {
		t.Errorf("sent %s", got)
	}
}

// Pins MGR-191.
func TestAnEntryThatWasDeletedIsMadeAgain(t *testing.T) {
	client := fakeclient.New()
	r := &Reader{Leases: client.CoordinationV1(), Main: mainLease}
	for range 2 {
		if err := r.Announce(t.Context(), "ha"); err != nil {
			t.Fatal(err)
		}
		entry := leaseOf(entryOf("ha"))
		leases := client.CoordinationV1().Leases(entry.Namespace)
		if err := leases.Delete(t.Context(), entry.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
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
	// entries is, bit by bit, whether there is an entry of the first and one of the second from earlier, and whether a
	// replica of the first makes one just before and just after the second claims.
	entries int
	// The second claims before this request of the first, and reads before this one.
	claims, reads int
}

// orders are all of them: a process sends five requests at most.
func orders() []order {
	const requests = 5
	a, b := Lease{"a", "main"}, Lease{"b", "main"}
	var all []order
	for _, pair := range [][2]Lease{{a, b}, {a, mainLease}, {mainLease, a}} {
		for entries := range 16 {
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
func (o order) happen(t *testing.T, behind bool) (first, second bool) {
	t.Helper()
	all := &stored{behind: behind}
	announce := func(bit int, of Lease) {
		if entry := entryOf(of.Namespace); o.entries>>bit&1 == 1 && !all.has(leaseOf(entry)) {
			all.add(entry)
		}
	}
	announce(0, o.first)
	announce(1, o.second)
	claimedBySecond := ""
	reads := &interrupted{all, o.reads, func() {
		second = finds(t, &Reader{Leases: all, Main: o.second}, o.second, o.first, claimedBySecond)
	}}
	claims := &interrupted{reads, o.claims, func() {
		announce(2, o.first)
		claimedBySecond = all.add(marked(o.second))
		announce(3, o.first)
	}}
	claimedByFirst := all.add(marked(o.first))
	first = finds(t, &Reader{Leases: claims, Main: o.first}, o.first, o.second, claimedByFirst)
	for reads.wait > 0 {
		claims.Leases("") // the second is later than all requests of the first
	}
	return first, second
}

// Whatever the order of their requests, and however far behind the API server is that answers: of two processes one sees
// the other. Pins MGR-191.
func TestProcessesOfDifferentNamespacesSeeEachOther(t *testing.T) {
	for _, o := range orders() {
		for _, behind := range []bool{false, true} {
			if first, second := o.happen(t, behind); !first && !second {
				t.Errorf("neither sees the other: %+v, behind %t", o, behind)
			}
		}
	}
}

// stored is an API server with marked leases. One that is behind answers with what is as old as the request permits.
type stored struct {
	leases []coordinationv1.Lease // by version, from 1
	behind bool
}

func (s *stored) Leases(namespace string) coordinationv1client.LeaseInterface {
	return storedIn{stored: s, namespace: namespace}
}

// add stores a lease, and returns its version.
func (s *stored) add(l *coordinationv1.Lease) string {
	l.ResourceVersion = strconv.Itoa(len(s.leases) + 1)
	s.leases = append(s.leases, *l)
	return l.ResourceVersion
}

func (s *stored) has(name Lease) bool {
	return slices.ContainsFunc(s.leases, func(l coordinationv1.Lease) bool { return leaseOf(&l) == name })
}

// storedIn is one namespace of it.
type storedIn struct {
	coordinationv1client.LeaseInterface
	stored    *stored
	namespace string
}

func (s storedIn) Create(
	_ context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	if s.stored.has(leaseOf(l)) {
		return nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), l.Name)
	}
	s.stored.add(l)
	return l, nil
}

func (s storedIn) List(_ context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	leases := s.stored.leases
	if s.stored.behind && o.ResourceVersion != "" {
		version, err := strconv.Atoi(o.ResourceVersion)
		if err != nil {
			return nil, err
		}
		leases = leases[:version]
	}
	var list coordinationv1.LeaseList
	for _, l := range leases {
		if l.Namespace == s.namespace {
			list.Items = append(list.Items, l)
		}
	}
	return &list, nil
}

// finds reports whether a read by the holder of own, whose claim has a version, shows another lease.
func finds(t *testing.T, r *Reader, own, other Lease, written string) bool {
	t.Helper()
	leases, err := r.Read(t.Context(), own, written)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(leases, func(l coordinationv1.Lease) bool { return leaseOf(&l) == other })
}
