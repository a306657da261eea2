package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
)

type cfgType = v1beta1.KubeControllerManagerConfiguration

const header = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"

func enabled(name string) func(*cfgType) (bool, string) {
	return func(c *cfgType) (bool, string) { return c.ControllerEnabled(name), "disabled" }
}

func subject(name string, value func(*cfgType) any) plan.Subject {
	return plan.Subject{Name: name, Value: value, Enabled: enabled(name)}
}

// subjects are like those of the registry: small values of what a controller reads.
func subjects() []plan.Subject {
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
	tokens.Enabled = func(c *cfgType) (bool, string) {
		return c.ControllerEnabled(tokens.Name) && c.ServiceAccounts.PrivateKeyFile != "", "disabled, or without a key"
	}
	return []plan.Subject{
		tokens,
		subject("root-ca-certificate-publisher-controller", func(c *cfgType) any { return c.ServiceAccounts.RootCAFile }),
		subject("replicaset-controller", func(c *cfgType) any { return *c.Controllers.ReplicaSet.ConcurrentSyncs }),
		subject("deployment-controller", func(c *cfgType) any {
			return deployment{*c.Controllers.Deployment.ConcurrentSyncs, gates.Enabled(c, gates.DeploymentReplicaSetTerminatingReplicas)}
		}),
	}
}

