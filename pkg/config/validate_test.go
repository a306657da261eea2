package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/config/v1beta1"
)

// Each text follows the header, so it starts in line 3. Problems are without
// the name of the file.
func TestValidation(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"nothing wrong", "", ""},

		{"content type", "clientConnection: {contentType: application/jsn}",
			`3:33: clientConnection.contentType: must be one of application/vnd.kubernetes.protobuf, application/json, not "application/jsn", did you mean "application/json"?`},
		{"accept content types", "clientConnection: {acceptContentTypes: 'application/json,json'}",
			`3:40: clientConnection.acceptContentTypes: must be media types separated by commas: "json" is none`},
		{"negative qps", "clientConnection: {qps: -1}", "3:25: clientConnection.qps: must be 0 to 1000000, not -1"},
		{"infinite qps", "clientConnection: {qps: .inf}", "3:25: clientConnection.qps: must be a finite number, not the number .inf"},
		{"word as qps", "clientConnection: {qps: many}", `3:25: clientConnection.qps: must be a number, not the string "many"`},
		{"burst without qps", "clientConnection: {burst: 5}",
			"3:27: clientConnection.burst: must be 0 without qps, not 5: set clientConnection.qps too, or remove burst"},
		{"burst with a bad qps", "clientConnection: {burst: 5, qps: x}", `3:35: clientConnection.qps: must be a number, not the string "x"`},
		{"huge burst", "clientConnection: {qps: 1, burst: 99999999999}", "3:35: clientConnection.burst: must be 0 to 1000000, not 99999999999"},
		{"quoted boolean", "clientConnection: {useServiceAccountCredentials: 'true'}",
			`3:50: clientConnection.useServiceAccountCredentials: must be true or false, not the string "true"`},
		{"boolean as string", "clientConnection: {kubeconfig: no}", `3:32: clientConnection.kubeconfig: must be a string, not the boolean no: write "no"`},
		{"list as string", "clientConnection: {kubeconfig: [a]}", "3:32: clientConnection.kubeconfig: must be a string, not a list"},

		{"lease below a second", "leaderElection: {leaseDuration: 999ms, renewDeadline: 500ms, retryPeriod: 10ms}",
			"3:33: leaderElection.leaseDuration: must be 1s to 1h, not 999ms"},
		{"zero lease", "leaderElection: {leaseDuration: 0s}", "3:33: leaderElection.leaseDuration: must be 1s to 1h, not 0s"},
		{"negative renew deadline", "leaderElection: {renewDeadline: -1s}", "3:33: leaderElection.renewDeadline: must be 10ms to 1h, not -1s"},
		{"zero retry period", "leaderElection: {retryPeriod: 0s}", "3:31: leaderElection.retryPeriod: must be 10ms to 1h, not 0s"},
		{"lease not above deadline", "leaderElection: {leaseDuration: 10s}",
			"3:33: leaderElection.leaseDuration: leaseDuration (10s) must be more than renewDeadline (10s)"},
		{"deadline above default lease", "leaderElection: {renewDeadline: 1m}",
			"3:33: leaderElection.renewDeadline: leaseDuration (15s) must be more than renewDeadline (1m)"},
		{"deadline not above 1.2 retries", "leaderElection: {renewDeadline: 6s, retryPeriod: 5s}",
			"3:33: leaderElection.renewDeadline: renewDeadline (6s) must be more than 1.2 × retryPeriod (5s)"},
		{"retry against default deadline", "leaderElection: {retryPeriod: 9s}",
			"3:31: leaderElection.retryPeriod: renewDeadline (10s) must be more than 1.2 × retryPeriod (9s)"},
		{"fraction of a second", "leaderElection: {leaseDuration: 15500ms}",
			"3:33: warning: leaderElection.leaseDuration: other processes see whole seconds only: they wait 15s"},
		{"lease name", "leaderElection: {resourceName: Main}",
			`3:32: leaderElection.resourceName: must be at most 253 lower-case letters, digits, '-' and '.', starting and ending with a letter or digit, not "Main"`},
		{"lease namespace", "leaderElection: {resourceNamespace: a.b}",
			`3:37: leaderElection.resourceNamespace: must be at most 63 lower-case letters, digits and '-', starting and ending with a letter or digit, not "a.b"`},
		{"identity", "leaderElection: {identity: a b}",
			`3:28: leaderElection.identity: must be at most 253 characters other than white space, not "a b"`},
		{"timings without election", "leaderElection: {leaderElect: false, leaseDuration: 20s, renewDeadline: 10s}",
			"3:53: warning: leaderElection.leaseDuration: has no effect while leaderElection.leaderElect is false"},

		{"resync below a second", "resync: {minPeriod: 10ms}", "3:21: resync.minPeriod: must be 0s (never), or 1s or more, not 10ms"},
		{"resync never", "resync: {minPeriod: 0s}", ""},
		{"not a duration", "resync: {minPeriod: 12 hours}",
			`3:21: resync.minPeriod: must be a duration such as 500ms, 10s, 5m or 1h30m, not the string "12 hours"`},
		{"duration without unit", "resync: {minPeriod: 60}",
			"3:21: resync.minPeriod: must be a duration such as 500ms, 10s, 5m or 1h30m, not the number 60: did you mean 60s?"},
		{"settle time", "reload: {settleTime: 11s}", "3:22: reload.settleTime: must be 0s to 10s, where 0s means at once, not 11s"},
		{"poll interval", "reload: {pollInterval: 0s}", "3:24: reload.pollInterval: must be 1s to 1h, not 0s"},
		{"drain timeout", "reload: {drainTimeout: 1h}", "3:24: reload.drainTimeout: must be 0s to 10m, where 0s means do not wait, not 1h"},

		{"address", "serving: {bindAddress: localhost}",
			`3:24: serving.bindAddress: must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, not "localhost"`},
		{"address with zone", "serving: {bindAddress: 'fe80::1%eth0'}",
			`3:24: serving.bindAddress: must be an IP address such as 0.0.0.0, 127.0.0.1 or ::, not "fe80::1%eth0"`},
		{"port", "serving: {port: 65536}", "3:17: serving.port: must be 0 to 65535, not 65536"},
		{"serving off", "serving: {port: 0, profiling: false, bindAddress: 0.0.0.0}",
			"3:31: warning: serving.profiling: has no effect while serving.port is 0"},
		{"certificate without key", "serving: {tls: {certFile: a}}", "3:27: serving.tls.certFile: needs serving.tls.privateKeyFile"},
		{"key without certificate", "serving: {tls: {privateKeyFile: a}}", "3:33: serving.tls.privateKeyFile: needs serving.tls.certFile"},
		{"certificate and directory", "serving: {tls: {certFile: a, privateKeyFile: b, certDirectory: c}}",
			"3:64: warning: serving.tls.certDirectory: has no effect while serving.tls.certFile is set"},
		{"TLS version", "serving: {tls: {minVersion: VersionTLS14}}",
			`3:29: serving.tls.minVersion: must be one of VersionTLS10, VersionTLS11, VersionTLS12, VersionTLS13, not "VersionTLS14", did you mean "VersionTLS10"?`},
		{"old TLS version", "serving: {tls: {minVersion: VersionTLS11}}",
			"3:29: warning: serving.tls.minVersion: VersionTLS11 is insecure: use VersionTLS12 or VersionTLS13"},
		{"cipher suite", "serving: {tls: {cipherSuites: [TLS_AES_128_GCM_SHA25]}}",
			`3:32: serving.tls.cipherSuites[0]: unknown cipher suite "TLS_AES_128_GCM_SHA25", did you mean "TLS_AES_128_GCM_SHA256"?`},
		{"insecure cipher suite", "serving: {tls: {cipherSuites: [TLS_RSA_WITH_RC4_128_SHA]}}",
			"3:32: warning: serving.tls.cipherSuites[0]: TLS_RSA_WITH_RC4_128_SHA is insecure"},
		{"cipher suites of TLS 1.3", "serving: {tls: {minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}}",
			"3:57: warning: serving.tls.cipherSuites: has no effect while serving.tls.minVersion is VersionTLS13"},
		{"number in a list", "serving: {tls: {cipherSuites: [1]}}", `3:32: serving.tls.cipherSuites[0]: must be a string, not the number 1: write "1"`},
		{"word as list", "serving: {tls: {cipherSuites: TLS_AES_128_GCM_SHA256}}",
			`3:31: serving.tls.cipherSuites: must be a list, not the string "TLS_AES_128_GCM_SHA256"`},

		{"cache TTL", "serving: {authentication: {cacheTTL: 2h}}",
			"3:38: serving.authentication.cacheTTL: must be 0s to 1h, where 0s means not at all, not 2h"},
		{"skip and tolerate", "serving: {authentication: {skipLookup: true, tolerateLookupFailure: true}}",
			"3:69: warning: serving.authentication.tolerateLookupFailure: has no effect: a failed lookup is always tolerated, and repeated until it succeeds"},
		{"blank header", "serving: {authentication: {requestHeader: {clientCAFile: a, usernameHeaders: [X-Remote-User, ' ']}}}",
			"3:94: serving.authentication.requestHeader.usernameHeaders[1]: must not be blank"},
		{"no standard header", "serving: {authentication: {requestHeader: {clientCAFile: a, groupHeaders: [X-Group]}}}",
			"3:75: warning: serving.authentication.requestHeader.groupHeaders: the standard X-Remote-Group is missing: API aggregation does not work without"},
		{"no standard uid header", "serving: {authentication: {requestHeader: {clientCAFile: a, uidHeaders: [X-Uid]}}}",
			"3:73: serving.authentication.requestHeader.uidHeaders: must contain the standard X-Remote-Uid: API aggregation does not work without"},
		{"headers without CA", "serving: {authentication: {requestHeader: {allowedNames: [proxy]}}}",
			"3:58: warning: serving.authentication.requestHeader.allowedNames: has no effect while requestHeader.clientCAFile is not set: the cluster's own settings are read"},
		{"star in a path", "serving: {authorization: {alwaysAllowPaths: [/a*/b, /c*]}}",
			`3:46: serving.authorization.alwaysAllowPaths[0]: a * is allowed at the end only, not in "/a*/b"`},
		{"blank path", "serving: {authorization: {alwaysAllowPaths: ['']}}", "3:46: serving.authorization.alwaysAllowPaths[0]: must not be blank"},
		{"authorized TTL", "serving: {authorization: {authorizedTTL: -1s}}",
			"3:42: serving.authorization.authorizedTTL: must be 0s to 1h, where 0s means not at all, not -1s"},
		{"unauthorized TTL", "serving: {authorization: {unauthorizedTTL: 61m}}",
			"3:44: serving.authorization.unauthorizedTTL: must be 0s to 1h, where 0s means not at all, not 1h1m"},

		{"log format", "logging: {format: xml}", `3:19: logging.format: must be one of text, json, not "xml"`},
		{"log format of a disabled gate", "logging: {format: json}\nfeatureGates: {LoggingBetaOptions: false}",
			"3:19: logging.format: is not allowed: Log format json is disabled, see LoggingBetaOptions feature"},
		{"log verbosity", "logging: {verbosity: -1}", "3:22: logging.verbosity: must be 0 to 2147483647, not -1"},
		{"flush frequency", "logging: {flushFrequency: 0s}", "3:27: logging.flushFrequency: must be 1ms or more, not 0s"},
		{"flush frequency in nanoseconds", "logging: {flushFrequency: 1000000000}",
			"3:27: warning: logging.flushFrequency: a number is read as nanoseconds: write 1s"},
		{"vmodule in JSON", "logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}",
			"3:34: logging.vmodule: is not allowed: Only supported for text log format"},
		{"vmodule without pattern", "logging: {vmodule: [{verbosity: 1}]}", "3:21: logging.vmodule[0]: File pattern must not be empty"},
		{"option of a gate that is off", "logging: {options: {text: {splitStream: true}}}",
			"3:41: logging.options.text.splitStream: is not allowed: Feature LoggingAlphaOptions is disabled"},
		{"option of the other format", "logging: {options: {json: {splitStream: true}}}\nfeatureGates: {LoggingAlphaOptions: true}",
			"3:27: warning: logging.options.json: has no effect while logging.format is text"},
		{"buffer without split stream", "logging: {options: {text: {infoBufferSize: 1Ki}}}\nfeatureGates: {LoggingAlphaOptions: true}",
			"3:44: warning: logging.options.text.infoBufferSize: has no effect without splitStream"},
		{"negative buffer", "logging: {options: {text: {infoBufferSize: -1, splitStream: true}}}\nfeatureGates: {LoggingAlphaOptions: true}",
			"3:44: logging.options.text.infoBufferSize: must be 0 or more"},
		{"not a quantity", "logging: {options: {text: {infoBufferSize: lots}}}",
			`3:44: logging.options.text.infoBufferSize: must be a quantity such as 0, 512Ki or 10Mi, not the string "lots"`},

		{"gate without the gate it needs", "featureGates: {WorkloadWithJob: true}",
			"3:16: featureGates.WorkloadWithJob: depends on the gate GenericWorkload, which is disabled: enable it too"},
		{"unknown gate", "featureGates: {Foo: true}",
			"3:16: featureGates.Foo: unknown feature gate: Kubernetes 1.36 has no gate of this or a similar name"},
		{"near gate", "featureGates: {podDeletionCost: true}", `3:16: featureGates.podDeletionCost: unknown feature gate, did you mean "PodDeletionCost"?`},
		{"locked gate", "featureGates: {OrderedNamespaceDeletion: false}",
			"3:16: featureGates.OrderedNamespaceDeletion: the gate is GA and locked to true: remove it"},
		{"locked gate at its default", "featureGates: {OrderedNamespaceDeletion: true}",
			"3:16: warning: featureGates.OrderedNamespaceDeletion: the gate is GA and locked to true, setting it has no effect: remove it"},
		{"gate with a number", "featureGates: {PodDeletionCost: 1}", "3:33: featureGates.PodDeletionCost: must be true or false, not the number 1"},

		{"no workers", "controllers: {deployment-controller: {concurrentSyncs: 0}}",
			"3:56: controllers.deployment-controller.concurrentSyncs: must be 1 to 1000, not 0"},
		{"too many workers", "controllers: {endpointslice-controller: {concurrentSyncs: 51}}",
			"3:59: controllers.endpointslice-controller.concurrentSyncs: must be 1 to 50, not 51"},
		{"half a worker", "controllers: {deployment-controller: {concurrentSyncs: 1.5}}",
			"3:56: controllers.deployment-controller.concurrentSyncs: must be a whole number, not the number 1.5"},
		{"slice size", "controllers: {endpointslice-controller: {maxEndpointsPerSlice: 1001}}",
			"3:64: controllers.endpointslice-controller.maxEndpointsPerSlice: must be 1 to 1000, not 1001"},
		{"batch period", "controllers: {endpointslice-controller: {endpointUpdatesBatchPeriod: 2h}}",
			"3:70: controllers.endpointslice-controller.endpointUpdatesBatchPeriod: must be 0s to 1h, where 0s means at once, not 2h"},
		{"controller resync", "controllers: {namespace-controller: {resyncPeriod: -5m}}",
			"3:52: controllers.namespace-controller.resyncPeriod: must be 0s (never), or 1s or more, not -5m"},
		{"former name", "controllers: {serviceaccount-token: {}}",
			`3:15: controllers.serviceaccount-token: "serviceaccount-token" is a former name: write "serviceaccount-token-controller"`},
		{"controller without suffix", "controllers: {deploymen: {}}",
			`3:15: controllers.deploymen: unknown controller, did you mean "deployment-controller"?`},
		{"option of another controller", "controllers: {serviceaccount-controller: {concurrentSyncs: 2}}",
			"3:43: controllers.serviceaccount-controller.concurrentSyncs: unknown field, allowed: enabled"},
		{"token controller without key", "controllers: {serviceaccount-token-controller: {enabled: true}}",
			"3:58: warning: controllers.serviceaccount-token-controller.enabled: the controller stays idle until serviceAccounts.privateKeyFile is set"},
		{"block without content", "controllers:", "3:13: warning: controllers: is empty, which has no effect: give it a value or remove it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.ReplaceAll(problemsOf(t, header+test.text+"\n"), "f.yaml:", "")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryRuleHasAFieldAndAdmitsItsDefault(t *testing.T) {
	cfg := v1beta1.NewDefault()
	data, err := Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if problems := problemsOf(t, string(data)); problems != "" {
		t.Errorf("the defaults are not valid: %s", problems)
	}
	defaults := map[string]any{}
	for _, change := range changedLeaves(object{}, toObject(cfg)) {
		defaults[change.Path] = change.New
	}
	fields := fieldPaths(reflect.TypeFor[v1beta1.KubeControllerManagerConfiguration](), "")
	for _, rule := range Rules() {
		if !slices.Contains(fields, rule.Path) {
			t.Errorf("the rule for %s has no field", rule.Path)
		}
		if message, good := rule.admits(defaults[rule.Path], true); !good {
			t.Errorf("the default of %s is against its rule: %s", rule.Path, message)
		}
	}
}

