package config

import (
	"encoding/json"
	"testing"
	"time"

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

// Every field is process-wide, in place, or left to the controllers, and the two
// tables name fields that exist.
func TestEveryFieldOutsideControllersIsClassified(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.ClientConnection.Kubeconfig, cfg.ClientConnection.AcceptContentTypes = "x", "x"
	cfg.LeaderElection.Identity = "x"
	cfg.ServiceAccounts = v1beta1.ServiceAccounts{PrivateKeyFile: "x", RootCAFile: "x"}
	leftToControllers := map[string]bool{
		"apiVersion": true, "kind": true, "controllerDefaults.enabled": true,
		"serviceAccounts.privateKeyFile": true, "serviceAccounts.rootCAFile": true,
	}
	for _, change := range changedLeaves(object{}, toObject(cfg)) {
		if change.keys[0] == "controllers" {
			continue
		}
		_, all := RestartsAll(change.Path)
		inPlace := appliesInPlace(change.Path, func(string) bool { return true })
		n := 0
		for _, yes := range []bool{all, inPlace, leftToControllers[change.Path]} {
			if yes {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: process-wide %t, in place %t, left to controllers %t, want exactly one",
				change.Path, all, inPlace, leftToControllers[change.Path])
		}
	}
}

func BenchmarkNewPlan(b *testing.B) {
	before, after := v1beta1.NewDefault(), v1beta1.NewDefault()
	*after.Controllers.Deployment.ConcurrentSyncs = 20
	after.Resync.MinPeriod.Duration = time.Hour
	for b.Loop() {
		NewPlan(before, after, subjects())
	}
}
