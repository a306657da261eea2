package benchmark

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/manager"
)

// TestSmoke runs a small scenario with our manager, on a control plane, and looks at what
// is recorded.
func TestSmoke(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results.json")
	other := report.File{Results: []report.Result{
		{Scenario: "garbage", Phase: "garbage", Mode: string(Unlimited), Void: "to be replaced"},
		{Scenario: "garbage", Phase: "garbage", Mode: string(Defaults), Void: "to be kept"},
	}}
	if err := other.Save(out); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Options{
		Scenarios: []string{"garbage"}, Modes: []Mode{Unlimited}, Subjects: []string{report.Ours},
		Rounds: 1, Scale: 0.05, Out: out, Log: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := report.Load(out)
	if err != nil || len(f.Results) != 2 {
		t.Fatalf("got %+v, %v", f, err)
	}
	r := f.Results[0]
	if r.Void != "" || r.Units != dependents || r.Subject != report.Ours || f.Results[1].Void != "to be kept" {
		t.Errorf("got %+v", f.Results)
	}
	if n := r.Requests["delete secrets"]; n != dependents {
		t.Errorf("%d dependents were deleted with %d requests", dependents, n)
	}
	for _, figure := range []string{report.CPU, report.Wall, report.PeakRSS, report.RSS, report.Received, report.Writes} {
		if r.Figures[figure] <= 0 {
			t.Errorf("%s is %v", figure, r.Figures[figure])
		}
	}
}

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		fails   string
	}{
		"least":            {options: Options{Rounds: 1, Scale: 1}},
		"unknown mode":     {options: Options{Rounds: 1, Scale: 1, Modes: []Mode{"fast"}}, fails: "fast"},
		"unknown subject":  {options: Options{Rounds: 1, Scale: 1, Subjects: []string{"theirs"}}, fails: "theirs"},
		"no rounds":        {options: Options{Scale: 1}, fails: "0 rounds"},
		"no scale":         {options: Options{Rounds: 1}, fails: "scale 0"},
		"scale no number":  {options: Options{Rounds: 1, Scale: math.NaN()}, fails: "scale NaN"},
		"unknown scenario": {options: Options{Rounds: 1, Scale: 1, Scenarios: []string{"flood"}}, fails: "flood"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.options.complete()
			if err == nil {
				_, err = tc.options.scenarios()
			}
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSubjectsAlternate(t *testing.T) {
	o := Options{Subjects: []string{"a", "b"}}
	var order []string
	for round := range 3 {
		order = append(order, o.order(round)...)
	}
	if got := strings.Join(order, " "); got != "a b b a a b" {
		t.Errorf("got %s", got)
	}
}

func TestScaled(t *testing.T) {
	for _, tc := range []struct {
		size  int
		scale float64
		want  int
	}{{20, 1, 20}, {20, 0.1, 2}, {20, 0.01, 1}, {500, 2, 1000}} {
		if got := scaled(tc.size, tc.scale); got != tc.want {
			t.Errorf("%d by %v is %d, want %d", tc.size, tc.scale, got, tc.want)
		}
	}
}

func TestScaledHundreds(t *testing.T) {
	for _, tc := range []struct {
		size  int
		scale float64
		want  int
	}{{0, 1, 0}, {0, 0.1, 0}, {1000, 1, 1000}, {1000, 0.01, 100}, {50000, 0.05, 2500}, {5000, 0.33, 1700}} {
		if got := scaledHundreds(tc.size, tc.scale); got != tc.want {
			t.Errorf("%d by %v is %d, want %d", tc.size, tc.scale, got, tc.want)
		}
	}
}

func TestEveryKindOfTheSlopesHasObjects(t *testing.T) {
	for _, kind := range report.SlopeKinds {
		if n, known := slopeObjects[kind]; !known || (n == 0) != (kind == report.NoKind) {
			t.Errorf("%s: %d objects, %t", kind, n, known)
		}
	}
	if len(slopeObjects) != len(report.SlopeKinds) {
		t.Errorf("there are %d kinds, want %v", len(slopeObjects), report.SlopeKinds)
	}
}

func TestHalfOfTheControllersNeedsNoOthers(t *testing.T) {
	all := controllerNames()
	half := all[:len(all)/2]
	if slices.Contains(half, "storage-version-migrator-controller") || !slices.Contains(half, "garbage-collector-controller") {
		t.Errorf("the migrator needs the garbage collector: %v", half)
	}
}

// TestParseHeap reads a profile of this process.
func TestParseHeap(t *testing.T) {
	var profile bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&profile, 1); err != nil {
		t.Fatal(err)
	}
	size, err := parseHeap(profile.Bytes())
	if err != nil || size < 0.1 || size > 1000 {
		t.Errorf("got %v MiB, %v", size, err)
	}
	for _, profile := range []string{"", "# HeapAlloc = much\n", "# HeapInuse = 3\n"} {
		if size, err := parseHeap([]byte(profile)); err == nil {
			t.Errorf("%q: got %v", profile, size)
		}
	}
	if size, err := parseHeap([]byte("# Alloc = 7\n# HeapAlloc = 3145728\n")); err != nil || size != 3 {
		t.Errorf("got %v MiB, %v", size, err)
	}
}

func TestSettingsChooseControllers(t *testing.T) {
	enabled := func(s settings) []string {
		c := &manager.Config{}
		s.apply(c)
		var names []string
		for _, controller := range c.Controllers.All() {
			if c.ControllerEnabled(controller.Name) {
				names = append(names, controller.Name)
			}
		}
		return names
	}
	if got := enabled(settings{mode: Unlimited}); !slices.Equal(sorted(got), sorted(controllerNames())) {
		t.Errorf("by default %v", got)
	}
	two := []string{"job-controller", "token-cleaner-controller"} // of which one is off by default
	if got := enabled(settings{mode: Unlimited, controllers: two}); !slices.Equal(sorted(got), two) {
		t.Errorf("of two %v", got)
	}
	if got := enabled(settings{mode: Unlimited, controllers: []string{}}); len(got) != 0 {
		t.Errorf("of none %v", got)
	}
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

func event(verb, group, resource, subresource string, stage auditv1.Stage, code int32) auditv1.Event {
	return auditv1.Event{
		Verb: verb, Stage: stage, ResponseStatus: &metav1.Status{Code: code},
		ObjectRef: &auditv1.ObjectReference{APIGroup: group, Resource: resource, Subresource: subresource},
	}
}

func TestCountRequests(t *testing.T) {
	done, opened := auditv1.StageResponseComplete, auditv1.StageResponseStarted
	got := countRequests([]auditv1.Event{
		event("create", "", "pods", "", done, 201),
		event("update", "apps", "deployments", "status", done, 200),
		event("update", "apps", "deployments", "status", done, 409),
		event("patch", "", "events", "", done, 200),
		event("get", "", "pods", "", done, 404),
		event("list", "", "pods", "", done, 200),
		event("watch", "", "pods", "", opened, 200),
		event("watch", "", "pods", "", done, 200), // the end of the former
		event("watch", "", "pods", "", done, 410), // never opened
		event("update", "coordination.k8s.io", "leases", "", done, 200),
		event("create", "", "serviceaccounts", "token", done, 201),
		event("create", "authorization.k8s.io", "subjectaccessreviews", "", done, 201),
		{Verb: "get", RequestURI: "/apis", Stage: done},
	})
	if want := map[string]float64{
		report.Writes: 3, report.Events: 1, report.Gets: 1, report.Lists: 1, report.Watches: 2, report.Credentials: 2,
	}; !reflect.DeepEqual(got.figures, want) {
		t.Errorf("got %v, want %v", got.figures, want)
	}
	if want := map[string]int{
		"create pods": 1, "update deployments/status": 2, "patch events": 1, "get pods": 1, "list pods": 1, "watch pods": 2,
		"update leases": 1, "create serviceaccounts/token": 1, "create subjectaccessreviews": 1, "get /apis": 1,
	}; !reflect.DeepEqual(got.byKind, want) {
		t.Errorf("got %v, want %v", got.byKind, want)
	}
}

func TestSettingsReachBothSubjects(t *testing.T) {
	for mode, limited := range map[Mode]bool{Unlimited: true, Limited: true, Defaults: false} {
		c := &manager.Config{}
		s := settings{mode: mode, deploymentSyncs: 7, alone: true}
		s.apply(c)
		if (c.ClientConnection.QPS != nil) != limited || *c.Controllers.Deployment.ConcurrentSyncs != 7 || *c.LeaderElection.LeaderElect {
			t.Errorf("%s: got %+v", mode, c.ClientConnection)
		}
		qps, burst, ok := s.limits()
		if ok != limited || limited && (*c.ClientConnection.QPS != qps || *c.ClientConnection.Burst != burst) {
			t.Errorf("%s: the limits are %v, %v, %t", mode, qps, burst, ok)
		}
	}
}

func TestBothRunTheSameControllers(t *testing.T) {
	names := controllerNames()
	if len(names) < 20 || !slices.Contains(names, "deployment-controller") || slices.Contains(names, "") {
		t.Errorf("got %v", names)
	}
}

func TestTally(t *testing.T) {
	counted := tally{}
	for i := range 3 {
		describePod(counted, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: ptr.To(true)}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionFalse}[i > 0]},
			}},
		})
	}
	describePod(counted, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.Now())}})
	describeDeployment(counted, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To(int32(3))}, Status: appsv1.DeploymentStatus{
		AvailableReplicas: 2, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "True"}, {Type: appsv1.DeploymentAvailable, Status: "False"}},
	}})
	want := "1 Deployments with 2/3 available (Available=False Progressing=True); 1 pods of a ReplicaSet, Running, ready false; " +
		"1 pods of a nobody, terminating, ready false; 2 pods of a ReplicaSet, Running, ready true"
	if got := counted.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOnlyReadyEndpointsCount(t *testing.T) {
	slice := func(uids ...types.UID) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
		for _, uid := range uids {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				TargetRef:  &corev1.ObjectReference{UID: uid},
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(uid != "leaving")},
			})
		}
		return s
	}
	got := endpointsByService([]*discoveryv1.EndpointSlice{slice("a", "leaving"), slice("a", "b")})
	if !got["web"].Equal(sets.New[types.UID]("a", "b")) {
		t.Errorf("got %v", got)
	}
	addresses := addressesByService([]*corev1.Endpoints{{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Subsets: []corev1.EndpointSubset{
		{Addresses: make([]corev1.EndpointAddress, 2), NotReadyAddresses: make([]corev1.EndpointAddress, 1)}, {Addresses: make([]corev1.EndpointAddress, 3)},
	}}})
	if addresses["web"] != 5 {
		t.Errorf("got %v", addresses)
	}
}
