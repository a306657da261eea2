package validation_test

import "testing"

func TestValidateDeletionBreaker(t *testing.T) {
	checkProblems(t, []problemTest{
		{"deletionBreaker: {mode: Stop, window: 10m, share: 5, minimum: 0, exemptResources: [{group: a.b, resource: c}], allowUntil: 2026-01-31T15:00:00+01:00}", nil},
		{"deletionBreaker: {mode: Warn, allowUntil: ''}", nil},
		{"deletionBreaker: {mode: stop, window: 1s, share: 101, minimum: -1, exemptResources: [{group: a}], allowUntil: tomorrow}", []string{
			"3:25: deletionBreaker.mode: must be one of Disabled, Warn, Stop, not \"stop\", did you mean \"Stop\"?",
			"3:39: deletionBreaker.window: must be 10s to 24h, not 1s",
			"3:50: deletionBreaker.share: must be 1 to 100, not 101",
			"3:64: deletionBreaker.minimum: must be 0 to 1000000, not -1",
			"3:86: deletionBreaker.exemptResources[0].resource: is missing",
			"3:111: deletionBreaker.allowUntil: must be a time such as 2026-01-31T15:00:00Z, not \"tomorrow\"",
		}},
		{"deletionBreaker: {mode: Stop, allowUntil: 2026-02-31T15:00:00Z}", []string{
			"3:43: deletionBreaker.allowUntil: must be a time that exists, not \"2026-02-31T15:00:00Z\"",
		}},
		{"deletionBreaker: {mode: Stop, exemptResources: [{group: /v1, resource: a}, {group: batch/v1, resource: b}, {group: '', resource: c}]}", []string{
			"3:57: deletionBreaker.exemptResources[0].group: must be an API group without a version, such as apps or events.k8s.io, or empty, not \"/v1\"",
			"3:84: deletionBreaker.exemptResources[1].group: must be an API group without a version, such as apps or events.k8s.io, or empty, not \"batch/v1\", did you mean \"batch\"?",
		}},
		{"deletionBreaker: {share: 5}", []string{
			"3:26: warning: deletionBreaker.share: has no effect while deletionBreaker.mode is Disabled",
		}},
		{"deletionBreaker: {mode: Stop}\ncontrollers: {garbage-collector-controller: {enabled: false}}", []string{
			"3:25: warning: deletionBreaker.mode: counts only the kinds that other controllers cache: garbage-collector-controller, which caches nearly all, is disabled",
		}},
	})
}
