package conversion

// processRows are the settings of the process as a whole.
func processRows() []Row {
	return []Row{
		{Flag: "profiling", Upstream: "Generic.Debugging.enableProfiling", Field: "serving.profiling"},
		{Flag: "contention-profiling", Upstream: "Generic.Debugging.enableContentionProfiling", Field: "serving.contentionProfiling"},

		{Flag: "enable-leader-migration", Upstream: "Generic.LeaderMigrationEnabled", Field: "leaderMigration.enabled"},
		{Flag: "leader-migration-config", Field: "leaderMigration.leaderName, leaderMigration.controllerLeaders",
			How: "the content of the file is copied into the configuration; upstream reads it only with enable-leader-migration"},
		{Upstream: "Generic.LeaderMigration", Field: "leaderMigration.leaderName, leaderMigration.controllerLeaders",
			How: "route-controller and service-controller become the canonical names; resourceLock must be leases"},

		{Flag: "controllers", Upstream: "Generic.Controllers", Field: "controllers.<name>.enabled, controllerDefaults.enabled",
			How: "name becomes enabled: true, -name becomes enabled: false, and a list without * becomes controllerDefaults.enabled: false; of two entries for one controller, the first counts"},
		{Flag: "min-resync-period", Upstream: "Generic.MinResyncPeriod", Field: "resync.minPeriod",
			NegativeIsZero: true, Refused: "upstream resyncs that often"},
		{Flag: "kube-api-content-type", Upstream: "Generic.ClientConnection.contentType", Field: "clientConnection.contentType",
			Refused: "upstream requests that type"},
		{Flag: "kube-api-qps", Upstream: "Generic.ClientConnection.qps", Field: "clientConnection.qps", How: limitsHow},
		{Flag: "kube-api-burst", Upstream: "Generic.ClientConnection.burst", Field: "clientConnection.burst", How: limitsHow},
		{Flag: "controller-start-interval", Upstream: "Generic.ControllerStartInterval", Field: "controllerStartInterval",
			NegativeIsZero: true, Refused: "upstream waits that long"},
		{Flag: "controller-shutdown-timeout", Field: "reload.drainTimeout",
			How: "0s, which means no limit upstream, becomes 10m, the maximum; the limit applies whenever a controller stops, not only at shutdown"},
		{Flag: "leader-elect", Upstream: "Generic.LeaderElection.leaderElect", Field: "leaderElection.leaderElect"},
		{Flag: "leader-elect-lease-duration", Upstream: "Generic.LeaderElection.leaseDuration", Field: "leaderElection.leaseDuration", Refused: badTimings},
		{Flag: "leader-elect-renew-deadline", Upstream: "Generic.LeaderElection.renewDeadline", Field: "leaderElection.renewDeadline", Refused: badTimings},
		{Flag: "leader-elect-retry-period", Upstream: "Generic.LeaderElection.retryPeriod", Field: "leaderElection.retryPeriod", Refused: badTimings},
		{Flag: "leader-elect-resource-lock", Upstream: "Generic.LeaderElection.resourceLock",
			Why: "the lock is always a Lease, the only type that upstream accepts too"},
		{Flag: "leader-elect-resource-name", Upstream: "Generic.LeaderElection.resourceName", Field: "leaderElection.resourceName"},
		{Flag: "leader-elect-resource-namespace", Upstream: "Generic.LeaderElection.resourceNamespace", Field: "leaderElection.resourceNamespace"},
		{Flag: "feature-gates", Field: "featureGates", How: "the prefix kube: is removed"},
		{Flag: "emulated-version", Field: "emulatedVersion", How: "the prefix kube= is removed"},
		{Flag: "min-compatibility-version", Field: "minCompatibilityVersion", How: "the prefix kube= is removed"},
		{Flag: "use-service-account-credentials", Upstream: "KubeCloudShared.UseServiceAccountCredentials", Field: "clientConnection.useServiceAccountCredentials"},
		{Flag: "allocate-node-cidrs", Upstream: "KubeCloudShared.AllocateNodeCIDRs", Field: "controllers.node-ipam-controller.allocateNodeCIDRs"},
		{Flag: "cluster-cidr", Upstream: "KubeCloudShared.ClusterCIDR", Field: "networking.clusterCIDRs", How: "the list is split at commas"},
		{Flag: "cidr-allocator-type", Upstream: "KubeCloudShared.CIDRAllocatorType", Why: "RangeAllocator is the only allocator in Kubernetes 1.36"},
		{Flag: "node-monitor-period", Upstream: "KubeCloudShared.NodeMonitorPeriod", Field: "controllers.node-lifecycle-controller.nodeMonitorPeriod",
			Refused: "upstream checks the nodes without a pause"},
		{Flag: "cluster-name", Upstream: "KubeCloudShared.ClusterName", Field: "cloud.clusterName"},
		{Flag: "cloud-provider", Upstream: cloudProviderPath, Field: "cloud.provider", How: "external, like the empty name, leaves the controllers of a cloud idle; upstream has no other names"},
		{Flag: "cloud-config", Upstream: "KubeCloudShared.CloudProvider.CloudConfigFile", Field: "cloud.configFile"},
		{Flag: "external-cloud-volume-plugin", Upstream: "KubeCloudShared.ExternalCloudVolumePlugin", Why: noEffect},
		{Flag: "configure-cloud-routes", Upstream: "KubeCloudShared.ConfigureCloudRoutes", Why: noEffect + ", and node-route-controller is off unless its block enables it"},
		{Flag: "route-reconciliation-period", Upstream: "KubeCloudShared.RouteReconciliationPeriod", Field: "controllers.node-route-controller.reconciliationPeriod",
			Refused: "upstream has no such controller in 1.36"},
		{Flag: "allow-untagged-cloud", Upstream: "KubeCloudShared.AllowUntaggedCloud", Field: "cloud.allowUntagged",
			Deprecated: "This flag is deprecated and will be removed in a future release. A cluster-id will be required on cloud instances."},
		{Flag: "node-sync-period", Upstream: "KubeCloudShared.NodeSyncPeriod", Why: noEffect,
			Deprecated: "This flag is currently no-op and will be deleted."},

		{Flag: "kubeconfig", Upstream: "Generic.ClientConnection.kubeconfig", Field: "clientConnection.kubeconfig"},
		{Flag: "master", Field: "clientConnection.server"},
		{Flag: "version", Why: notInProcess},
		{Flag: "help", Why: notInProcess},
	}
}

