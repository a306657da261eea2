package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kcmd.dev/pkg/config/v1beta1"
)

type cfgType = v1beta1.KubeControllerManagerConfiguration

func subject(name string, value func(*cfgType) any) Subject {
	return Subject{Name: name, Value: value, Enabled: func(c *cfgType) bool { return c.ControllerEnabled(name) }}
}

// subjects are like those of the registry: small values of what a controller reads.
func subjects() []Subject {
	type deployment struct {
		workers     int32
		terminating bool
	}
	type token struct {
		workers int32
		key, ca string
	}
	tokens := subject("serviceaccount-token-controller", func(c *cfgType) any {
		return token{*c.Controllers.ServiceAccountToken.ConcurrentSyncs, c.ServiceAccounts.PrivateKeyFile, c.ServiceAccounts.RootCAFile}
	})
	tokens.Enabled = func(c *cfgType) bool {
		return c.ControllerEnabled(tokens.Name) && c.ServiceAccounts.PrivateKeyFile != ""
	}
	return []Subject{
		tokens,
		subject("root-ca-certificate-publisher-controller", func(c *cfgType) any { return c.ServiceAccounts.RootCAFile }),
		subject("replicaset-controller", func(c *cfgType) any { return *c.Controllers.ReplicaSet.ConcurrentSyncs }),
		subject("deployment-controller", func(c *cfgType) any {
			return deployment{*c.Controllers.Deployment.ConcurrentSyncs, Enabled(c, DeploymentReplicaSetTerminatingReplicas)}
		}),
	}
}

