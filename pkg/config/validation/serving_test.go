package validation_test

import (
	"testing"
)

func TestValidateServing(t *testing.T) {
	checkProblems(t, []problemTest{
		{"serving: {tls: {curvePreferences: [X25519, x25519, X25519, P256]}}", []string{
			"3:44: serving.tls.curvePreferences[1]: must be one of CurveP256, CurveP384, CurveP521, X25519, X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, not \"x25519\", did you mean \"X25519\"?",
			"3:52: serving.tls.curvePreferences[2]: \"X25519\" is already in the list",
			"3:60: serving.tls.curvePreferences[3]: must be one of CurveP256, CurveP384, CurveP521, X25519, X25519MLKEM768, SecP256r1MLKEM768, SecP384r1MLKEM1024, not \"P256\"",
		}},
		{"serving: {tls: {curvePreferences: [X25519MLKEM768]}}", []string{
			"3:35: warning: serving.tls.curvePreferences: TLS 1.2 supports none of these: TLS 1.2 clients cannot connect; set serving.tls.minVersion to VersionTLS13",
		}},
		{"serving: {tls: {sniCertificates: [{certFile: a, privateKeyFile: b, names: [x.org]}, {certFile: c, privateKeyFile: d, names: [x.org, 'a b']}, {certFile: ''}]}}", []string{
			"3:126: serving.tls.sniCertificates[1].names[0]: \"x.org\" is already used by serving.tls.sniCertificates[0].names[0]",
			"3:133: serving.tls.sniCertificates[1].names[1]: must be a host name such as example.org or *.example.org, not \"a b\"",
			"3:142: serving.tls.sniCertificates[2].privateKeyFile: is missing",
			"3:153: serving.tls.sniCertificates[2].certFile: must be the path of a file, not empty",
		}},
		{"serving: {http2: {maxStreamsPerConnection: 0}}", []string{
			"3:44: serving.http2.maxStreamsPerConnection: must be 1 to 10000, not 0",
		}},
		{"serving: {http2: {enabled: false, maxStreamsPerConnection: 5}, profiling: false, contentionProfiling: true}", []string{
			"3:60: warning: serving.http2.maxStreamsPerConnection: has no effect while serving.http2.enabled is false",
			"3:103: warning: serving.contentionProfiling: has no effect while serving.profiling is false",
		}},
		{"serving: {port: 0, http2: {enabled: false}, contentionProfiling: true}", []string{
			"3:27: warning: serving.http2: has no effect while serving.port is 0",
			"3:66: warning: serving.contentionProfiling: has no effect while serving.port is 0",
		}},
		{"serving: {authentication: {requestHeader: {clientCAFile: a, uidHeaders: [X-Remote-Uid]}}}\nfeatureGates: {RemoteRequestHeaderUID: false}", []string{
			"3:73: serving.authentication.requestHeader.uidHeaders: needs the feature gate RemoteRequestHeaderUID, which is disabled",
		}},
		{"serving: {tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]}}", []string{
			"3:31: serving.tls.cipherSuites: must contain TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 for HTTP/2: add one, or set serving.http2.enabled to false, or serving.tls.minVersion to VersionTLS13",
		}},
		{"serving: {tls: {minVersion: VersionTLS12, cipherSuites: [TLS_AES_128_GCM_SHA256]}}", []string{
			"3:57: serving.tls.cipherSuites: must contain TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 for HTTP/2: add one, or set serving.http2.enabled to false, or serving.tls.minVersion to VersionTLS13",
		}},
		{"serving: {tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]}}", nil},
		{"serving: {tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]}, http2: {enabled: false}}", nil},
		{"serving: {tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]}}", []string{
			"3:57: warning: serving.tls.cipherSuites: has no effect while serving.tls.minVersion is VersionTLS13",
		}},
		{"serving: {port: 0, tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]}}", []string{
			"3:25: warning: serving.tls: has no effect while serving.port is 0",
		}},
		{"serving: {authorization: {alwaysAllowPaths: ['*', '/a*']}}", nil},
		{"serving: {authorization: {alwaysAllowPaths: ['*a', '/*b']}}", []string{
			"3:46: serving.authorization.alwaysAllowPaths[0]: * is allowed only at the end, not in \"*a\"",
			"3:52: serving.authorization.alwaysAllowPaths[1]: * is allowed only at the end, not in \"/*b\"",
		}},
		{"metrics: {allowListMapping: {'ok,l': 'a,b'}}", nil},
		{"metrics: {allowListMappingManifest: /f}", nil},
		{"metrics: {showHiddenMetricsForVersion: '1.34', disabledMetrics: [a-b, ok], allowListMapping: {bad: x, 'ok,l': 'a,b'}, allowListMappingManifest: f}", []string{
			"3:40: metrics.showHiddenMetricsForVersion: must be one of 1.35, not \"1.34\"",
			"3:66: metrics.disabledMetrics[0]: must be the name of a metric such as workqueue_depth, not \"a-b\"",
			"3:95: metrics.allowListMapping.bad: the key must be the name of a metric, a comma and the name of a label, such as workqueue_depth,name, not \"bad\"",
			"3:111: warning: metrics.allowListMapping[\"ok,l\"]: has no effect: the metric is in metrics.disabledMetrics",
			"3:145: metrics.allowListMappingManifest: cannot be combined with metrics.allowListMapping: use only one of them",
		}},
		{"metrics: {showHiddenMetricsForVersion: 1.35}", []string{
			"3:40: metrics.showHiddenMetricsForVersion: must be a string, not the number 1.35: write \"1.35\"",
		}},
		{"clientConnection: {server: 10.0.0.1}", []string{
			"3:28: clientConnection.server: must be a URL such as https://10.0.0.1:6443, not \"10.0.0.1\", did you mean \"https://10.0.0.1\"?",
		}},
		{"clientConnection: {server: 'https://10.0.0.1:6443'}", nil},
		{"clientConnection: {server: 'https://:6443/path'}", nil},
		{"clientConnection: {server: 'https://[::1'}", []string{"3:28: clientConnection.server: must be a URL such as https://10.0.0.1:6443, not \"https://[::1\""}},
		{"clientConnection: {server: 'https:///path'}", []string{"3:28: clientConnection.server: must be a URL such as https://10.0.0.1:6443, not \"https:///path\""}},
		{"clientConnection: {server: 'https://a:64433'}", nil},
		{"clientConnection: {server: 'https://a:99999'}", []string{"3:28: clientConnection.server: must be a URL such as https://10.0.0.1:6443, not \"https://a:99999\""}},
	})
}