// servingRows are the settings of the HTTPS endpoint, which v1alpha1 does not have.
func servingRows() []Row {
	const authn, authz, header = "serving.authentication.", "serving.authorization.", "serving.authentication.requestHeader."
	return []Row{
		{Flag: "bind-address", Field: "serving.bindAddress"},
		{Flag: "secure-port", Field: "serving.port", Refused: "upstream rejects it too", Rejects: RejectsLow | RejectsHigh},
		{Flag: "cert-dir", Field: "serving.tls.certDirectory"},
		{Flag: "tls-cert-file", Field: "serving.tls.certFile"},
		{Flag: "tls-private-key-file", Field: "serving.tls.privateKeyFile"},
		{Flag: "tls-sni-cert-key", Field: "serving.tls.sniCertificates", How: "cert,key:name,name is one entry of the list"},
		{Flag: "tls-cipher-suites", Field: "serving.tls.cipherSuites"},
		{Flag: "tls-curve-preferences", Field: "serving.tls.curvePreferences", How: "numbers become the names that Go uses"},
		{Flag: "tls-min-version", Field: "serving.tls.minVersion"},
		{Flag: "http2-max-streams-per-connection", Field: "serving.http2.maxStreamsPerConnection", How: "0 and less mean the default, 100"},
		{Flag: "disable-http2-serving", Field: "serving.http2.enabled", Opposite: true},
		{Flag: "permit-port-sharing", Field: "serving.permitPortSharing"},
		{Flag: "permit-address-sharing", Field: "serving.permitAddressSharing"},

		{Flag: "authentication-kubeconfig", Field: authn + "kubeconfig"},
		{Flag: "authentication-skip-lookup", Field: authn + "skipLookup"},
		{Flag: "authentication-tolerate-lookup-failure", Field: authn + "tolerateLookupFailure"},
		{Flag: "authentication-token-webhook-cache-ttl", Field: authn + "cacheTTL"},
		{Flag: "client-ca-file", Field: authn + "clientCAFile"},
		{Flag: "requestheader-client-ca-file", Field: header + "clientCAFile"},
		{Flag: "requestheader-username-headers", Field: header + "usernameHeaders"},
		{Flag: "requestheader-uid-headers", Field: header + "uidHeaders"},
		{Flag: "requestheader-group-headers", Field: header + "groupHeaders"},
		{Flag: "requestheader-extra-headers-prefix", Field: header + "extraHeaderPrefixes"},
		{Flag: "requestheader-allowed-names", Field: header + "allowedNames"},

		{Flag: "authorization-kubeconfig", Field: authz + "kubeconfig"},
		{Flag: "authorization-always-allow-paths", Field: authz + "alwaysAllowPaths"},
		{Flag: "authorization-webhook-cache-authorized-ttl", Field: authz + "authorizedTTL"},
		{Flag: "authorization-webhook-cache-unauthorized-ttl", Field: authz + "unauthorizedTTL"},
	}
}

// observabilityRows are the settings of metrics and logs, which v1alpha1 does not have.
func observabilityRows() []Row {
	return []Row{
		{Flag: "show-hidden-metrics-for-version", Field: "metrics.showHiddenMetricsForVersion"},
		{Flag: "disabled-metrics", Field: "metrics.disabledMetrics"},
		{Flag: "allow-metric-labels", Field: "metrics.allowListMapping"},
		{Flag: "allow-metric-labels-manifest", Field: "metrics.allowListMappingManifest"},

		{Flag: "logging-format", Field: "logging.format"},
		{Flag: "log-flush-frequency", Field: "logging.flushFrequency", Refused: "upstream rejects 0 and less", Rejects: RejectsLow},
		{Flag: "v", Field: "logging.verbosity"},
		{Flag: "vmodule", Field: "logging.vmodule"},
		{Flag: "log-text-split-stream", Field: "logging.options.text.splitStream"},
		{Flag: "log-text-info-buffer-size", Field: "logging.options.text.infoBufferSize"},
		{Flag: "log-json-split-stream", Field: "logging.options.json.splitStream"},
		{Flag: "log-json-info-buffer-size", Field: "logging.options.json.infoBufferSize"},
	}
}

// fieldsWithoutFlag are the fields of v1alpha1 that no flag sets.
func fieldsWithoutFlag() []Row {
	return []Row{
		{Upstream: "Generic.Port", Why: noEffect},
		{Upstream: "Generic.Address", Why: noEffect},
		{Upstream: "Generic.ClientConnection.acceptContentTypes", Field: "clientConnection.acceptContentTypes"},
		{Upstream: "GarbageCollectorController.GCIgnoredResources", Field: "controllers.garbage-collector-controller.ignoredResources",
			How: "the order has no meaning"},
		{Upstream: "NodeLifecycleController.PodEvictionTimeout", Why: noEffect},
		{Upstream: "PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MaximumRetry", Why: noEffect},
	}
}
