package schema

// examples are values, as YAML, of fields that have no default.
func examples() map[string]any {
	return map[string]any{
		"clientConnection.kubeconfig":                       "/etc/kubernetes/controller-manager.conf",
		"clientConnection.server":                           "https://10.0.0.1:6443",
		"clientConnection.acceptContentTypes":               "application/vnd.kubernetes.protobuf,application/json",
		"leaderElection.identity":                           "host-1",
		"leaderElection.groups":                             []any{map[string]any{"name": "workloads", "controllers": []any{"job-controller", "cronjob-controller"}}},
		"serving.tls.certFile":                              "/etc/kubernetes/pki/controller-manager.crt",
		"serving.tls.privateKeyFile":                        "/etc/kubernetes/pki/controller-manager.key",
		"serving.tls.certDirectory":                         "/var/run/kubernetes",
		"serving.tls.cipherSuites":                          []any{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		"serving.tls.curvePreferences":                      []any{"X25519MLKEM768", "X25519"},
		"serving.tls.sniCertificates":                       []any{map[string]any{"certFile": "example.crt", "privateKeyFile": "example.key", "names": []any{"*.example.org"}}},
		"serving.authentication.kubeconfig":                 "/etc/kubernetes/controller-manager.conf",
		"serving.authentication.clientCAFile":               "/etc/kubernetes/pki/ca.crt",
		"serving.authentication.requestHeader.clientCAFile": "/etc/kubernetes/pki/front-proxy-ca.crt",
		"serving.authentication.requestHeader.uidHeaders":   []any{"X-Remote-Uid"},
		"serving.authentication.requestHeader.allowedNames": []any{"front-proxy-client"},
		"serving.authorization.kubeconfig":                  "/etc/kubernetes/controller-manager.conf",
		"metrics.showHiddenMetricsForVersion":               "1.35",
		"metrics.disabledMetrics":                           []any{"workqueue_depth"},
		"metrics.allowListMapping":                          map[string]any{"rest_client_requests_total,code": "200,409"},
		"metrics.allowListMappingManifest":                  "/etc/kubernetes/metric-labels.yaml",
		"logging.vmodule":                                   []any{map[string]any{"filePattern": "garbagecollector*", "verbosity": 5}},
		"logging.options.text.splitStream":                  true,
		"logging.options.json.splitStream":                  true,
		"minCompatibilityVersion":                           "1.35",
		"deletionBreaker.exemptResources":                   []any{map[string]any{"group": "batch.example.org", "resource": "runs"}},
		"deletionBreaker.allowUntil":                        "2026-01-31T15:00:00Z",
		"serviceAccounts.privateKeyFile":                    "/etc/kubernetes/pki/sa.key",
		"serviceAccounts.rootCAFile":                        "/etc/kubernetes/pki/ca.crt",
		"cloud.provider":                                    "external",
		"cloud.configFile":                                  "/etc/kubernetes/cloud.conf",
		"networking.clusterCIDRs":                           []any{"10.244.0.0/16", "fd00:10:244::/56"},
		"networking.serviceCIDRs":                           []any{"10.96.0.0/16", "fd00:10:96::/112"},
		signing + "allSigners.certFile":                     "/etc/kubernetes/pki/ca.crt",
		signing + "allSigners.privateKeyFile":               "/etc/kubernetes/pki/ca.key",
		"controllers.deployment-controller.resyncPeriod":    "1h",
		recycler + "nfs.podTemplateFile":                    "/etc/kubernetes/recycler-nfs.yaml",
		recycler + "hostPath.podTemplateFile":               "/etc/kubernetes/recycler-hostpath.yaml",
	}
}

const (
	signing  = "controllers.certificatesigningrequest-signing-controller."
	recycler = "controllers.persistentvolume-binder-controller.recycler."
)
