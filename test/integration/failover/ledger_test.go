package failover

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/must"
)

// version is one stored version of a lease.
type version struct {
	number         uint64 // resource version: the order of versions
	holder         string
	received, done time.Time // of the request that wrote it
}

// write is one request of a manager that changed something, or tried to.
type write struct {
	by             string // identity of the manager
	what           string
	code           int32
	creates        bool   // a pod
	deletes        string // name of a pod
	stored         uint64 // resource version of a pod that was created
	received, done time.Time
}

// outcomeUnknown reports that the answer to a write does not say whether it was stored: the
// API server gave up on it. That is mostly a write that a manager gave up itself because its
// term had ended, which is logged as a timeout or, if the storage noticed it first, as an
// error of the server. The API server may go on with it all the same. That nothing of it is
// stored in another's term is what misplaced verifies.
func (w write) outcomeUnknown() bool { return w.code >= http.StatusInternalServerError }

// ledger is what the API server says happened.
type ledger struct {
	versions []version // by number
	writes   []write   // by time of arrival
	unfenced map[string]int
}

// readLedger takes the history of a lease and the writes of the managers from the audit log.
func readLedger(t testing.TB, since controlplane.Mark, lease string, replicas ...*replica) ledger {
	t.Helper()
	names := map[string]string{}
	for _, r := range replicas {
		names[r.network.SourceIP()] = r.name
	}
	events, err := plane.Audit().Since(since, controlplane.Writes(), controlplane.ByStage(auditv1.StageResponseComplete))
	must.Succeed(t, err)
	l := ledger{unfenced: map[string]int{}}
	for _, e := range events {
		if isLease(&e, lease) {
			if e.ResponseStatus.Code < 300 {
				l.versions = append(l.versions, versionOf(t, &e))
			}
			continue
		}
		by, ok := names[e.SourceIPs[0]]
		if !ok {
			continue
		}
		if isUnfenced(&e) {
			l.unfenced[e.ObjectRef.Resource]++
			continue
		}
		l.writes = append(l.writes, writeOf(t, by, &e))
	}
	slices.SortFunc(l.versions, func(a, b version) int { return int(int64(a.number) - int64(b.number)) })
	slices.SortFunc(l.writes, func(a, b write) int { return a.received.Compare(b.received) })
	return l
}

func isLease(e *auditv1.Event, name string) bool {
	return e.ObjectRef != nil && e.ObjectRef.Resource == "leases" && e.ObjectRef.Namespace == leaseNamespace && e.ObjectRef.Name == name
}

// isUnfenced passes what a manager may write without holding the lease: about itself, the
// identities of its controllers, which a standby needs as well, and questions, which change
// nothing.
func isUnfenced(e *auditv1.Event) bool {
	switch ref := e.ObjectRef; {
	case ref == nil:
		return false
	case slices.Contains([]string{"leases", "leasecandidates", "tokenreviews", "subjectaccessreviews"}, ref.Resource):
		return true
	case ref.Resource == "serviceaccounts":
		// Controllers have identities of their own, and never write with that of the process.
		return ref.Namespace == metav1.NamespaceSystem && e.User.Username == controlplane.ManagerUser &&
			e.Verb == "create" && (ref.Subresource == "token" || ref.Subresource == "")
	case ref.Resource == "events":
		return e.User.Username == controlplane.ManagerUser && ref.Namespace == leaseNamespace
	}
	return false
}

func writeOf(t testing.TB, by string, e *auditv1.Event) write {
	t.Helper()
	w := write{
		by: by, what: e.Verb + " " + e.RequestURI, code: e.ResponseStatus.Code,
		received: e.RequestReceivedTimestamp.Time, done: e.StageTimestamp.Time,
	}
	if e.ObjectRef == nil || e.ObjectRef.Resource != "pods" {
		return w
	}
	switch e.Verb {
	case "delete":
		w.deletes = e.ObjectRef.Name
	case "create":
		w.creates = true
		if w.code < 300 {
			var pod metav1.PartialObjectMetadata
			must.Succeed(t, json.Unmarshal(e.ResponseObject.Raw, &pod))
			w.stored = numberOf(t, pod.ResourceVersion)
		}
	}
	return w
}

func numberOf(t testing.TB, resourceVersion string) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(resourceVersion, 10, 64)
	must.Succeed(t, err)
	return number
}

func versionOf(t testing.TB, e *auditv1.Event) version {
	t.Helper()
	var l coordinationv1.Lease
	must.Succeed(t, json.Unmarshal(e.ResponseObject.Raw, &l))
	return version{numberOf(t, l.ResourceVersion), processOf(ptr.Deref(l.Spec.HolderIdentity, "")), e.RequestReceivedTimestamp.Time, e.StageTimestamp.Time}
}

