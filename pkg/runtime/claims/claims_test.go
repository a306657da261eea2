package claims

import (
	"math"
	"reflect"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/rules"
)

var (
	mainLease  = Lease{"kube-system", "kube-controller-manager"}
	groupLease = Lease{"kube-system", "kube-controller-manager-jobs"}
)

func lease(of Lease, version, holder string, annotations map[string]string) coordinationv1.Lease {
	n, err := strconv.Atoi(version)
	if err != nil {
		panic(err)
	}
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name, ResourceVersion: version, Annotations: annotations,
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: time.Unix(int64(n), 0)},
		},
	}
}

func TestLiveClaims(t *testing.T) {
	start := time.Unix(1000, 0)
	jobs := Annotations("other", []string{"job-controller", "cronjob-controller"})
	for name, c := range map[string]struct {
		leases []coordinationv1.Lease
		want   []Claim
	}{
		"a claim": {
			[]coordinationv1.Lease{lease(groupLease, "1", "other", jobs)},
			[]Claim{{Lease: groupLease, Holder: "other", Controllers: []string{"cronjob-controller", "job-controller"}}},
		},
		"an empty claim": {
			[]coordinationv1.Lease{lease(groupLease, "1", "other", Annotations("other", nil))},
			[]Claim{{Lease: groupLease, Holder: "other", Controllers: []string{}}},
		},
		"an empty claim, main": {
			[]coordinationv1.Lease{lease(mainLease, "1", "other", map[string]string{HolderAnnotation: "other"})},
			[]Claim{{Lease: mainLease, Holder: "other", Controllers: []string{}}},
		},
		"own lease": {[]coordinationv1.Lease{lease(groupLease, "1", "self", Annotations("self", nil))}, nil},
		"no holder": {[]coordinationv1.Lease{lease(groupLease, "1", "", jobs)}, nil},
		"a stranger": {
			[]coordinationv1.Lease{lease(groupLease, "1", "stranger", nil)},
			[]Claim{{Lease: groupLease, Holder: "stranger"}},
		},
		"an old claim": {
			[]coordinationv1.Lease{lease(groupLease, "1", "stranger", jobs)},
			[]Claim{{Lease: groupLease, Holder: "stranger"}},
		},
		"no claim, main": {
			[]coordinationv1.Lease{lease(mainLease, "1", "stranger", nil)},
			[]Claim{{Lease: mainLease, Holder: "stranger", All: true}},
		},
		"old claim, main": {
			[]coordinationv1.Lease{lease(mainLease, "1", "stranger", jobs)},
			[]Claim{{Lease: mainLease, Holder: "stranger", All: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := new(Observer).Live(c.leases, "self", mainLease, start); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestAHolderIsDeadWhenItsLeaseStaysAsItIs(t *testing.T) {
	o, start := &Observer{}, time.Unix(1000, 0)
	look := func(version string, after time.Duration) bool {
		leases := []coordinationv1.Lease{lease(groupLease, version, "other", Annotations("other", nil))}
		return len(o.Live(leases, "self", mainLease, start.Add(after))) == 1
	}
	for _, c := range []struct {
		version string
		after   time.Duration
		alive   bool
	}{
		{"1", 0, true},
		{"1", 14 * time.Second, true},
		{"2", 15 * time.Second, true},
		{"2", 29 * time.Second, true},
		{"2", 30 * time.Second, false},
		{"3", 31 * time.Second, true},
	} {
		if got := look(c.version, c.after); got != c.alive {
			t.Errorf("version %s after %v: alive %v, want %v", c.version, c.after, got, c.alive)
		}
	}
}

// A lease can name any duration, a configuration cannot. Pins MGR-191.
func TestADurationIsBelievedUpToTheLongestThatAConfigurationMayHave(t *testing.T) {
	if highest := rules.ByPath()["leaderElection.leaseDuration"].Duration.Max; longest != highest {
		t.Errorf("a lease is believed for %v, and may be configured for %v", longest, highest)
	}
	start := time.Unix(1000, 0)
	l := lease(mainLease, "1", "other", nil)
	l.Spec.LeaseDurationSeconds = ptr.To[int32](math.MaxInt32)
	for after, alive := range map[time.Duration]bool{longest - 1: true, longest: false} {
		o := &Observer{}
		o.Live([]coordinationv1.Lease{l}, "self", mainLease, start)
		if got := len(o.Live([]coordinationv1.Lease{l}, "self", mainLease, start.Add(after))) == 1; got != alive {
			t.Errorf("after %v: alive %v, want %v", after, got, alive)
		}
		if got := o.Stranger(&l, "self", start.Add(after)) != ""; got != alive {
			t.Errorf("after %v: a stranger %v, want %v", after, got, alive)
		}
	}
}

// The holder of a lease that was deleted may go on until it notices, so its claim counts for as long as it did: no
// longer, and not that of this process, or of a lease that nobody held. Pins MGR-252.
func TestADeletedLeaseCountsUntilItExpires(t *testing.T) {
	start := time.Unix(1000, 0)
	held := func(holder string) coordinationv1.Lease {
		return lease(groupLease, "1", holder, Annotations(holder, []string{"job"}))
	}
	for _, test := range []struct {
		name  string
		lease coordinationv1.Lease
		after time.Duration
		want  []string
	}{
		{"another process", held("other"), 15*time.Second - 1, []string{"job"}},
		{"another process, which would have renewed it by now", held("other"), 15 * time.Second, nil},
		{"this process", held("self"), time.Second, nil},
		{"nobody", held(""), time.Second, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &Observer{}
			o.Live([]coordinationv1.Lease{test.lease}, "self", mainLease, start)
			var got []string
			for range 2 { // however often it is looked for
				got = nil
				for _, claim := range o.Live(nil, "self", mainLease, start.Add(test.after)) {
					got = append(got, claim.Controllers...)
				}
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("claimed are %v, want %v", got, test.want)
			}
		})
	}
}

// Leases that are gone are forgotten when they have expired, those that one look does not concern are not.
func TestTheObserverForgetsLeasesThatAreGone(t *testing.T) {
	o, start := &Observer{}, time.Unix(1000, 0)
	main, group := lease(mainLease, "1", "other", nil), lease(groupLease, "1", "other", nil)
	o.Live([]coordinationv1.Lease{main, group}, "self", mainLease, start)
	o.Stranger(&main, "self", start)
	if len(o.since) != 2 {
		t.Errorf("of two leases %d are remembered", len(o.since))
	}
	o.Live([]coordinationv1.Lease{group}, "self", mainLease, start.Add(15*time.Second))
	if _, known := o.since[groupLease]; len(o.since) != 1 || !known {
		t.Errorf("remembered are %v, want the lease of the group", o.since)
	}
}

// A lease that others annotate is not renewed by that, and a version that comes again after
// a restore is not the same record.
func TestAHolderIsJudgedByItsRecord(t *testing.T) {
	o, start := &Observer{}, time.Unix(1000, 0)
	live := func(l coordinationv1.Lease, after time.Duration) bool {
		return len(o.Live([]coordinationv1.Lease{l}, "self", mainLease, start.Add(after))) == 1
	}
	l := lease(groupLease, "1", "other", Annotations("other", nil))
	if !live(l, 0) {
		t.Fatal("dead from the beginning")
	}
	l.ResourceVersion, l.Annotations["requested-by"] = "2", "somebody"
	if live(l, 15*time.Second) {
		t.Error("an annotation keeps a dead holder alive")
	}
	l.Spec.RenewTime = &metav1.MicroTime{Time: start}
	if !live(l, 16*time.Second) {
		t.Error("a renewal with a version that was there before is not seen")
	}
}

func TestStranger(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		holder, claimant, want string
		age                    time.Duration
	}{
		"a stranger":                 {"stranger", "", "stranger", 0},
		"after one of ours":          {"stranger", "other", "stranger", 0},
		"one of ours":                {"other", "other", "", 0},
		"self":                       {"self", "", "", 0},
		"nobody":                     {"", "other", "", 0},
		"a stranger, almost expired": {"stranger", "", "stranger", 15*time.Second - 1},
		"a stranger that is dead":    {"stranger", "", "", 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := lease(mainLease, "1", c.holder, map[string]string{HolderAnnotation: c.claimant})
			o := &Observer{}
			o.Live([]coordinationv1.Lease{l}, "self", mainLease, now.Add(-c.age))
			if got := o.Stranger(&l, "self", now); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := new(Observer).Stranger(nil, "self", now); got != "" {
		t.Errorf("without a lease: %q", got)
	}
}

// answer asks and receives the claims immediately.
func answer(a *Admission, others ...Claim) bool { return a.Answer(a.Ask(), others) }

func TestAdmission(t *testing.T) {
	jobsOf := func(l Lease) Claim { return Claim{Lease: l, Holder: "other", Controllers: []string{"job"}} }
	first, last := Lease{"a", "a"}, Lease{"z", "z"}

	a := NewAdmission(groupLease)
	a.Want([]string{"job", "cronjob"})
	if got := a.Claim(); !reflect.DeepEqual(got, []string{"cronjob", "job"}) || !a.Pending() {
		t.Fatalf("claims %v", got)
	}
	// A later lease claims the same: it gives way, this one keeps its claim.
	if !answer(a, jobsOf(last)) || a.Granted("job") || !a.Granted("cronjob") || len(a.Claim()) != 2 {
		t.Errorf("blocked %v, claims %v", a.Blocked(), a.Claim())
	}
	if want := "the holder of lease z/z (other) still runs it"; a.Blocked()["job"] != want {
		t.Errorf("blocked %v, want %q", a.Blocked(), want)
	}
	if answer(a, jobsOf(last)) {
		t.Error("the same answer is a change")
	}
	// An earlier one does: this one gives way, and claims again when it sees no other.
	if !answer(a, jobsOf(first)) || len(a.Claim()) != 1 {
		t.Errorf("claims %v", a.Claim())
	}
	if !answer(a) || a.Granted("job") || len(a.Claim()) != 2 {
		t.Errorf("granted without a claim; claims %v", a.Claim())
	}
	if !answer(a) || !a.Granted("job") || a.Pending() || len(a.Blocked()) != 0 {
		t.Errorf("not granted: %v", a.Blocked())
	}
	// What runs is claimed until it has stopped, wanted or not.
	a.Started("job")
	a.Want([]string{"cronjob"})
	if len(a.Claim()) != 2 {
		t.Errorf("claims %v while the controller stops", a.Claim())
	}
	a.Stopped("job")
	if len(a.Claim()) != 1 || a.Granted("job") {
		t.Errorf("claims %v when it has stopped, granted %v", a.Claim(), a.Granted("job"))
	}
	// Permissions end with the term.
	a.Lost()
	if a.Granted("cronjob") || !a.Pending() {
		t.Error("a permission outlives the term")
	}
}

func TestAnswersToOlderQuestionsAreDropped(t *testing.T) {
	a := NewAdmission(groupLease)
	a.Want([]string{"job"})
	q := a.Ask()
	a.Want(nil)
	a.Want([]string{"job"}) // unclaimed in between: others may have started it
	if a.Answer(q, nil) || a.Granted("job") {
		t.Error("granted by a read from before the claim")
	}
	q = a.Ask()
	a.Lost()
	if a.Answer(q, nil) || a.Granted("job") {
		t.Error("granted by a read of an earlier term")
	}
}

func TestEverythingIsClaimedByAStrangerOnTheMainLease(t *testing.T) {
	a := NewAdmission(groupLease)
	a.Want([]string{"job"})
	answer(a, Claim{Lease: mainLease, Holder: "stranger", All: true})
	if a.Granted("job") || len(a.Blocked()) != 1 {
		t.Errorf("blocked %v", a.Blocked())
	}
}
