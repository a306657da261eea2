package validation_test

import (
	"strings"
	"testing"
)

func TestValidateLeadership(t *testing.T) {
	const noCandidate = "3:28: leaderElection.identity: must be at most 216 letters, digits, '-', '_' and '.', and not start with '..', " +
		"with the feature gate CoordinatedLeaderElection: it becomes part of the name of a LeaseCandidate"
	checkProblems(t, []problemTest{
		{"leaderElection: {standby: warm, spread: Even}", []string{
			"3:27: leaderElection.standby: must be one of Warm, Cold, not \"warm\", did you mean \"Warm\"?",
			"3:41: leaderElection.spread: must be one of Balanced, Sticky, not \"Even\"",
		}},
		{"leaderElection: {identity: 'a:b'}", nil},
		{"leaderElection: {resourceName: " + strings.Repeat("a", 240) + ", groups: [{name: bbbbbbbbbbbb, controllers: [job-controller]}]}", nil},
		{"leaderElection: {resourceName: " + strings.Repeat("a", 240) + ", groups: [{name: bbbbbbbbbbbbb, controllers: [job-controller]}]}", []string{
			"3:290: leaderElection.groups[0].name: the Lease would have the name \"" + strings.Repeat("a", 64) + "…\": a name has at most 253 characters; set resourceName",
		}},
		{"leaderElection: {identity: A.b_c-1}\nfeatureGates: {CoordinatedLeaderElection: true}", nil},
		{"leaderElection: {identity: " + strings.Repeat("a", 216) + "}\nfeatureGates: {CoordinatedLeaderElection: true}", nil},
		{"leaderElection: {identity: " + strings.Repeat("a", 217) + "}", nil},
		{"leaderElection: {identity: " + strings.Repeat("a", 217) + "}\nfeatureGates: {CoordinatedLeaderElection: true}", []string{noCandidate}},
		{"leaderElection: {identity: 'a:b'}\nfeatureGates: {CoordinatedLeaderElection: true}", []string{noCandidate}},
		{"leaderElection: {identity: ..a}\nfeatureGates: {CoordinatedLeaderElection: true}", []string{noCandidate}},
		{"leaderElection: {identity: 'a:b', leaderElect: false}\nfeatureGates: {CoordinatedLeaderElection: true}", []string{
			"3:28: warning: leaderElection.identity: has no effect while leaderElection.leaderElect is false",
		}},
		{"leaderElection: {groups: [{name: a, controllers: [job-controller]}, {name: a, controllers: [cronjob-controller]}]}", []string{
			"3:76: leaderElection.groups[1].name: another group has the name \"a\"",
		}},
		{"leaderElection: {groups: [{name: main, controllers: [job-controller]}]}", []string{
			"3:34: leaderElection.groups[0].name: \"main\" is the name of another lock: choose a different one",
		}},
		{"leaderElection: {groups: [{name: A_b, controllers: []}]}", []string{
			"3:34: leaderElection.groups[0].name: must be a name of lower-case letters, digits and '-' that starts and ends with a letter or digit, not \"A_b\", did you mean \"a-b\"?",
			"3:52: leaderElection.groups[0].controllers: must be a list of at least 1 element, not 0",
		}},
		{"leaderElection: {groups: [{}]}", []string{
			"3:27: leaderElection.groups[0].controllers: is missing",
			"3:27: leaderElection.groups[0].name: is missing",
		}},
		{"leaderElection: {groups: [{name: a, controllers: [job, job-controler, xyzzy]}]}", []string{
			"3:51: leaderElection.groups[0].controllers[0]: \"job\" is a former name: write \"job-controller\"",
			"3:56: leaderElection.groups[0].controllers[1]: unknown controller \"job-controler\", did you mean \"job-controller\"?",
			"3:71: leaderElection.groups[0].controllers[2]: unknown controller \"xyzzy\": none has this or a similar name",
		}},
		{"leaderElection: {groups: [{name: a, controllers: [job-controller, job-controller]}, {name: b, controllers: [job-controller]}]}", []string{
			"3:67: leaderElection.groups[0].controllers[1]: \"job-controller\" is already in the list",
			"3:109: leaderElection.groups[1].controllers[0]: job-controller is in leaderElection.groups[0] already: a controller can be in one group only",
		}},
		{"leaderElection: {groups: [{name: a, controllers: [ttl-controller]}]}", nil},
		{"leaderElection: {groups: [{name: a, resourceName: kube-controller-manager, controllers: [job-controller]}, {name: b, resourceName: kube-controller-manager-c, controllers: [cronjob-controller]}, {name: c, controllers: [namespace-controller]}]}", []string{
			"3:51: leaderElection.groups[0].resourceName: the Lease kube-controller-manager belongs to leaderElection.resourceName: all leases of a process must have different names",
			"3:202: leaderElection.groups[2].name: the Lease kube-controller-manager-c belongs to leaderElection.groups[1].resourceName: all leases of a process must have different names",
		}},
		{"leaderElection: {leaderElect: false, groups: [{name: a, controllers: [job-controller]}], standby: Cold}", []string{
			"3:46: warning: leaderElection.groups: has no effect while leaderElection.leaderElect is false",
			"3:99: warning: leaderElection.standby: has no effect while leaderElection.leaderElect is false",
		}},
		{"leaderElection: {groups: [~, {name: a}, 7]}", []string{
			"3:27: leaderElection.groups[0]: is empty: set a value or remove it",
			"3:30: leaderElection.groups[1].controllers: is missing",
			"3:41: leaderElection.groups[2]: must be a mapping with fields such as name, not the number 7",
		}},
		{"leaderMigration: {enabled: true}\nleaderElection: {leaderElect: false}", []string{
			"3:28: leaderMigration.enabled: needs leaderElection.leaderElect: without leases controllers cannot be handed over",
		}},
		{"leaderMigration: {enabled: true, leaderName: kube-controller-manager, component: '*'}", []string{
			"3:46: leaderMigration.leaderName: the Lease kube-controller-manager belongs to leaderElection.resourceName: all leases of a process must have different names",
			"3:82: leaderMigration.component: must be the name of this component, not \"*\", which stands for any component",
		}},
		{"leaderMigration: {enabled: true, controllerLeaders: [{name: serviceaccount-token-controller, component: a}, {name: route, component: b}, {component: c}, {name: job-controller}]}", []string{
			"3:61: leaderMigration.controllerLeaders[0].name: serviceaccount-token-controller cannot be migrated: the other controllers need the tokens it creates",
			"3:116: leaderMigration.controllerLeaders[1].name: \"route\" is a former name: write \"node-route-controller\"",
			"3:138: leaderMigration.controllerLeaders[2].name: is missing",
			"3:154: leaderMigration.controllerLeaders[3].component: is missing",
		}},
		{"leaderMigration: {enabled: true, controllerLeaders: [{name: job-controller, component: a}, {name: job-controller, component: b}]}\nleaderElection: {groups: [{name: a, controllers: [job-controller]}]}", []string{
			"3:99: leaderMigration.controllerLeaders[1].name: job-controller is in leaderMigration.controllerLeaders[0] already",
			"4:51: leaderElection.groups[0].controllers[0]: job-controller is in leaderMigration.controllerLeaders: it cannot be in a group too",
		}},
		{"leaderMigration: {leaderName: x}", []string{
			"3:31: warning: leaderMigration.leaderName: has no effect while leaderMigration.enabled is false",
		}},
		{"leaderMigration: {enabled: true, controllerLeaders: []}", []string{
			"3:53: warning: leaderMigration.controllerLeaders: is empty: no controller is migrated",
		}},
	})
}