// fieldPaths lists the paths of all fields, with [] for the index of a list.
func fieldPaths(t reflect.Type, path string) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := []string{path}
	switch {
	case t == durationType, t == logDurationType, t == quantityType:
	case t.Kind() == reflect.Slice:
		out = append(out, fieldPaths(t.Elem(), path+"[]")...)
	case t.Kind() == reflect.Struct:
		known := jsonFields(t)
		for _, name := range known.names {
			out = append(out, fieldPaths(known.types[name], join(path, name))...)
		}
	}
	return out
}

func TestEveryNumberAndDurationHasARule(t *testing.T) {
	rules := byPath(Rules())
	for _, change := range changedLeaves(object{}, toObject(v1beta1.NewDefault())) {
		_, isNumber := change.New.(float64)
		_, isDuration := asDuration(change.New)
		if _, ok := rules[change.Path]; (isNumber || isDuration) && !ok && !strings.HasSuffix(change.Path, "infoBufferSize") {
			t.Errorf("%s has no rule", change.Path)
		}
	}
}

func TestControllerNamesMatchBlocks(t *testing.T) {
	cfg := v1beta1.NewDefault()
	blocks := toObject(cfg)["controllers"].(map[string]any)
	for _, c := range cfg.Controllers.All() {
		if _, ok := blocks[c.Name]; !ok {
			t.Errorf("All names %s, which has no block", c.Name)
		}
		delete(blocks, c.Name)
		off := false
		c.Settings.Enabled = &off
		if cfg.ControllerEnabled(c.Name) {
			t.Errorf("%s is enabled although its block says no", c.Name)
		}
	}
	if len(blocks) > 0 {
		t.Errorf("blocks without an entry in All: %v", sortedKeys(blocks))
	}
	if cfg.ControllerEnabled("no-such-controller") {
		t.Error("a controller without a block is enabled")
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"concurrentSyncs", "enabled", "resyncPeriod"}
	for word, want := range map[string]string{
		"concurrentSync": "concurrentSyncs", "enbaled": "enabled", "ENABLED": "enabled",
		"resync-period": "resyncPeriod", "x": "", "": "", strings.Repeat("e", 100): "",
	} {
		if got := nearest(word, candidates); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
