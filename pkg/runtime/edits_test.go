package runtime_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/pki"
	"kcmd.dev/test/ports"
)

// base is a configuration of a process without an endpoint and without leases, with files that
// every field may name.
func base(t *testing.T, s *leaseServer) (*plan.Config, map[string]string) {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, s.URL)
	ca := pki.CA(t, time.Now())
	files := map[string]string{
		"CA": write("ca.crt", string(ca.Cert)), "CA key": write("ca.key", string(ca.Key)),
		"certificate": write("tls.crt", string(certificate)), "key": write("tls.key", string(key)),
		"kubeconfig": write("kubeconfig", kubeconfig), "other kubeconfig": write("other", kubeconfig),
		"allow list": write("allowlist", "\"a,b\": c\n"), "folder": folder,
		"pod": write("pod", "apiVersion: v1\nkind: Pod\nspec: {volumes: [{name: v}]}\n"),
	}
	cfg := v1beta1.NewDefault()
	cfg.ClientConnection.Kubeconfig = files["kubeconfig"]
	cfg.LeaderElection.LeaderElect = ptr.To(false)
	cfg.LeaderElection.RetryPeriod = &metav1.Duration{Duration: 10 * time.Millisecond}
	cfg.Serving.Port = ptr.To[int32](0)
	cfg.Reload.SettleTime = &metav1.Duration{}
	cfg.ServiceAccounts.PrivateKeyFile = files["key"]
	return cfg, files
}

// leaf is a field that can be changed alone.
type leaf struct {
	keys []string
	kind reflect.Type
}

func (l leaf) String() string { return strings.Join(l.keys, ".") }

// leaves are those of a type. Of the feature gates, they are those that something reads, and
// one that nothing does.
func leaves(t reflect.Type, keys []string) []leaf {
	var all []leaf
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(slices.Clone(keys), name)
		if f.Anonymous && name == "" {
			at = keys
		}
		kind := f.Type
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch {
		case name == "apiVersion" || name == "kind" || name == "-":
		case name == "featureGates":
			for _, gate := range append(slices.DeleteFunc(gates.Read(), gates.AlwaysLocked), gates.AllAlpha, gates.AllBeta, "AnonymousAuthConfigurableEndpoints") {
				all = append(all, leaf{append(slices.Clone(at), gate), reflect.TypeFor[bool]()})
			}
		case kind.Kind() == reflect.Struct && !slices.Contains([]string{"Duration", "TimeOrMetaDuration", "QuantityValue"}, kind.Name()):
			all = append(all, leaves(kind, at)...)
		default:
			all = append(all, leaf{at, kind})
		}
	}
	return all
}