func parsed(t *testing.T, text string) *cfgType {
	t.Helper()
	doc, err := Load("f.yaml", []byte(header+text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Config
}

func TestPlanText(t *testing.T) {
	tests := []struct {
		name, before, after, want string
	}{
		{"nothing", "", "resync: {minPeriod: 720m}\n", "3 controllers keep running\n"},
		{"one restart", "", "controllers: {deployment-controller: {concurrentSyncs: 20}}\nlogging: {verbosity: 2}\n", `
deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 5 → 20
in place               logging.verbosity: 0 → 2
2 controllers keep running
`},
		{"two causes", "", "controllers: {deployment-controller: {concurrentSyncs: 20}}\nfeatureGates: {DeploymentReplicaSetTerminatingReplicas: false}\n", `
deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 5 → 20
                                featureGates.DeploymentReplicaSetTerminatingReplicas: (not set) → false
2 controllers keep running
`},
		{"shared file", "serviceAccounts: {privateKeyFile: k}\n", "serviceAccounts: {privateKeyFile: k, rootCAFile: ca.crt}\n", `
root-ca-certificate-publisher-controller  restart  serviceAccounts.rootCAFile: (not set) → ca.crt
serviceaccount-token-controller           restart  serviceAccounts.rootCAFile: (not set) → ca.crt
2 controllers keep running
`},
		{"start", "", "serviceAccounts: {privateKeyFile: k}\n", `
serviceaccount-token-controller  start    serviceAccounts.privateKeyFile: (not set) → k
3 controllers keep running
`},
		{"stop, with a setting nobody reads any more", "", "controllers: {deployment-controller: {enabled: false, concurrentSyncs: 7}}\n", `
deployment-controller  stop     controllers.deployment-controller.enabled: (not set) → false
no effect              controllers.deployment-controller.concurrentSyncs: 5 → 7
2 controllers keep running
`},
		{"default for all, one opts out", "", "controllerDefaults: {enabled: false}\ncontrollers: {replicaset-controller: {enabled: true}}\n", `
deployment-controller                     stop     controllerDefaults.enabled: true → false
root-ca-certificate-publisher-controller  stop     controllerDefaults.enabled: true → false
no effect                                 controllers.replicaset-controller.enabled: (not set) → true
1 controller keeps running
`},
		{"setting of a stopped controller", "controllers: {replicaset-controller: {enabled: false}}\n",
			"controllers: {replicaset-controller: {enabled: false, concurrentSyncs: 9, resyncPeriod: 1h}}\n", `
no effect     controllers.replicaset-controller.concurrentSyncs: 5 → 9
no effect     controllers.replicaset-controller.resyncPeriod: (not set) → 1h
2 controllers keep running
`},
		{"in place, by block", "clientConnection: {qps: 20}\n", `
clientConnection: {qps: 50, burst: 100}
leaderElection: {leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 4s}
resync: {minPeriod: 1h}
reload: {drainTimeout: 20s}
serving: {port: 10258, tls: {cipherSuites: [TLS_AES_128_GCM_SHA256]}, authorization: {alwaysAllowPaths: [/healthz]}}
controllers: {deployment-controller: {resyncPeriod: 10m}}
`, `
in place      clientConnection.burst: 0 → 100
in place      clientConnection.qps: 20 → 50
in place      controllers.deployment-controller.resyncPeriod: (not set) → 10m
in place      leaderElection.leaseDuration: 15s → 30s
in place      leaderElection.renewDeadline: 10s → 20s
in place      leaderElection.retryPeriod: 2s → 4s
in place      reload.drainTimeout: 10s → 20s
in place      resync.minPeriod: 12h → 1h
in place      serving.authorization.alwaysAllowPaths: [/healthz, /readyz, /livez] → [/healthz]
in place      serving.port: 10257 → 10258
in place      serving.tls.cipherSuites: (not set) → [TLS_AES_128_GCM_SHA256]
3 controllers keep running
`},
		{"process-wide", "", "clientConnection: {kubeconfig: /a b}\ncontrollers: {deployment-controller: {concurrentSyncs: 20}, replicaset-controller: {enabled: false}}\n", `
process-wide                              clientConnection.kubeconfig: (not set) → "/a b" (rebuilds the clients and restarts every controller)
replicaset-controller                     stop     controllers.replicaset-controller.enabled: (not set) → false
deployment-controller                     restart  controllers.deployment-controller.concurrentSyncs: 5 → 20
root-ca-certificate-publisher-controller  restart
`},
		{"new term", "", "leaderElection: {resourceName: other}\ncontrollerDefaults: {enabled: true}\n", `
process-wide                              leaderElection.resourceName: kube-controller-manager → other (starts a new leadership term and restarts every controller)
deployment-controller                     restart
replicaset-controller                     restart
root-ca-certificate-publisher-controller  restart
`},
		{"everything off", "controllerDefaults: {enabled: false}\n", "controllerDefaults: {enabled: false}\n", "nothing changes\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := NewPlan(parsed(t, test.before), parsed(t, test.after), subjects())
			want := test.want
			if want[0] == '\n' {
				want = want[1:]
			}
			if diff := cmp.Diff(want, plan.String()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanColdStart(t *testing.T) {
	plan := NewPlan(nil, parsed(t, "controllers: {replicaset-controller: {enabled: false}}\n"), subjects())
	want := Plan{Controllers: []ControllerPlan{
		{Name: "deployment-controller", Action: Start},
		{Name: "root-ca-certificate-publisher-controller", Action: Start},
	}}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if plan.Empty() {
		t.Error("a cold start is Empty")
	}
}

func TestPlanOfEqualConfigurationsIsEmpty(t *testing.T) {
	cfg := v1beta1.NewDefault()
	plan := NewPlan(cfg, cfg.DeepCopy(), subjects())
	if !plan.Empty() || len(plan.NoEffect) > 0 {
		t.Errorf("plan = %v, want nothing but keep", plan)
	}
	if n := plan.count(Keep); n != 3 {
		t.Errorf("%d controllers keep running, want 3", n)
	}
}

// Values that no single field decides: the cause is a smallest set that does.
func TestPlanJointCauses(t *testing.T) {
	exclusive := func(c *cfgType) any { // odd number of marks, each visible only together with the others
		a, b := *c.Controllers.Deployment.ConcurrentSyncs == 6, *c.Controllers.ReplicaSet.ConcurrentSyncs == 6
		c2 := *c.Controllers.Namespace.ConcurrentSyncs == 6
		return (a && b) || (b && c2) || (a && c2)
	}
	before := v1beta1.NewDefault()
	after := parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 6}, replicaset-controller: {concurrentSyncs: 6}, namespace-controller: {concurrentSyncs: 6}, endpointslice-controller: {concurrentSyncs: 6}}\n")
	plan := NewPlan(before, after, []Subject{subject("namespace-controller", exclusive)})
	want := []ControllerPlan{{Name: "namespace-controller", Action: Restart, Causes: []Change{
		{Path: "controllers.namespace-controller.concurrentSyncs", Old: 10.0, New: 6.0},
		{Path: "controllers.replicaset-controller.concurrentSyncs", Old: 5.0, New: 6.0},
	}}}
	if diff := cmp.Diff(want, plan.Controllers, cmpopts.IgnoreUnexported(Change{})); diff != "" {
		t.Errorf("controllers (-want +got):\n%s", diff)
	}
}

// Two fields of which either one suffices to withhold: both are causes.
func TestPlanCauseByWithholding(t *testing.T) {
	least := func(c *cfgType) any {
		return min(*c.Controllers.Deployment.ConcurrentSyncs, *c.Controllers.ReplicaSet.ConcurrentSyncs)
	}
	after := parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 6}, replicaset-controller: {concurrentSyncs: 6}}\n")
	plan := NewPlan(v1beta1.NewDefault(), after, []Subject{subject("namespace-controller", least)})
	if got := len(plan.Controllers[0].Causes); got != 2 {
		t.Errorf("causes = %v, want both fields", plan.Controllers[0].Causes)
	}
}

func TestPlanDoesNotChangeItsInputs(t *testing.T) {
	before, after := parsed(t, ""), parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 20, resyncPeriod: 1h}}\nfeatureGates: {PodDeletionCost: false}\n")
	beforeCopy, afterCopy := before.DeepCopy(), after.DeepCopy()
	NewPlan(before, after, subjects())
	if diff := cmp.Diff(beforeCopy, before) + cmp.Diff(afterCopy, after); diff != "" {
		t.Errorf("inputs changed:\n%s", diff)
	}
}

