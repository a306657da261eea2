package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faults/results"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

var plane *controlplane.ControlPlane

// bareOptions turn on what only some scenarios need.
var bareOptions = controlplane.Options{NoServiceAccountAdmission: true, NoAudit: true, APIServerArgs: []string{
	"--feature-gates=StorageVersionAPI=true,StorageVersionMigrator=true,ClusterTrustBundle=true,DRAResourcePoolStatus=true,GenericWorkload=true,WorkloadWithJob=true,PodCertificateRequest=true,MaxUnavailableStatefulSet=true,DRAWorkloadResourceClaims=true,TaintTolerationComparisonOperators=true,DRADeviceTaintRules=true",
	"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true,storagemigration.k8s.io/v1beta1=true," +
		"certificates.k8s.io/v1beta1=true,resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta2=true,scheduling.k8s.io/v1alpha2=true",
	"--service-cluster-ip-range=10.0.0.0/16,fd00:10::/112",
}}

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: 3, Scheduler: true, NoServiceAccountAdmission: true, NoAudit: true}
	os.Exit(controlplane.RunTests(m, options, func(c *controlplane.ControlPlane) { plane = c }))
}

// startBare starts the control plane of scenarios that have their own nodes, until the end of the test.
func startBare(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	started := must.Get(controlplane.Start(t.Context(), bareOptions))(t)
	t.Cleanup(func() {
		if err := errors.Join(started.Err(), started.Stop()); err != nil {
			t.Error(err)
		}
	})
	return started
}

// mappers know the kinds of a control plane: to ask for all of them takes long.
var mappers sync.Map

func mapperOf(plane *controlplane.ControlPlane) meta.RESTMapper {
	known, _ := mappers.LoadOrStore(plane, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(plane.AdminClient().Discovery())))
	return known.(meta.RESTMapper)
}

// newWorld makes a namespace for a run of a scenario that has no place, which stays until the control plane ends.
func newWorld(t *testing.T, plane *controlplane.ControlPlane, s *Scenario) *world {
	t.Helper()
	config := plane.AdminConfig()
	config.ContentType, config.AcceptContentTypes = "", "" // the dynamic client reads JSON
	namespace := s.Place
	if namespace == "" {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
		namespace = must.Get(plane.AdminClient().CoreV1().Namespaces().Create(t.Context(), made, metav1.CreateOptions{}))(t).Name
	}
	return &world{
		admin:     plane.AdminClient(),
		client:    must.Get(dynamic.NewForConfig(config))(t),
		mapper:    mapperOf(plane),
		namespace: namespace,
		as: func(user string, groups ...string) (kubernetes.Interface, error) {
			config := plane.AdminConfig()
			config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
			return kubernetes.NewForConfig(config)
		},
	}
}

// once performs a scenario with a fault.
func once(t *testing.T, plane *controlplane.ControlPlane, s *Scenario, f *fault, reference *outcome) outcome {
	t.Helper()
	w := newWorld(t, plane, s)
	if s.Place != "" { // others may have used it
		must.Succeed(t, w.clear(t.Context(), s.Kinds))
	}
	o, err := perform(t.Context(), plane, w, s, f, reference)
	must.Succeed(t, err)
	must.Succeed(t, w.clear(t.Context(), s.Kinds))
	return o
}

// choose returns the faults of a scenario that are injected, by default those of the sample.
//
//	KCMD_FAULTS  how many of each scenario, drawn by chance, but the same ones for a number; make faults injects all
func choose(t *testing.T, s *Scenario, all []fault) []fault {
	t.Helper()
	n := harness.Size(t, "KCMD_FAULTS", 0)
	if n > 0 {
		// At equal distances, the same few patterns would be drawn.
		drawn := rand.New(rand.NewPCG(uint64(n), 0)).Perm(len(all))[:min(n, len(all))]
		slices.Sort(drawn)
		var some []fault
		for _, i := range drawn {
			some = append(some, all[i])
		}
		return some
	}
	for _, name := range sample[s.Name] {
		if !slices.ContainsFunc(all, func(f fault) bool { return f.name() == name }) {
			t.Errorf("there is no fault %s of the sample", name)
		}
	}
	return slices.DeleteFunc(all, func(f fault) bool { return !slices.Contains(sample[s.Name], f.name()) })
}

// TestFaults runs every scenario, and injects faults into it: those that are bare side by side with the others, since
// most of the time is spent waiting.
func TestFaults(t *testing.T) {
	var both sync.WaitGroup
	both.Go(func() {
		runAll(t, false, func() *controlplane.ControlPlane { return plane })
	})
	both.Go(func() {
		runAll(t, true, sync.OnceValue(func() *controlplane.ControlPlane { return startBare(t) }))
	})
	both.Wait()
}

// runAll runs the scenarios that are bare or those that are not, one after the other.
func runAll(t *testing.T, bare bool, plane func() *controlplane.ControlPlane) {
	t.Helper()
	for _, s := range Scenarios() {
		if s.Bare != bare {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			reference := once(t, plane(), &s, nil, nil)
			if reference.unrest != "" {
				t.Fatal(reference.unrest)
			}
			t.Logf("writes: %v; reads: %v", reference.writes, reference.reads)
			if violations := judge(&s, reference, reference); len(violations) > 0 {
				t.Fatal(story(&s, &fault{pattern: "none", detail: "no write"}, reference, violations))
			}
			inject(t, plane(), &s, reference)
		})
	}
}

// inject runs a scenario with each of the faults that are chosen. With KCMD_FAULTS_RESULTS it adds to that file what
// came of them.
func inject(t *testing.T, plane *controlplane.ControlPlane, s *Scenario, reference outcome) {
	t.Helper()
	all := faultsOf(s, reference)
	run := results.Run{Exist: map[string]int{}}
	for _, f := range all {
		run.Exist[f.pattern]++
	}
	for _, f := range choose(t, s, all) {
		var judged bool
		passed := t.Run(f.name(), func(t *testing.T) {
			o := once(t, plane, s, &f, &reference)
			judged = true
			if violations := judge(s, reference, o); len(violations) > 0 {
				t.Error(story(s, &f, o, violations))
			}
		})
		if !judged { // it is not selected, or the control plane has ended
			continue
		}
		run.Injected = append(run.Injected, results.Injection{Pattern: f.pattern, Name: f.name(), Violated: !passed})
		if path := os.Getenv("KCMD_FAULTS_RESULTS"); path != "" {
			must.Succeed(t, results.Record(path, s.Name, run)) // each one: the campaign may be broken off
		}
	}
	t.Logf("%d of %d faults were injected", len(run.Injected), len(all))
}

// story tells what happened in a run, so that it can be understood without running it again.
func story(s *Scenario, f *fault, o outcome, violations []string) string {
	var steps []string
	for _, step := range s.Steps {
		steps = append(steps, step.Name)
	}
	return fmt.Sprintf("users: %s\nfault: %s, at %s\nwrites: %v\nviolated:\n  %s",
		strings.Join(steps, "; "), f.pattern, f.detail, o.writes, strings.Join(violations, "\n  "))
}