// verdict is what is wrong with the writes of a ledger.
type verdict struct {
	// double are writes that arrived when the lease named another manager, or nobody, and
	// succeeded. Those that were refused or given up are only counted: what was on its way at
	// the end of the term can arrive afterwards, and nothing can call it back.
	double  []string
	dropped int
	// late is the longest time that a manager wrote after a thief took its lease.
	late time.Duration
	// overlapping are writes that had arrived before another manager took the lease, and
	// were answered after.
	overlapping int
	// tenures counts changes of the holder to a manager, working those in which it wrote.
	tenures, working int
}

// judge compares writes with who held the lease when they arrived. A version counts from
// the arrival of the request that wrote it, which is the earliest time at which it can
// have been in force. managers are those that may hold the lease; anybody else is a thief.
func (l ledger) judge(managers ...string) verdict {
	var v verdict
	at, wrote := -1, false // the version in force
	for _, w := range l.writes {
		for at+1 < len(l.versions) && !l.versions[at+1].received.After(w.received) {
			at++
			if holder := l.versions[at].holder; slices.Contains(managers, holder) && (at == 0 || l.versions[at-1].holder != holder) {
				v.tenures++
				wrote = false
			}
		}
		if at < 0 {
			v.double = append(v.double, fmt.Sprintf("%s: %s, before anybody held the lease", w.by, w.what))
			continue
		}
		switch holder := l.versions[at].holder; {
		case holder == w.by:
			if !wrote {
				wrote = true
				v.working++
			}
			if next := l.successor(at, w.by, managers); next != nil && w.done.After(next.received) {
				v.overlapping++
			}
		case holder != "" && !slices.Contains(managers, holder) && l.robbed(at) == w.by:
			v.late = max(v.late, w.received.Sub(l.begin(at)))
		case w.code >= http.StatusBadRequest:
			v.dropped++
		default:
			v.double = append(v.double, fmt.Sprintf("%s: %s (%d), arrived %v after %q took the lease, answered %v later",
				w.by, w.what, w.code, w.received.Sub(l.begin(at)), holder, w.done.Sub(w.received)))
		}
	}
	return v
}

// begin is when the holder of a version began to be the holder.
func (l ledger) begin(at int) time.Time { return l.versions[l.first(at)].received }

// first is the first version of the tenure that a version belongs to.
func (l ledger) first(at int) int {
	for at > 0 && l.versions[at-1].holder == l.versions[at].holder {
		at--
	}
	return at
}

// misplaced lists the stored changes of pods that no write of the manager explains that
// held the lease when they were stored. Resource versions are one sequence for all
// objects: they tell exactly what was stored before what. A creation is explained by the
// write that got this version as its answer, or by one whose outcome is unknown; a step of a
// deletion by a write that names the pod. After a theft the one that was robbed counts as
// the holder.
func (l ledger) misplaced(stored map[uint64]podChange) []error {
	l = l.withoutThefts()
	type claim struct {
		tenure int
		by     string
		pod    string // of a deletion
	}
	created, deleted, open := map[uint64]claim{}, map[claim]bool{}, map[claim]int{}
	for _, w := range l.writes {
		c := claim{tenure: l.tenureAt(func(v version) bool { return !v.received.After(w.received) }), by: w.by, pod: w.deletes}
		switch {
		case w.deletes != "":
			deleted[c] = true
		case w.stored > 0:
			created[w.stored] = c
		case w.creates && w.outcomeUnknown():
			open[c]++
		}
	}
	var all []error
	for _, number := range slices.Sorted(maps.Keys(stored)) {
		change := stored[number]
		tenure := l.tenureAt(func(v version) bool { return v.number < number })
		c := claim{tenure: tenure}
		if tenure >= 0 {
			c.by = l.versions[tenure].holder
		}
		author, known := created[number]
		switch {
		case known && author.by == c.by:
		case !known && change.created && open[c] > 0:
			open[c]--
		case !change.created && deleted[claim{c.tenure, c.by, change.pod}]:
		default:
			all = append(all, fmt.Errorf("version %d, %+v, stored in tenure %d, of %q, written by %+v", number, change, tenure, c.by, author))
		}
	}
	return all
}

// tenureAt is the tenure of the last version for which in is true, -1 before the first.
func (l ledger) tenureAt(in func(version) bool) int {
	next := sort.Search(len(l.versions), func(n int) bool { return !in(l.versions[n]) })
	if next == 0 {
		return -1
	}
	return l.first(next - 1)
}

// withoutThefts has the manager that was robbed be the holder.
func (l ledger) withoutThefts() ledger {
	l.versions = slices.Clone(l.versions)
	for n := range l.versions {
		if n > 0 && l.versions[n].holder == thief {
			l.versions[n].holder = l.versions[n-1].holder
		}
	}
	return l
}

// robbed is who held the lease before the holder of a version.
func (l ledger) robbed(at int) string {
	for n := at; n >= 0; n-- {
		if l.versions[n].holder != l.versions[at].holder {
			return l.versions[n].holder
		}
	}
	return ""
}