// special are the values of fields that cannot have just any.
func special(files map[string]string) map[string]any {
	group := func(controllers ...string) []any {
		var names []any
		for _, c := range controllers {
			names = append(names, c)
		}
		return []any{map[string]any{"name": "a", "controllers": names}}
	}
	return map[string]any{
		"clientConnection.kubeconfig":                               files["other kubeconfig"],
		"pausedNamespaces":                                          []any{"a"},
		"deletionBreaker.exemptResources":                           []any{map[string]any{"group": "", "resource": "pods"}},
		"deletionBreaker.allowUntil":                                "2026-01-31T15:00:00Z",
		"clientConnection.acceptContentTypes":                       "application/json",
		"cloud.provider":                                            "external",
		"leaderElection.groups":                                     group("job-controller", "ttl-controller"),
		"leaderMigration.controllerLeaders":                         []any{map[string]any{"name": "job-controller", "component": "other"}},
		"serviceAccounts.rootCAFile":                                files["certificate"],
		"serviceAccounts.privateKeyFile":                            nil,
		"metrics.allowListMappingManifest":                          files["allow list"],
		"metrics.allowListMapping":                                  map[string]any{"a,b": "c"},
		"metrics.disabledMetrics":                                   []any{"workqueue_adds_total"},
		"logging.vmodule":                                           []any{map[string]any{"filePattern": "x", "verbosity": 3}},
		"serving.bindAddress":                                       "127.0.0.1",
		"serving.tls.certDirectory":                                 files["folder"],
		"serving.tls.cipherSuites":                                  []any{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"serving.tls.curvePreferences":                              []any{"X25519"},
		"serving.tls.sniCertificates":                               []any{map[string]any{"certFile": files["certificate"], "privateKeyFile": files["key"]}},
		"serving.authentication.clientCAFile":                       files["certificate"],
		"serving.authentication.requestHeader.clientCAFile":         files["certificate"],
		"serving.authentication.kubeconfig":                         files["kubeconfig"],
		"serving.authorization.kubeconfig":                          files["kubeconfig"],
		"serving.authorization.alwaysAllowPaths":                    []any{"/healthz"},
		"networking.clusterCIDRs":                                   []any{"10.0.0.0/16"},
		"networking.serviceCIDRs":                                   []any{"10.1.0.0/16"},
		"controllers.garbage-collector-controller.ignoredResources": []any{map[string]any{"group": "", "resource": "pods"}},
		"controllers.persistentvolume-binder-controller.recycler.nfs.podTemplateFile":      files["pod"],
		"controllers.persistentvolume-binder-controller.recycler.hostPath.podTemplateFile": files["pod"],
	}
}

// together are fields that are valid only with another one.
func together(path string, files map[string]string) map[string]any {
	if block, _, ok := strings.Cut(path, ".privateKeyFile"); strings.HasSuffix(path, ".certFile") || ok && block != "serviceAccounts" {
		block = path[:strings.LastIndex(path, ".")]
		if strings.Contains(block, "signing") {
			return map[string]any{block + ".certFile": files["CA"], block + ".privateKeyFile": files["CA key"]}
		}
		return map[string]any{block + ".certFile": files["certificate"], block + ".privateKeyFile": files["key"]}
	}
	switch path {
	case "logging.options.text.splitStream", "logging.options.json.splitStream":
		return map[string]any{path: true, "featureGates.LoggingAlphaOptions": true}
	case "logging.options.text.infoBufferSize", "logging.options.json.infoBufferSize":
		return map[string]any{path: "7Mi", "featureGates.LoggingAlphaOptions": true}
	case "controllers.node-ipam-controller.allocateNodeCIDRs":
		return map[string]any{path: true, "networking.clusterCIDRs": []any{"10.0.0.0/16"}}
	case "clientConnection.burst":
		return map[string]any{"clientConnection.qps": 5, path: 7}
	case "serving.authentication.requestHeader.uidHeaders":
		return map[string]any{path: []any{"X-Remote-Uid"}, "featureGates.RemoteRequestHeaderUID": true}
	case "leaderMigration.enabled":
		return map[string]any{path: true, "leaderElection.leaderElect": true}
	}
	return nil
}

// candidates are values that a field may have, of which one is not its own.
func (l leaf) candidates(now any, known map[string]rules.Rule) []any {
	var out []any
	for _, word := range known[l.String()].Enum {
		out = append(out, word)
	}
	switch {
	case strings.Contains(l.kind.Name(), "Duration"):
		return append(out, "7m", "17s", "3s", "2s", "48h", "9000h")
	case l.kind.Name() == "QuantityValue":
		return append(out, "7Mi")
	case l.kind.Kind() == reflect.Bool:
		return append(out, now != true, now == false)
	case l.kind.Kind() == reflect.String:
		return append(out, "other", "https://127.0.0.1:1", "a.b", "1.35")
	case l.kind.Kind() == reflect.Slice:
		return append(out, []any{"other"})
	}
	n, _ := now.(float64)
	return append(out, n+1, n+10, n-1, 7, 0.5)
}

// edited is a configuration with one field changed to a value that is valid; nil if none is
// known.
func (l leaf) edited(t *testing.T, cfg *plan.Config, files map[string]string, known map[string]rules.Rule) *plan.Config {
	t.Helper()
	object := diff.ObjectOf(cfg)
	if fields := together(l.String(), files); fields != nil {
		for path, value := range fields {
			object = object.With(strings.Split(path, "."), value)
		}
		return valid(t, cfg, object)
	}
	values := l.candidates(at(object, l.keys), known)
	if value, ok := special(files)[l.String()]; ok {
		values = []any{value}
	}
	for _, value := range values {
		if next := valid(t, cfg, object.With(l.keys, value)); next != nil {
			return next
		}
	}
	return nil
}

func at(object map[string]any, keys []string) any {
	inner, _ := object[keys[0]].(map[string]any)
	if len(keys) == 1 {
		return object[keys[0]]
	}
	return at(inner, keys[1:])
}

// valid is the configuration that an object holds, nil if it is not valid or not another one.
func valid(t *testing.T, old *plan.Config, object diff.Object) *plan.Config {
	t.Helper()
	next, err := object.Config()
	if err != nil {
		return nil
	}
	v1beta1.SetDefaults(next)
	data, err := json.Marshal(next) // which is YAML, too
	if err != nil {
		t.Fatal(err)
	}
	document, err := config.Load("f.yaml", data)
	if err != nil || document.CheckFiles().HasErrors() || len(diff.Between(old, document.Config)) == 0 {
		return nil
	}
	return document.Config
}

// Whatever field is edited, what the Plan says is what check-config prints and what is done.
func TestEveryFieldDoesWhatItsPlanSays(t *testing.T) {
	first, files := base(t, newLeaseServer(t))
	cfg := first
	w, known := begin(t, cfg), rules.ByPath()
	for _, l := range leaves(reflect.TypeFor[plan.Config](), nil) {
		if slices.Contains([]string{"clientConnection.server", "serving.port"}, l.String()) {
			continue // a server that does not answer is rejected; the port is in the rows of the next test
		}
		if name, isPause := strings.CutSuffix(l.String(), ".pausedNamespaces"); isPause && registry.ClusterScoped(strings.TrimPrefix(name, "controllers.")) {
			continue // no value is valid
		}
		next := l.edited(t, cfg, files, known)
		if next == nil && cfg != first { // what has no effect can still make others invalid
			w.edit(t, first)
			cfg = first
			next = l.edited(t, cfg, files, known)
		}
		if next == nil {
			t.Errorf("no valid value is known for %s", l)
			continue
		}
		t.Run(l.String(), func(t *testing.T) {
			if p := w.edit(t, next); len(p.NoEffect) == 1 && p.Empty() {
				cfg = next // to go back would have no effect, either
				return
			}
			w.edit(t, cfg)
		})
	}
	t.Logf("%d edits", w.edits)
}

// changed is a configuration after changes of fields, by their paths.
func changed(t *testing.T, cfg *plan.Config, fields map[string]any) *plan.Config {
	t.Helper()
	object := diff.ObjectOf(cfg)
	for path, value := range fields {
		object = object.With(strings.Split(path, "."), value)
	}
	next := valid(t, cfg, object)
	if next == nil {
		t.Fatalf("%v is not valid, or no change", fields)
	}
	return next
}

type fields = map[string]any

// group is leaderElection.groups with one group.
func group(lease string, controllers ...any) []any {
	return []any{map[string]any{"name": "g", "resourceName": lease, "controllers": controllers}}
}

// What one field does depends on others. Each row starts with some fields set, then sets
// others one by one, and goes back.
func TestFieldsThatDependOnEachOtherDoWhatTheirPlanSays(t *testing.T) {
	const job, cronjob, deployment = "job-controller", "cronjob-controller", "deployment-controller"
	server := newLeaseServer(t)
	cfg, files := base(t, server)
	lead := fields{"leaderElection.leaderElect": true}
	port := ports.FreeFor(t)
	for name, row := range map[string]struct {
		first fields
		then  []fields
	}{
		"without leader election, its settings": {fields{"leaderElection.identity": "a"}, []fields{
			{"leaderElection.identity": "b"}, {"leaderElection.resourceName": "b"}, {"leaderElection.resourceNamespace": "b"},
			{"leaderElection.groups": group("x", job)}, {"leaderElection.standby": "Cold"}, {"leaderElection.leaderElect": true}}},
		"leader election and its settings": {lead, []fields{
			{"leaderElection.identity": "b"}, {"leaderElection.resourceName": "b"}, {"leaderElection.leaseDuration": "20s"},
			{"leaderElection.leaderElect": false, "leaderElection.identity": "c"}}},
		"leader election and groups": {lead, []fields{
			{"leaderElection.groups": group("", job)}, {"leaderElection.groups": group("x", job)}, {"leaderElection.groups": group("x", job, cronjob)},
			{"leaderElection.resourceName": "b"}, {"leaderElection.leaderElect": false}}},
		"a group of controllers that are off": {fields{"leaderElection.leaderElect": true, "controllers.job-controller.enabled": false}, []fields{
			{"leaderElection.groups": group("x", job)}, {"leaderElection.groups": group("y", job)}, {"leaderElection.groups": group("y", job, "ttl-controller")},
			{"controllers.job-controller.enabled": true}}},
		"migration and groups": {fields{"leaderElection.leaderElect": true, "leaderElection.groups": group("x", job)}, []fields{
			{"leaderMigration.enabled": true, "leaderMigration.controllerLeaders": []any{map[string]any{"name": deployment, "component": "*"}}},
			{"leaderMigration.leaderName": "other"}, {"controllers.deployment-controller.enabled": false},
			{"leaderMigration.controllerLeaders": []any{map[string]any{"name": cronjob, "component": "elsewhere"}}}, {"leaderMigration.component": "elsewhere"}}},
		"the default for all and one line": {fields{"logging.verbosity": 1}, []fields{
			{"controllerDefaults.enabled": false, "controllers.job-controller.enabled": true}, {"controllers.job-controller.concurrentSyncs": 7},
			{"controllers.deployment-controller.concurrentSyncs": 7}, {"controllerDefaults.enabled": true, "controllers.cronjob-controller.enabled": false}}},
		"credentials and another kubeconfig": {lead, []fields{
			{"clientConnection.useServiceAccountCredentials": true}, {"clientConnection.kubeconfig": files["other kubeconfig"]},
			{"clientConnection.useServiceAccountCredentials": false, "clientConnection.contentType": "application/json"}}},
		"no endpoint and its settings": {fields{"serving.bindAddress": "127.0.0.1"}, []fields{
			{"serving.tls.minVersion": "VersionTLS13"}, {"serving.tls.certFile": files["certificate"], "serving.tls.privateKeyFile": files["key"]},
			{"serving.profiling": false}, {"metrics.disabledMetrics": []any{"workqueue_adds_total"}}}},
		"an endpoint and its settings": {fields{"serving.bindAddress": "127.0.0.1", "serving.port": port, "serving.authentication.skipLookup": true}, []fields{
			{"serving.tls.minVersion": "VersionTLS13"}, {"serving.tls.cipherSuites": []any{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}},
			{"serving.profiling": false}, {"serving.contentionProfiling": true}, {"serving.http2.enabled": false}, {"serving.http2.maxStreamsPerConnection": 7},
			{"metrics.disabledMetrics": []any{"workqueue_adds_total"}}, {"serving.port": 0}}},
		"gates and their stages": {fields{"featureGates.HPAConfigurableTolerance": false}, []fields{
			{"featureGates.AllBeta": false}, {"featureGates.StaleControllerConsistencyJob": true, "featureGates.AtomicFIFO": true},
			{"featureGates.AllBeta": true, "featureGates.AllAlpha": true}, {"featureGates.HPAScaleToZero": false}}},
		"gates and the emulated version": {fields{"featureGates.PodDeletionCost": false}, []fields{
			{"emulatedVersion": "1.34"}, {"minCompatibilityVersion": "1.33"}, {"emulatedVersion": "1.36"}}},
		"paused controllers": {fields{"controllers.job-controller.paused": true}, []fields{
			{"controllers.job-controller.concurrentSyncs": 7}, {"controllers.job-controller.enabled": false},
			{"controllers.job-controller.enabled": true, "controllers.job-controller.resyncPeriod": "1h"}, {"controllers.job-controller.paused": false, "controllers.deployment-controller.paused": true},
			{"clientConnection.contentType": "application/json"}, {"leaderElection.leaderElect": true}}},
		"paused namespaces of all and of one": {fields{"pausedNamespaces": []any{"a"}}, []fields{
			{"controllers.job-controller.pausedNamespaces": []any{"a", "b"}}, {"pausedNamespaces": []any{"b"}},
			{"controllers.job-controller.enabled": false}, {"controllers.job-controller.pausedNamespaces": nil}}},
		"the breaker for deletions": {fields{"deletionBreaker.mode": "Stop"}, []fields{
			{"deletionBreaker.share": 7}, {"deletionBreaker.allowUntil": "2026-01-31T15:00:00Z"}, {"deletionBreaker.mode": "Warn"},
			{"deletionBreaker.mode": "Disabled"}, {"deletionBreaker.window": "7m"}}},
		"resync of all and of one": {fields{"controllers.job-controller.resyncPeriod": "12h"}, []fields{
			{"resync.minPeriod": "1h"}, {"controllers.deployment-controller.resyncPeriod": "1h"}, {"controllers.job-controller.enabled": false},
			{"controllers.job-controller.resyncPeriod": "2h"}}},
	} {
		t.Run(name, func(t *testing.T) {
			first := changed(t, cfg, row.first)
			w := begin(t, first)
			for _, edit := range row.then {
				w.edit(t, changed(t, w.inForce, edit))
			}
			w.edit(t, first)
		})
	}
}
