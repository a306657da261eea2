package failover

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
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
	stored         uint64 // resource version, if it changed a pod
	received, done time.Time
}

// effective reports that a write may have changed something. One that was on its way when
// the network was cut arrives late, with the news right behind it that the manager has
// cancelled it; the API server then gives it up, and calls that a timeout. That nothing
// of it is stored is what TestLeaseIsLostAgainAndAgainWithoutTwoWriters verifies apart.
func (w write) effective() bool { return w.code != http.StatusGatewayTimeout }

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
	must(t, err)
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
		l.writes = append(l.writes, write{
			by: by, what: e.Verb + " " + e.RequestURI, code: e.ResponseStatus.Code, stored: podVersion(t, &e),
			received: e.RequestReceivedTimestamp.Time, done: e.StageTimestamp.Time,
		})
	}
	slices.SortFunc(l.versions, func(a, b version) int { return int(int64(a.number) - int64(b.number)) })
	slices.SortFunc(l.writes, func(a, b write) int { return a.received.Compare(b.received) })
	return l
}

func isLease(e *auditv1.Event, name string) bool {
	return e.ObjectRef != nil && e.ObjectRef.Resource == "leases" && e.ObjectRef.Namespace == leaseNamespace && e.ObjectRef.Name == name
}

// isUnfenced passes what a manager may write without holding the lease: about itself,
// and questions, which change nothing.
func isUnfenced(e *auditv1.Event) bool {
	switch ref := e.ObjectRef; {
	case ref == nil:
		return false
	case slices.Contains([]string{"leases", "leasecandidates", "tokenreviews", "subjectaccessreviews"}, ref.Resource):
		return true
	case ref.Resource == "serviceaccounts":
		return ref.Subresource == "token" && e.User.Username == controlplane.ManagerUser
	case ref.Resource == "events":
		return e.User.Username == controlplane.ManagerUser && ref.Namespace == leaseNamespace
	}
	return false
}

// podVersion is the version of a pod that a request stored, 0 if it did not.
func podVersion(t testing.TB, e *auditv1.Event) uint64 {
	t.Helper()
	if e.ObjectRef == nil || e.ObjectRef.Resource != "pods" || e.ResponseStatus.Code >= 300 {
		return 0
	}
	var pod metav1.PartialObjectMetadata
	must(t, json.Unmarshal(e.ResponseObject.Raw, &pod))
	number, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	must(t, err)
	return number
}

func versionOf(t testing.TB, e *auditv1.Event) version {
	t.Helper()
	var l coordinationv1.Lease
	must(t, json.Unmarshal(e.ResponseObject.Raw, &l))
	number, err := strconv.ParseUint(l.ResourceVersion, 10, 64)
	must(t, err)
	return version{number, ptr.Deref(l.Spec.HolderIdentity, ""), e.RequestReceivedTimestamp.Time, e.StageTimestamp.Time}
}

// verdict is what is wrong with the writes of a ledger.
type verdict struct {
	// double are writes that arrived when the lease named another manager, or nobody, but
	// for those that the manager had cancelled, which are only counted.
	double    []string
	cancelled int
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
		case !w.effective():
			v.cancelled++
		default:
			v.double = append(v.double, fmt.Sprintf("%s: %s (%d), arrived %v after %q took the lease, answered %v later",
				w.by, w.what, w.code, w.received.Sub(l.begin(at)), holder, w.done.Sub(w.received)))
		}
	}
	return v
}

// begin is when the holder of a version began to be the holder.
func (l ledger) begin(at int) time.Time {
	for at > 0 && l.versions[at-1].holder == l.versions[at].holder {
		at--
	}
	return l.versions[at].received
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
		{4, "thief", at(1500), at(1510)}, {5, "thief", at(1600), at(1610)},
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