func TestPlanJSON(t *testing.T) {
	plan := NewPlan(v1beta1.NewDefault(), parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 20}}\nresync: {minPeriod: 1h}\n"), subjects()[3:])
	got, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"controllers":[{"name":"deployment-controller","action":"restart","causes":[{"path":"controllers.deployment-controller.concurrentSyncs","old":5,"new":20}]}],` +
		`"inPlace":[{"path":"resync.minPeriod","old":"12h0m0s","new":"1h0m0s"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// Every field is process-wide, in place, or left to the controllers.
func TestEveryFieldOutsideControllersIsClassified(t *testing.T) {
	leftToControllers := []string{
		"serviceAccounts", "networking", "volumes", "controllerDefaults",
		"leaderElection.groups", "leaderMigration", "featureGates",
	}
	paths := fieldPaths(reflect.TypeFor[cfgType](), "")
	checked := 0
	for _, path := range paths {
		isBlock := slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, path+".") })
		if isBlock || path == "" || path == "apiVersion" || path == "kind" || strings.Contains(path, "[]") || strings.HasPrefix(path, "controllers.") {
			continue
		}
		checked++
		_, all := RestartsAll(path)
		inPlace := appliesInPlace(path, func(string) bool { return true })
		left := slices.ContainsFunc(leftToControllers, func(block string) bool { return path == block || strings.HasPrefix(path, block+".") })
		n := 0
		for _, yes := range []bool{all, inPlace, left} {
			if yes {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: process-wide %t, in place %t, left to controllers %t, want exactly one", path, all, inPlace, left)
		}
	}
	if checked < 60 {
		t.Errorf("checked %d fields, want at least 60: the test looks in the wrong place", checked)
	}
}

// Putting controllers under another lease restarts them, and so does another Lease for
// theirs; giving one to another component stops it.
func TestPlanFollowsTheLeases(t *testing.T) {
	const name, group = "deployment-controller", "leaderElection: {groups: [{name: a, controllers: [deployment-controller]}]}\n"
	tests := []struct {
		name, before, after string
		want                Action
		cause               string
	}{
		{"into a group", "", group, Restart, "leaderElection.groups"},
		{"out of a group", group, "", Restart, "leaderElection.groups"},
		{"another controller into the group", group, "leaderElection: {groups: [{name: a, controllers: [deployment-controller, job-controller]}]}\n", Keep, ""},
		{"another Lease for the group", group, "leaderElection: {groups: [{name: a, resourceName: b, controllers: [deployment-controller]}]}\n", Restart, "leaderElection.groups"},
		{"migration on", "leaderMigration: {controllerLeaders: [{name: deployment-controller, component: '*'}]}\n",
			"leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n", Restart, "leaderMigration.enabled"},
		{"another migration Lease", "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n",
			"leaderMigration: {enabled: true, leaderName: b, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n", Restart, "leaderMigration.leaderName"},
		{"to another component", "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n",
			"leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: cloud}]}\n", Stop, "leaderMigration.controllerLeaders"},
		{"this is that component", "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: cloud}]}\n",
			"leaderMigration: {enabled: true, component: cloud, controllerLeaders: [{name: deployment-controller, component: cloud}]}\n", Start, "leaderMigration.component"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := NewPlan(parsed(t, test.before), parsed(t, test.after), subjects())
			for _, c := range plan.Controllers {
				cause := ""
				if len(c.Causes) > 0 {
					cause = c.Causes[0].Path
				}
				if c.Name == name && (c.Action != test.want || cause != test.cause) {
					t.Errorf("plan = %s because of %q, want %s because of %q", c.Action, cause, test.want, test.cause)
				}
				if c.Name != name && c.Action != Keep {
					t.Errorf("%s: %s, want it kept", c.Name, c.Action)
				}
			}
		})
	}
}