// successor is the first version after one that names another manager.
func (l ledger) successor(at int, self string, managers []string) *version {
	for n := at + 1; n < len(l.versions); n++ {
		if holder := l.versions[n].holder; holder != self && slices.Contains(managers, holder) {
			return &l.versions[n]
		}
	}
	return nil
}

// TestLedgerFindsDoubleWriters tests the judge.
func TestLedgerFindsDoubleWriters(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	history := []version{
		{1, "a", at(100), at(110)}, {2, "a", at(200), at(210)},
		{3, "b", at(1300), at(1310)},
		{4, thief, at(1500), at(1510)}, {5, thief, at(1600), at(1610)},
		{6, "b", at(2700), at(2710)}, {7, "", at(2800), at(2810)},
		{8, "a", at(2900), at(2910)},
	}
	for name, tc := range map[string]struct {
		writes      []write
		double      int
		late        time.Duration
		overlapping int
		working     int
	}{
		"in turn":                       {[]write{{by: "a", received: at(150)}, {by: "b", received: at(1305)}}, 0, 0, 0, 2},
		"at the moment of the takeover": {[]write{{by: "a", received: at(1300)}}, 1, 0, 0, 0},
		"after the takeover":            {[]write{{by: "a", received: at(1400)}}, 1, 0, 0, 0},
		"before the takeover":           {[]write{{by: "b", received: at(1299)}}, 1, 0, 0, 0},
		"before anybody":                {[]write{{by: "b", received: at(1)}}, 1, 0, 0, 0},
		"after the own release":         {[]write{{by: "b", received: at(2850)}}, 1, 0, 0, 0},
		"answered after the takeover":   {[]write{{by: "a", received: at(1200), done: at(1301)}}, 0, 0, 1, 1},
		"after a theft":                 {[]write{{by: "b", received: at(1650)}}, 0, 150 * time.Millisecond, 0, 0},
		"not robbed":                    {[]write{{by: "a", received: at(1650)}}, 1, 0, 0, 0},
		"cancelled":                     {[]write{{by: "a", received: at(1400), code: 504}}, 0, 0, 0, 0},
		"out of date":                   {[]write{{by: "a", received: at(1400), code: 409}}, 0, 0, 0, 0},
		"succeeded":                     {[]write{{by: "a", received: at(1400), code: 201}}, 1, 0, 0, 0},
		"again":                         {[]write{{by: "a", received: at(150)}, {by: "a", received: at(160)}, {by: "a", received: at(2950)}}, 0, 0, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			v := ledger{versions: history, writes: tc.writes}.judge("a", "b")
			if len(v.double) != tc.double || v.late != tc.late || v.overlapping != tc.overlapping || v.working != tc.working {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// TestLedgerFindsMisplacedChanges tests the second judge.
func TestLedgerFindsMisplacedChanges(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	history := []version{
		{10, "a", at(100), at(110)}, {20, "a", at(200), at(210)}, {30, "b", at(1300), at(1310)},
		{40, thief, at(1500), at(1510)}, {50, "a", at(2700), at(2710)},
	}
	created, deleted := podChange{pod: "p", created: true}, podChange{pod: "p"}
	for name, tc := range map[string]struct {
		write  write
		stored uint64
		change podChange
		want   int
	}{
		"created by the holder":              {write{by: "a", creates: true, stored: 25, received: at(250)}, 25, created, 0},
		"created after the takeover":         {write{by: "a", creates: true, stored: 35, received: at(250)}, 35, created, 1},
		"created after a theft":              {write{by: "b", creates: true, stored: 45, received: at(1490)}, 45, created, 0},
		"created by another than the robbed": {write{by: "a", creates: true, stored: 45, received: at(1490)}, 45, created, 1},
		"cancelled, yet created":             {write{by: "a", creates: true, code: 504, received: at(250)}, 25, created, 0},
		"failed in the server, yet created":  {write{by: "a", creates: true, code: 500, received: at(250)}, 25, created, 0},
		"cancelled, created by another":      {write{by: "b", creates: true, code: 504, received: at(250)}, 25, created, 1},
		"cancelled, created too late":        {write{by: "a", creates: true, code: 504, received: at(1350)}, 35, created, 1},
		"created by nobody":                  {write{by: "a", creates: true, code: 409, received: at(250)}, 25, created, 1},
		"deleted after a theft":              {write{by: "b", deletes: "p", received: at(1490)}, 45, deleted, 0},
		"deleted by the holder":              {write{by: "b", deletes: "p", received: at(1350)}, 35, deleted, 0},
		"deleted by another":                 {write{by: "a", deletes: "p", received: at(1350)}, 35, deleted, 1},
		"deleted after the takeover":         {write{by: "a", deletes: "p", received: at(1290)}, 35, deleted, 1},
		"another deleted":                    {write{by: "b", deletes: "q", received: at(1350)}, 35, deleted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := ledger{versions: history, writes: []write{tc.write}}
			if got := l.misplaced(map[uint64]podChange{tc.stored: tc.change}); len(got) != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