func parsed(t *testing.T, text string) *cfgType {
	t.Helper()
	doc, err := config.Load("f.yaml", []byte(header+text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Config
}

func TestPlanText(t *testing.T) {
	tests := []struct {
		name, before, after, want string
	}{
		{"nothing", "", "resync: {minPeriod: 720m}\n", "no changes: 3 controllers keep running\n"},
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
		{"pause", "controllers: {replicaset-controller: {paused: true}}\n", "controllers: {deployment-controller: {paused: true}}\n", `
deployment-controller  pause    controllers.deployment-controller.paused: (not set) → true
replicaset-controller  resume   controllers.replicaset-controller.paused: true → (not set)
1 controller keeps running
`},
		{"pause with other settings", "", "controllers: {deployment-controller: {paused: true, concurrentSyncs: 7}}\n", `
deployment-controller  pause    controllers.deployment-controller.concurrentSyncs: 5 → 7
                                controllers.deployment-controller.paused: (not set) → true
2 controllers keep running
`},
		{"settings of a paused controller", "controllers: {deployment-controller: {paused: true}}\n", "controllers: {deployment-controller: {paused: true, concurrentSyncs: 7}}\n", `
deployment-controller  keep     controllers.deployment-controller.concurrentSyncs: 5 → 7
3 controllers keep running
`},
		{"a start that is paused", "controllers: {deployment-controller: {enabled: false}}\n", "controllers: {deployment-controller: {paused: true}}\n", `
deployment-controller  pause    controllers.deployment-controller.enabled: false → (not set)
                                controllers.deployment-controller.paused: (not set) → true
2 controllers keep running
`},
		{"a pause of what is off", "controllers: {deployment-controller: {enabled: false}}\n", "controllers: {deployment-controller: {enabled: false, paused: true, pausedNamespaces: [a]}}\n", `
no effect     controllers.deployment-controller.paused: (not set) → true
no effect     controllers.deployment-controller.pausedNamespaces: (not set) → [a]
2 controllers keep running
`},
		{"paused namespaces", "pausedNamespaces: [a]\n", "pausedNamespaces: [a, b]\ncontrollers: {deployment-controller: {pausedNamespaces: [c]}, replicaset-controller: {pausedNamespaces: [a]}}\n", `
in place      controllers.deployment-controller.pausedNamespaces: (not set) → [c]
in place      pausedNamespaces: [a] → [a, b]
no effect     controllers.replicaset-controller.pausedNamespaces: (not set) → [a]
3 controllers keep running
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
replicaset-controller                     keep     controllers.replicaset-controller.enabled: (not set) → true
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
serving: {port: 10258, tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}, authorization: {alwaysAllowPaths: [/healthz]}}
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
in place      serving.tls.cipherSuites: (not set) → [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
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
		{"one line keeps a controller off", "controllerDefaults: {enabled: false}\ncontrollers: {deployment-controller: {enabled: true}}\n",
			"controllers: {deployment-controller: {enabled: true}, replicaset-controller: {enabled: false}}\n", `
root-ca-certificate-publisher-controller  start    controllerDefaults.enabled: false → true
replicaset-controller                     off      controllers.replicaset-controller.enabled: (not set) → false
1 controller keeps running
`},
		{"without leader election", "leaderElection: {leaderElect: false}\n",
			"leaderElection: {leaderElect: false, identity: a, resourceName: b, standby: Cold, leaseDuration: 20s, groups: [{name: x, controllers: [job-controller]}]}\n", `
in place      leaderElection.resourceName: kube-controller-manager → b
no effect     leaderElection.groups: (not set) → [{"controllers":["job-controller"],"name":"x"}]
no effect     leaderElection.identity: (not set) → a
no effect     leaderElection.leaseDuration: 15s → 20s
no effect     leaderElection.standby: Warm → Cold
3 controllers keep running
`},
		{"leader election is turned off, with its settings edited", "leaderElection: {groups: [{name: x, controllers: [deployment-controller]}]}\n",
			"leaderElection: {leaderElect: false, identity: a, groups: [{name: x, controllers: [replicaset-controller]}]}\n", `
process-wide                              leaderElection.leaderElect: true → false (starts a new leadership term and restarts every controller)
deployment-controller                     restart
replicaset-controller                     restart
root-ca-certificate-publisher-controller  restart
no effect                                 leaderElection.groups: [{"controllers":["deployment-controller"],"name":"x"}] → [{"controllers":["replicaset-controller"],"name":"x"}]
no effect                                 leaderElection.identity: (not set) → a
`},
		{"a group of controllers that are off", "controllers: {replicaset-controller: {enabled: false}}\n",
			"controllers: {replicaset-controller: {enabled: false}}\nleaderElection: {groups: [{name: x, controllers: [replicaset-controller]}]}\n", `
lease kube-controller-manager-x  start    leaderElection.groups: (not set) → [{"controllers":["replicaset-controller"],"name":"x"}]
2 controllers keep running
`},
		{"two groups, which every line has for a cause", "",
			"leaderElection: {groups: [{name: x, controllers: [replicaset-controller]}, {name: z, controllers: [deployment-controller]}]}\n", `
lease kube-controller-manager-x  start    leaderElection.groups: (not set) → [{"controllers":["replicaset-controller"],"name":"x"}, {"controllers":["deployment-controller"],"name":"z"}]
lease kube-controller-manager-z  start    leaderElection.groups, as above
deployment-controller            restart  leaderElection.groups, as above
replicaset-controller            restart  leaderElection.groups, as above
1 controller keeps running
`},
		{"no endpoint", "serving: {port: 0}\n", "serving: {port: 0, tls: {minVersion: VersionTLS13}, profiling: false}\n", `
no effect     serving.profiling: true → false
no effect     serving.tls.minVersion: VersionTLS12 → VersionTLS13
3 controllers keep running
`},
		{"what a controller starts with", "controllers: {replicaset-controller: {enabled: false}}\n", "controllers: {replicaset-controller: {concurrentSyncs: 9}}\n", `
replicaset-controller  start    controllers.replicaset-controller.enabled: false → (not set)
                                controllers.replicaset-controller.concurrentSyncs: 5 → 9
2 controllers keep running
`},
		{"everything off", "controllerDefaults: {enabled: false}\n", "controllerDefaults: {enabled: false}\n", "no changes\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := plan.New(parsed(t, test.before), parsed(t, test.after), subjects())
			want := test.want
			if want[0] == '\n' {
				want = want[1:]
			}
			if difference := cmp.Diff(want, p.String()); difference != "" {
				t.Errorf("plan (-want +got):\n%s", difference)
			}
		})
	}
}

func TestPlanColdStart(t *testing.T) {
	p := plan.New(nil, parsed(t, "controllers: {replicaset-controller: {enabled: false}}\n"), subjects())
	want := plan.Plan{Controllers: []plan.ControllerPlan{
		{Name: "deployment-controller", Action: plan.Start},
		{Name: "root-ca-certificate-publisher-controller", Action: plan.Start},
	}}
	if difference := cmp.Diff(want, p); difference != "" {
		t.Errorf("plan (-want +got):\n%s", difference)
	}
	if p.Empty() {
		t.Error("a cold start is Empty")
	}
}

func TestPlanOfEqualConfigurationsIsEmpty(t *testing.T) {
	cfg := v1beta1.NewDefault()
	p := plan.New(cfg, cfg.DeepCopy(), subjects())
	if !p.Empty() || len(p.NoEffect) > 0 {
		t.Errorf("p = %v, want nothing but keep", p)
	}
	if text := p.String(); text != "no changes: 3 controllers keep running\n" {
		t.Errorf("the plan says:\n%s", text)
	}
}

// Values that no single field decides: the cause is a smallest set that does.
// A change needs two configurations of its own, each with a copy of the map: of thousands of entries that would take
// gigabytes.
func TestPlanOfManyAllowedLabels(t *testing.T) {
	before, after := parsed(t, ""), parsed(t, "metrics: {disabledMetrics: [x]}\n")
	for _, n := range []int{100, 4000} {
		after.Metrics.AllowListMapping = map[string]string{}
		for i := range n {
			after.Metrics.AllowListMapping[fmt.Sprintf("m%d,l", i)] = "a"
		}
		p := plan.New(before, after, subjects())
		want := 1 + n
		if n > 100 {
			want = 2
		}
		if len(p.InPlace) != want || len(p.NoEffect) != 0 || p.InPlace[len(p.InPlace)-1].Path != "metrics.disabledMetrics" {
			t.Errorf("%d entries: %d changes in place and %d without effect, want %d and none", n, len(p.InPlace), len(p.NoEffect), want)
		}
		if n > 100 && (p.InPlace[0].Path != "metrics.allowListMapping" || p.InPlace[0].Old != nil || len(p.InPlace[0].New.(map[string]any)) != n) {
			t.Errorf("the change is %.200s", p.InPlace[0])
		}
	}
}

func TestPlanJointCauses(t *testing.T) {
	exclusive := func(c *cfgType) any { // odd number of marks, each visible only together with the others
		a, b := *c.Controllers.Deployment.ConcurrentSyncs == 6, *c.Controllers.ReplicaSet.ConcurrentSyncs == 6
		c2 := *c.Controllers.Namespace.ConcurrentSyncs == 6
		return (a && b) || (b && c2) || (a && c2)
	}
	before := v1beta1.NewDefault()
	after := parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 6}, replicaset-controller: {concurrentSyncs: 6}, namespace-controller: {concurrentSyncs: 6}, endpointslice-controller: {concurrentSyncs: 6}}\n")
	p := plan.New(before, after, []plan.Subject{subject("namespace-controller", exclusive)})
	want := []plan.ControllerPlan{{Name: "namespace-controller", Action: plan.Restart, Causes: []diff.Change{
		{Path: "controllers.namespace-controller.concurrentSyncs", Old: 10.0, New: 6.0},
		{Path: "controllers.replicaset-controller.concurrentSyncs", Old: 5.0, New: 6.0},
	}}}
	if difference := cmp.Diff(want, p.Controllers, cmpopts.IgnoreUnexported(diff.Change{})); difference != "" {
		t.Errorf("controllers (-want +got):\n%s", difference)
	}
}

// Two fields of which either one suffices to withhold: both are causes.
func TestPlanCauseByWithholding(t *testing.T) {
	least := func(c *cfgType) any {
		return min(*c.Controllers.Deployment.ConcurrentSyncs, *c.Controllers.ReplicaSet.ConcurrentSyncs)
	}
	after := parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 6}, replicaset-controller: {concurrentSyncs: 6}}\n")
	p := plan.New(v1beta1.NewDefault(), after, []plan.Subject{subject("namespace-controller", least)})
	if got := len(p.Controllers[0].Causes); got != 2 {
		t.Errorf("causes = %v, want both fields", p.Controllers[0].Causes)
	}
}

func TestPlanDoesNotChangeItsInputs(t *testing.T) {
	before, after := parsed(t, ""), parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 20, resyncPeriod: 1h}}\nfeatureGates: {PodDeletionCost: false}\n")
	beforeCopy, afterCopy := before.DeepCopy(), after.DeepCopy()
	plan.New(before, after, subjects())
	if difference := cmp.Diff(beforeCopy, before) + cmp.Diff(afterCopy, after); difference != "" {
		t.Errorf("inputs changed:\n%s", difference)
	}
}

// A change of ranges restarts the controller that gives them to nodes, and says what becomes of
// those given out.
func TestPlanSaysWhatBecomesOfRangesOfNodes(t *testing.T) {
	ipam := subject("node-ipam-controller", func(c *cfgType) any {
		b := c.Controllers.NodeIPAM
		return fmt.Sprint(c.Networking, *b.AllocateNodeCIDRs, *b.NodeCIDRMaskSizeIPv4, *b.NodeCIDRMaskSizeIPv6)
	})
	before := "networking: {clusterCIDRs: [10.0.0.0/16]}\ncontrollers: {node-ipam-controller: {allocateNodeCIDRs: true}}\n"
	for _, test := range []struct{ after, want string }{
		{
			strings.Replace(before, "/16", "/15", 1),
			"networking.clusterCIDRs: [10.0.0.0/16] → [10.0.0.0/15] (nodes keep the ranges they have, even outside of the new ones; only nodes without any get new ranges)",
		},
		{
			strings.Replace(before, "/16]", "/16], serviceCIDRs: [10.96.0.0/12]", 1),
			"networking.serviceCIDRs: (not set) → [10.96.0.0/12] (nodes keep the ranges they have; no range that overlaps is given out from now on)",
		},
		{
			strings.Replace(before, "true", "true, nodeCIDRMaskSizeIPv4: 25", 1),
			"controllers.node-ipam-controller.nodeCIDRMaskSizeIPv4: 24 → 25 (nodes keep the ranges they have; only nodes without any get ranges of the new size)",
		},
		{
			strings.Replace(before, "true", "false", 1),
			"controllers.node-ipam-controller.allocateNodeCIDRs: true → false (nodes keep the ranges they have; nodes without any get ranges only while it is true)",
		},
	} {
		p := plan.New(parsed(t, before), parsed(t, test.after), []plan.Subject{ipam})
		if got, want := p.String(), "node-ipam-controller  restart  "+test.want+"\n"; got != want {
			t.Errorf("the plan is\n%s, want\n%s", got, want)
		}
	}
	p := plan.New(parsed(t, before), parsed(t, strings.Replace(before, "/16", "/15", 1)), []plan.Subject{ipam})
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if note := `"note":"nodes keep the ranges they have, even outside`; !strings.Contains(string(data), note) {
		t.Errorf("the JSON has no %s: %s", note, data)
	}
}

func TestPlanJSON(t *testing.T) {
	p := plan.New(v1beta1.NewDefault(), parsed(t, "controllers: {deployment-controller: {concurrentSyncs: 20}}\nresync: {minPeriod: 1h}\n"), subjects()[3:])
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"controllers":[{"name":"deployment-controller","action":"restart","causes":[{"path":"controllers.deployment-controller.concurrentSyncs","old":5,"new":20}]}],` +
		`"inPlace":[{"path":"resync.minPeriod","old":"12h0m0s","new":"1h0m0s"}]}`
	if difference := cmp.Diff(want, string(got)); difference != "" {
		t.Errorf("JSON (-want +got):\n%s", difference)
	}
}

// Putting controllers under another lease restarts them, and so does another Lease for
// theirs; giving one to another component stops it.
func TestPlanFollowsTheLeases(t *testing.T) {
	const name, group = "deployment-controller", "leaderElection: {groups: [{name: a, controllers: [deployment-controller]}]}\n"
	tests := []struct {
		name, before, after string
		want                plan.Action
		cause               string
	}{
		{"into a group", "", group, plan.Restart, "leaderElection.groups"},
		{"out of a group", group, "", plan.Restart, "leaderElection.groups"},
		{"another controller into the group", group, "leaderElection: {groups: [{name: a, controllers: [deployment-controller, job-controller]}]}\n", plan.Keep, ""},
		{"another Lease for the group", group, "leaderElection: {groups: [{name: a, resourceName: b, controllers: [deployment-controller]}]}\n", plan.Restart, "leaderElection.groups"},
		{"migration on", "leaderMigration: {controllerLeaders: [{name: deployment-controller, component: '*'}]}\n",
			"leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n", plan.Restart, "leaderMigration.enabled"},
		{"another migration Lease", "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n",
			"leaderMigration: {enabled: true, leaderName: b, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n", plan.Restart, "leaderMigration.leaderName"},
		{"to another component", "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]}\n",
			"leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: cloud}]}\n", plan.Stop, "leaderMigration.controllerLeaders"},
		{"this is that component", "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: cloud}]}\n",
			"leaderMigration: {enabled: true, component: cloud, controllerLeaders: [{name: deployment-controller, component: cloud}]}\n", plan.Start, "leaderMigration.component"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := plan.New(parsed(t, test.before), parsed(t, test.after), subjects())
			for _, c := range p.Controllers {
				cause := ""
				if len(c.Causes) > 0 {
					cause = c.Causes[0].Path
				}
				if c.Name == name && (c.Action != test.want || cause != test.cause) {
					t.Errorf("p = %s because of %q, want %s because of %q", c.Action, cause, test.want, test.cause)
				}
				if c.Name != name && c.Action != plan.Keep {
					t.Errorf("%s: %s, want it kept", c.Name, c.Action)
				}
			}
		})
	}
}

// allSubjects stand for the controllers of a complete build: each reads its block, the
// gates and the files, and what many changes are about.
func allSubjects() []plan.Subject {
	var out []plan.Subject
	for i, c := range new(v1beta1.Controllers).All() {
		out = append(out, subject(c.Name, func(c *cfgType) any {
			type value struct {
				enabled bool
				workers int32
				ca      string
				gates   [3]bool
			}
			return value{ptr.Deref(c.Controllers.All()[i].Settings.Enabled, false), *c.Controllers.Deployment.ConcurrentSyncs, c.ServiceAccounts.RootCAFile,
				[3]bool{gates.Enabled(c, gates.PodDeletionCost), gates.Enabled(c, gates.GenericWorkload), gates.Enabled(c, gates.HPAScaleToZero)}}
		}))
	}
	return out
}

func BenchmarkNew(b *testing.B) {
	one, many := v1beta1.NewDefault(), v1beta1.NewDefault()
	*one.Controllers.Deployment.ConcurrentSyncs = 20
	for _, change := range diff.Of(diff.Object{}, diff.ObjectOf(many)) {
		if number, ok := change.New.(float64); ok && strings.HasSuffix(change.Path, "concurrentSyncs") {
			many = edited(b, many, change, number+1)
		}
		if text, ok := change.New.(string); ok && strings.HasSuffix(text, "s") && strings.HasPrefix(change.Path, "controllers.") {
			many = edited(b, many, change, "7m")
		}
	}
	many.Serving.BindAddress, many.LeaderElection.Identity, many.ServiceAccounts.RootCAFile = "127.0.0.1", "a", "ca.crt"
	before := v1beta1.NewDefault()
	for _, benchmark := range []struct {
		name  string
		after *cfgType
	}{{"1", one}, {"50", many}} {
		changes := len(diff.Of(diff.ObjectOf(before), diff.ObjectOf(benchmark.after)))
		b.Run(fmt.Sprintf("changes=%d", changes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan.New(before, benchmark.after, allSubjects())
			}
		})
	}
}

func edited(t testing.TB, cfg *cfgType, change diff.Change, value any) *cfgType {
	t.Helper()
	out, err := diff.ObjectOf(cfg).With(change.Keys(), value).Config()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What validation calls a setting without effect, a Plan does too, whichever way it is changed.
func TestWarningsAndPlansAgree(t *testing.T) {
	for _, text := range []string{
		"leaderElection: {leaderElect: false, identity: a, standby: Cold, spread: Sticky, retryPeriod: 1s, groups: [{name: x, controllers: [job-controller]}]}\n",
		"leaderMigration: {leaderName: a, component: b, controllerLeaders: []}\n",
		"serving: {port: 0, bindAddress: 127.0.0.1, profiling: false, tls: {minVersion: VersionTLS13}, http2: {enabled: false}, authorization: {alwaysAllowPaths: []}}\n",
		"serving: {profiling: false, contentionProfiling: true, http2: {enabled: false, maxStreamsPerConnection: 7}}\n",
		"serving: {tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}}\n",
		"serving: {authentication: {tolerateLookupFailure: true, requestHeader: {usernameHeaders: [X-Remote-User, b], allowedNames: [c]}}}\n",
		"metrics: {disabledMetrics: [a], allowListMapping: {'a,b': c}}\n",
		"featureGates: {LoggingAlphaOptions: true}\nlogging: {options: {text: {infoBufferSize: 1Ki}, json: {splitStream: true}}}\n",
		"featureGates: {AnonymousAuthConfigurableEndpoints: true}\n",
	} {
		document, err := config.Load("f.yaml", []byte(header+text))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, w := range document.Warnings {
			if !strings.Contains(w.Message, "no effect") {
				continue
			}
			for _, c := range diff.Between(v1beta1.NewDefault(), document.Config) {
				if c.Path != w.Path && !strings.HasPrefix(c.Path, w.Path+".") {
					continue
				}
				found++
				without := diff.Mix(document.Config, v1beta1.NewDefault(), c)
				for _, p := range []plan.Plan{plan.New(document.Config, without, subjects()), plan.New(without, document.Config, subjects())} {
					if len(p.NoEffect) != 1 || !p.Empty() {
						t.Errorf("%s, and the plan says:\n%s", w, p)
					}
				}
			}
		}
		if found == 0 {
			t.Errorf("no warning about %s, of %v", text, document.Warnings)
		}
	}
}