// A mixture has of each field what it should have, maps included, and changes nothing else.
func TestMixture(t *testing.T) {
	before := parsed(t, "featureGates: {PodDeletionCost: false}\nmetrics: {allowListMapping: {'a,b': c}}\n")
	after := parsed(t, `
featureGates: {HPAScaleToZero: true, LoggingAlphaOptions: true}
metrics: {allowListMapping: {"a,b": d, "e,f": g}}
logging: {verbosity: 3, flushFrequency: 1s, options: {text: {splitStream: true, infoBufferSize: 1Ki}}}
leaderElection: {groups: [{name: a, controllers: [job-controller]}]}
controllers: {deployment-controller: {concurrentSyncs: 6, enabled: false, resyncPeriod: 1h}, persistentvolume-binder-controller: {recycler: {nfs: {podTemplateFile: x}}}}
`)
	changes := changedLeaves(toObject(before), toObject(after))
	if len(changes) < 12 {
		t.Fatalf("changes = %v, want at least 12", changes)
	}
	if diff := cmp.Diff(toObject(after), toObject(mixture(before, after, changes...))); diff != "" {
		t.Errorf("a mixture with all changes is not the new configuration (-want +got):\n%s", diff)
	}
	wantBefore, wantAfter := before.DeepCopy(), after.DeepCopy()
	for _, change := range changes {
		got := changedLeaves(toObject(before), toObject(mixture(before, after, change)))
		if len(got) != 1 || got[0].Path != change.Path || !reflect.DeepEqual(got[0].New, change.New) {
			t.Errorf("a mixture with %v differs from the old configuration by %v", change, got)
		}
	}
	if diff := cmp.Diff(toObject(wantBefore), toObject(before)) + cmp.Diff(toObject(wantAfter), toObject(after)); diff != "" {
		t.Errorf("mixing changed the inputs:\n%s", diff)
	}
}

// allSubjects stand for the controllers of a complete build: each reads its block, the
// gates and the files, and what many changes are about.
func allSubjects() []Subject {
	var out []Subject
	for i, name := range controllerNames() {
		out = append(out, subject(name, func(c *cfgType) any {
			type value struct {
				settings v1beta1.NamedSettings
				workers  int32
				ca       string
				gates    [3]bool
			}
			return value{c.Controllers.All()[i], *c.Controllers.Deployment.ConcurrentSyncs, c.ServiceAccounts.RootCAFile,
				[3]bool{Enabled(c, PodDeletionCost), Enabled(c, GenericWorkload), Enabled(c, HPAScaleToZero)}}
		}))
	}
	return out
}

func BenchmarkNewPlan(b *testing.B) {
	one, many := v1beta1.NewDefault(), v1beta1.NewDefault()
	*one.Controllers.Deployment.ConcurrentSyncs = 20
	for _, change := range changedLeaves(object{}, toObject(many)) {
		if number, ok := change.New.(float64); ok && strings.HasSuffix(change.Path, "concurrentSyncs") {
			many = toObject(many).with(change.keys, number+1).config(b)
		}
		if text, ok := change.New.(string); ok && strings.HasSuffix(text, "s") && strings.HasPrefix(change.Path, "controllers.") {
			many = toObject(many).with(change.keys, "7m").config(b)
		}
	}
	many.Serving.BindAddress, many.LeaderElection.Identity, many.ServiceAccounts.RootCAFile = "127.0.0.1", "a", "ca.crt"
	before := v1beta1.NewDefault()
	for _, benchmark := range []struct {
		name  string
		after *cfgType
	}{{"1", one}, {"50", many}} {
		changes := len(changedLeaves(toObject(before), toObject(benchmark.after)))
		b.Run(fmt.Sprintf("changes=%d", changes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewPlan(before, benchmark.after, allSubjects())
			}
		})
	}
}

func (o object) config(t testing.TB) *cfgType {
	t.Helper()
	cfg := &cfgType{}
	if err := decode(o, cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}
