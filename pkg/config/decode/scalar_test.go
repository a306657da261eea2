package decode

import (
	"reflect"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
)

func TestNumbersThatAreReadDifferently(t *testing.T) {
	const workers, port = "controllers: {job-controller: {concurrentSyncs: ", "serving: {port: "
	tests := []struct{ file, want string }{
		{workers + "010}}", "must not begin with 0: 010 is octal in YAML 1.1 and decimal in YAML 1.2, did you mean 10?"},
		{workers + "08}}", "must not begin with 0: 08 is octal in YAML 1.1 and decimal in YAML 1.2, did you mean 8?"},
		{workers + "-0_10}}", "must not begin with 0: -0_10 is octal in YAML 1.1 and decimal in YAML 1.2, did you mean -10?"},
		{port + "00}", "must not begin with 0: 00 is octal in YAML 1.1 and decimal in YAML 1.2, did you mean 0?"},
		{"clientConnection: {qps: 0100}", "must not begin with 0: 0100 is octal in YAML 1.1 and decimal in YAML 1.2, did you mean 100?"},
		{"logging: {options: {text: {infoBufferSize: 0100}}}", "must not begin with 0: 0100 is octal in YAML 1.1 and decimal in YAML 1.2, did you mean 100?"},
		{workers + "18446744073709551616}}", "must be 1 to 1000, not 18446744073709551616"},
		{workers + "-99999999999999999999}}", "must be 1 to 1000, not -99999999999999999999"},
		{workers + "1e30}}", "must be 1 to 1000, not 1e30"},
		{port + "0xfffffffffffffffffff}", "must be 0 to 65535, not 0xfffffffffffffffffff"},
		{port + "1.5}", "must be a whole number, not the number 1.5"},
		{port + "'18446744073709551616'}", `must be a whole number, not the string "18446744073709551616"`},
		{port + ".inf}", "must be a whole number, not the number .inf"},
		{port + "\"{{ .port }}\"}", `"{{ .port }}" is part of a template that was not rendered: use the output of the template`},
		{"leaderElection: {leaseDuration: '{{x}}'}", `"{{x}}" is part of a template that was not rendered: use the output of the template`},
		{"leaderElection: {identity: 'a-{{x}}'}", `"a-{{x}}" is part of a template that was not rendered: use the output of the template`},
		{"resync: {minPeriod: 30}", "must be a duration such as 500ms, 10s, 5m or 1h30m, not the number 30: did you mean 30s?"},
		{"resync: {minPeriod: 0x10}", "must be a duration such as 500ms, 10s, 5m or 1h30m, not the number 0x10"},
		{"resync: {minPeriod: 43200000000000}", "must be a duration such as 500ms, 10s, 5m or 1h30m, not the number 43200000000000"},
		{"resync: {minPeriod: '30'}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "30": did you mean 30s?`},
		{"resync: {minPeriod: 7d}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "7d": did you mean 168h?`},
		{"resync: {minPeriod: 1h30}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "1h30": did you mean 1h30m?`},
		{"resync: {minPeriod: 1h30m10}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "1h30m10": did you mean 1h30m10s?`},
		{"resync: {minPeriod: 5m30}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "5m30": did you mean 5m30s?`},
		{"resync: {minPeriod: 5sec}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "5sec": did you mean 5s?`},
		{"resync: {minPeriod: 10 minutes}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "10 minutes": did you mean 10m?`},
		{"resync: {minPeriod: 1 Hour}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "1 Hour": did you mean 1h?`},
		{"resync: {minPeriod: 2hrs}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "2hrs": did you mean 2h?`},
		{"resync: {minPeriod: 5 s}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "5 s": did you mean 5s?`},
		{"resync: {minPeriod: 5M}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "5M"`},
		{"deletionBreaker: {mode: off}", "must be one of Disabled, Warn, Stop, not the boolean off"},
		{"emulatedVersion: 1.30", "must be one of 1.33, 1.34, 1.35, 1.36, not the number 1.30"},
		{"emulatedVersion: 1.36", "must be a string, not the number 1.36: write \"1.36\""},
		{"resync: {minPeriod: 9999999h}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "9999999h": the longest one is 2562047h`},
		{"resync: {minPeriod: soon}", `must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "soon"`},
		{port + "0x1f}", ""}, {port + "0o17}", ""}, {port + "0}", ""}, {"clientConnection: {qps: 0.5}", ""}, {"leaderElection: {identity: '010'}", ""},
	}
	for _, test := range tests {
		r := &problem.Report{}
		root := tree.Read([]byte(test.file), r)
		if root == nil {
			t.Fatalf("%s: %v", test.file, r.Errors())
		}
		Shape(root, reflect.TypeFor[v1beta1.KubeControllerManagerConfiguration](), rules.ByPath(), r)
		messages := make([]string, 0, 1)
		for _, p := range r.Errors() {
			messages = append(messages, p.Message)
		}
		if got := strings.Join(messages, "; "); got != test.want {
			t.Errorf("%s: %q, want %q", test.file, got, test.want)
		}
	}
}
