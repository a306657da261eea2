package config

import (
	"slices"
	"strings"
	"testing"
)

func TestLoadUsable(t *testing.T) {
	const head = "apiVersion: config.kcmd.dev/v1beta1\nkind: KubeControllerManagerConfiguration\n"
	const upstream = "apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1\nkind: KubeControllerManagerConfiguration\n"
	tests := []struct {
		name, file string
		leftOut    []string
		usable     bool
	}{
		{"valid", head, nil, true},
		{"an unknown field", head + "logging: {verbosity: 3, x: 1}\n", []string{"logging.x"}, true},
		{"a field in two letter cases", head + "logging: {verbosity: 3}\nLogging: {verbosity: 4}\n", []string{"Logging"}, true},
		{"a wrong type", head + "logging: {verbosity: 3}\nresync: [1]\n", []string{"resync"}, true},
		{"a wrong key", head + "logging: {verbosity: 3}\n\"a.b c\": 1\n", []string{`["a.b c"]`}, true},
		{"a duplicate key", head + "logging: {verbosity: 3, verbosity: 4}\n", []string{"logging.verbosity"}, true},
		{"two fields that do not fit", head + "logging: {verbosity: 3}\nleaderElection: {leaseDuration: 5s}\n", []string{"leaderElection.leaseDuration"}, true},
		{
			"an element without a required field", head + "logging: {verbosity: 3}\nleaderElection: {groups: [{name: a}, {name: b, controllers: [job-controller]}]}\n",
			[]string{"leaderElection.groups[0]"}, true,
		},
		{
			"elements of a list", head + "logging: {verbosity: 3}\nmetrics: {disabledMetrics: ['a b', 'c d', good]}\n",
			[]string{"metrics.disabledMetrics[0]", "metrics.disabledMetrics[1]"}, true,
		},
		{
			"an element, and what is in it", head + "logging: {verbosity: 3}\nmetrics: {disabledMetrics: [good]}\n" +
				"leaderElection: {groups: [{controllers: [x]}, {name: b, controllers: [job-controller]}]}\n",
			[]string{"leaderElection.groups[0]"}, true,
		},
		{"an alias that is left out", head + "logging: {verbosity: 3}\nresync: &x {minPeriod: 1ms}\nreload: *x\n", []string{"reload.minPeriod", "resync.minPeriod"}, true},
		{"upstream's version", upstream + "nodeIPAMController: {x: 1}\ngeneric: {leaderElection: {leaseDuration: 30s}}\n", []string{"NodeIPAMController.x"}, true},
		{"another version", "apiVersion: config.kcmd.dev/v2\nkind: KubeControllerManagerConfiguration\n", nil, false},
		{"another kind", "apiVersion: v1\nkind: Pod\n", nil, false},
		{"no YAML", head + "<<<<<<< HEAD\n", nil, false},
		{"no text", "\xff\xfe", nil, false},
		{"no mapping", "[]", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			document, leftOut := LoadUsable("c.yaml", []byte(test.file))
			if (document != nil) != test.usable || !slices.Equal(leftOut, test.leftOut) {
				t.Fatalf("the document is %v without %q, want it to be usable (%t) without %q", document, leftOut, test.usable, test.leftOut)
			}
			if test.usable && test.name != "valid" && test.name != "upstream's version" && document.Config.Logging.Verbosity != 3 {
				t.Errorf("a field that can be used was left out: %+v", document.Config.Logging)
			}
			if test.usable && strings.Contains(test.file, "good") && !slices.Equal(document.Config.Metrics.DisabledMetrics, []string{"good"}) {
				t.Errorf("elements that can be used are %q, want the good one", document.Config.Metrics.DisabledMetrics)
			}
			if test.usable && strings.Contains(test.file, "name: b") && len(document.Config.LeaderElection.Groups) != 1 {
				t.Errorf("the groups are %+v, want the one that can be used", document.Config.LeaderElection.Groups)
			}
		})
	}
}
