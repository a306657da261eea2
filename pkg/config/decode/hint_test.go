package decode

import (
	"reflect"
	"testing"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/tree"
	"kcmd.dev/pkg/config/v1beta1"
)

func TestAFieldAtTheWrongPlaceIsFound(t *testing.T) {
	for text, want := range map[string]string{
		"leaseDuration: 15s":                               "leaseDuration: unknown field, did you mean leaderElection.leaseDuration?",
		"serving: {\"\": a}":                               "serving[\"\"]: unknown field, allowed: authentication, authorization, bindAddress, contentionProfiling, http2, permitAddressSharing, permitPortSharing, port, profiling, tls",
		"serving: {certFile: a}":                           "serving.certFile: unknown field, did you mean serving.tls.certFile or serving.tls.sniCertificates[].certFile?",
		"concurrent-deployment-syncs: 5":                   "concurrent-deployment-syncs: unknown field, did you mean controllers.deployment-controller.concurrentSyncs?",
		"--concurrent_gc-syncs: 5":                         "--concurrent_gc-syncs: unknown field, did you mean controllers.garbage-collector-controller.concurrentSyncs?",
		"controllers: {'*': {enabled: false}}":             `controllers["*"]: unknown controller, did you mean controllerDefaults, which is for all of them?`,
		"controllers: {job-controller: {concurency: 1}}":   "controllers.job-controller.concurency: unknown field, allowed: concurrentSyncs, enabled, paused, pausedNamespaces, resyncPeriod",
		"controllers: {job-controller: {leaderElect: on}}": "controllers.job-controller.leaderElect: unknown field, did you mean leaderElection.leaderElect?",
	} {
		r := &problem.Report{}
		Shape(tree.Read([]byte(text), r), reflect.TypeFor[v1beta1.KubeControllerManagerConfiguration](), rules.ByPath(), r)
		if got := r.Errors(); len(got) != 1 || (problem.Error{Path: got[0].Path, Message: got[0].Message}).Error() != want {
			t.Errorf("%s:\n%v\nwant\n%s", text, got, want)
		}
	}
}
