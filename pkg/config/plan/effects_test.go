package plan_test

import (
	"slices"
	"testing"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/plan"
)

// What becomes of an edit, as "lease group/a stop", "rebuilds the clients", "in place path" or "no effect path".
func TestWhatAnEditDoes(t *testing.T) {
	const group = "leaderElection: {groups: [{name: a, controllers: [deployment-controller]}]}\n"
	const migrates = "leaderMigration: {enabled: true, controllerLeaders: [{name: deployment-controller, component: '*'}]"
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"a group that comes":             {"", group, []string{"lease group/a start"}},
		"a group that goes":              {group, "", []string{"lease group/a stop"}},
		"another API server":             {"", "clientConnection: {server: 'https://a:1'}\n", []string{"lease main restart", "rebuilds the clients"}},
		"another server, without leases": {"leaderElection: {leaderElect: false}\n", "leaderElection: {leaderElect: false}\nclientConnection: {server: 'https://a:1'}\n", []string{"rebuilds the clients"}},
		"another encoding":               {"", "clientConnection: {contentType: application/json}\n", []string{"lease main restart", "rebuilds the clients"}},
		"profiling is off":               {"serving: {profiling: false}\n", "serving: {profiling: false, contentionProfiling: true}\n", []string{"no effect serving.contentionProfiling"}},
		"there is a certificate": {"serving: {tls: {certFile: /c, privateKeyFile: /k}}\n", "serving: {tls: {certFile: /c, privateKeyFile: /k, certDirectory: /d}}\n",
			[]string{"no effect serving.tls.certDirectory"}},
		"there is none": {"", "serving: {tls: {certDirectory: /d}}\n", []string{"in place serving.tls.certDirectory"}},
		"request headers of the cluster": {"", "serving: {authentication: {requestHeader: {usernameHeaders: [X-A]}}}\n",
			[]string{"no effect serving.authentication.requestHeader.usernameHeaders"}},
		"request headers of this process": {"serving: {authentication: {requestHeader: {clientCAFile: /c}}}\n", "serving: {authentication: {requestHeader: {clientCAFile: /c, usernameHeaders: [X-A]}}}\n",
			[]string{"in place serving.authentication.requestHeader.usernameHeaders"}},
		"deletions are counted":       {"deletionBreaker: {mode: Stop}\n", "deletionBreaker: {mode: Stop, window: 20m}\n", []string{"in place deletionBreaker.window"}},
		"another namespace of leases": {"leaderElection: {leaderElect: false}\n", "leaderElection: {leaderElect: false, resourceNamespace: a}\n", []string{"in place leaderElection.resourceNamespace"}},
		"a gate of the process":       {"", "featureGates: {RemoteRequestHeaderUID: false}\n", []string{"in place featureGates.RemoteRequestHeaderUID"}},
		"HTTP/2 is off": {"serving: {http2: {enabled: false}}\n", "serving: {http2: {enabled: false, maxStreamsPerConnection: 7}}\n",
			[]string{"no effect serving.http2.maxStreamsPerConnection"}},
		"HTTP/2 is on":    {"", "serving: {http2: {maxStreamsPerConnection: 7}}\n", []string{"in place serving.http2.maxStreamsPerConnection"}},
		"profiling is on": {"", "serving: {contentionProfiling: true}\n", []string{"in place serving.contentionProfiling"}},
		"migration is on": {migrates + "}\n", migrates + ", leaderName: b}\n", []string{"lease migration restart"}},
		"failed lookups":  {"", "serving: {authentication: {tolerateLookupFailure: true}}\n", []string{"no effect serving.authentication.tolerateLookupFailure"}},
		"deletions are not counted": {"deletionBreaker: {mode: Disabled}\n", "deletionBreaker: {mode: Disabled, window: 20m}\n",
			[]string{"no effect deletionBreaker.window"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan.New(parsed(t, test.before), parsed(t, test.after), subjects())
			var got []string
			for _, l := range p.Leases {
				got = append(got, "lease "+l.Lock+" "+string(l.Action))
			}
			for _, w := range p.ProcessWide {
				got = append(got, w.Effect)
			}
			for _, c := range p.InPlace {
				got = append(got, "in place "+c.Path)
			}
			for _, c := range p.NoEffect {
				got = append(got, "no effect "+c.Path)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWhichPlansAreEmpty(t *testing.T) {
	for name, test := range map[string]struct {
		plan plan.Plan
		want bool
	}{
		"nothing":             {plan.Plan{}, true},
		"what has no effect":  {plan.Plan{NoEffect: []diff.Change{{}}}, true},
		"what runs and stays": {plan.Plan{Controllers: []plan.ControllerPlan{{Action: plan.Keep}, {Action: plan.Off}}}, true},
		"a restart":           {plan.Plan{Controllers: []plan.ControllerPlan{{Action: plan.Restart}}}, false},
		"for the process":     {plan.Plan{ProcessWide: []plan.ProcessWideChange{{}}}, false},
		"a lease":             {plan.Plan{Leases: []plan.LeasePlan{{}}}, false},
		"in place":            {plan.Plan{InPlace: []diff.Change{{}}}, false},
		"two of them":         {plan.Plan{ProcessWide: []plan.ProcessWideChange{{}}, InPlace: []diff.Change{{}}}, false},
		"all of them":         {plan.Plan{ProcessWide: []plan.ProcessWideChange{{}}, Leases: []plan.LeasePlan{{}, {}}, InPlace: []diff.Change{{}}}, false},
	} {
		if got := test.plan.Empty(); got != test.want {
			t.Errorf("%s: empty is %t", name, got)
		}
	}
}
