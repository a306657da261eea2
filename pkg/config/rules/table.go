package rules

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"time"

	"kcmd.dev/pkg/config/curves"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
)

var (
	subdomainPattern = regexp.MustCompile(`^` + dnsLabel + `(\.` + dnsLabel + `)*$`)
	labelPattern     = regexp.MustCompile(`^` + dnsLabel + `$`)
	identityPattern  = regexp.MustCompile(`^\S*$`)
	providerPattern  = regexp.MustCompile(`^\S*$`)
	wordPattern      = regexp.MustCompile(`^\S+$`)
	pathPattern      = regexp.MustCompile(`^\S`)
	hostPattern      = regexp.MustCompile(`^(\*\.)?` + dnsLabel + `(\.` + dnsLabel + `)*$`)
	serverPattern    = regexp.MustCompile(`^(https?://[^\s]+)?$`)
	resourcePattern  = regexp.MustCompile(`^` + dnsLabel + `$`)
	groupPattern     = regexp.MustCompile(`^(` + dnsLabel + `(\.` + dnsLabel + `)*)?$`)
	timePattern      = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))?$`)

	metricPattern      = regexp.MustCompile(`^` + metricName + `$`)
	metricLabelPattern = regexp.MustCompile(`^` + metricName + `,[a-zA-Z_][a-zA-Z0-9_]*$`)
)

const (
	dnsLabel   = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	metricName = `[a-zA-Z_:][a-zA-Z0-9_:]*`

	subdomainWords   = "a name of lower-case letters, digits, '-' and '.' that starts and ends with a letter or digit"
	labelWords       = "a name of lower-case letters, digits and '-' that starts and ends with a letter or digit"
	wordWords        = "a name without white space"
	pathWords        = "the path of a file"
	resourceWords    = "the plural name of a resource, of lower-case letters, digits and '-'"
	groupWords       = "an API group without a version, such as apps or events.k8s.io, or empty"
	hostWords        = "a host name such as example.org or *.example.org"
	serverWords      = "a URL such as https://10.0.0.1:6443"
	timeWords        = "a time such as 2026-01-31T15:00:00Z"
	metricWords      = "the name of a metric such as workqueue_depth"
	metricLabelWords = "the name of a metric, a comma and the name of a label, such as workqueue_depth,name"

	maxWorkers = 1000
	year       = 365 * 24 * time.Hour
	unlimited  = time.Duration(math.MaxInt64)
)

// MaxSubdomain is the greatest length of a DNS subdomain, such as the name of a Lease.
const MaxSubdomain = 253

// All returns the rules of all fields, in the order of the fields. Read only.
func All() []Rule { return all() }

// ByPath returns the rules of all fields by their paths. Read only.
func ByPath() map[string]Rule { return byPath() }

// IsMetricLabel reports whether a text is the name of a metric, a comma and the name of a
// label, as the keys of metrics.allowListMapping are.
func IsMetricLabel(text string) bool { return metricLabelPattern.MatchString(text) }

var byPath = sync.OnceValue(func() map[string]Rule {
	out := map[string]Rule{}
	for _, rule := range All() {
		out[rule.Path] = rule
	}
	return out
})

var all = sync.OnceValue(func() []Rule { return append(ofFields(), ofPauses()...) })

// ofPauses are the rules of the namespaces in which a controller is paused.
func ofPauses() []Rule {
	out := pausedIn("pausedNamespaces")
	for _, c := range new(v1beta1.Controllers).All() {
		out = append(out, pausedIn("controllers."+c.Name+".pausedNamespaces")...)
	}
	return out
}

func pausedIn(path string) []Rule {
	return []Rule{list(path, 0, 0), pattern(path+"[]", labelPattern, 63, labelWords)}
}

func ofFields() []Rule {
	return []Rule{
		pattern("clientConnection.server", serverPattern, 2048, serverWords),
		oneOf("clientConnection.contentType", "application/vnd.kubernetes.protobuf", "application/json"),
		number("clientConnection.qps", 0, 1_000_000),
		number("clientConnection.burst", 0, 1_000_000),

		duration("leaderElection.leaseDuration", time.Second, time.Hour),
		duration("leaderElection.renewDeadline", 10*time.Millisecond, time.Hour),
		duration("leaderElection.retryPeriod", 10*time.Millisecond, time.Hour),
		pattern("leaderElection.resourceName", subdomainPattern, MaxSubdomain, subdomainWords),
		pattern("leaderElection.resourceNamespace", labelPattern, 63, labelWords),
		pattern("leaderElection.identity", identityPattern, MaxSubdomain, wordWords),
		oneOf("leaderElection.standby", v1beta1.StandbyWarm, v1beta1.StandbyCold),
		oneOf("leaderElection.spread", v1beta1.SpreadBalanced, v1beta1.SpreadSticky),
		required(pattern("leaderElection.groups[].name", labelPattern, 63, labelWords)),
		pattern("leaderElection.groups[].resourceName", subdomainPattern, MaxSubdomain, subdomainWords),
		required(list("leaderElection.groups[].controllers", 1, 0)),

		pattern("leaderMigration.leaderName", subdomainPattern, MaxSubdomain, subdomainWords),
		pattern("leaderMigration.component", wordPattern, MaxSubdomain, wordWords),
		required(Rule{Path: "leaderMigration.controllerLeaders[].name"}),
		required(pattern("leaderMigration.controllerLeaders[].component", wordPattern, MaxSubdomain, wordWords)),

		durationOrZero("resync.minPeriod", "never", time.Second, unlimited),

		durationOrZero("reload.settleTime", "no wait", 0, 10*time.Second),
		duration("reload.pollInterval", time.Second, time.Hour),
		durationOrZero("reload.drainTimeout", "do not wait", 0, 10*time.Minute),

		number("serving.port", 0, 65535),
		oneOf("serving.tls.minVersion", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
		list("serving.tls.curvePreferences", 0, 0),
		oneOf("serving.tls.curvePreferences[]", curves.Names()...),
		required(pattern("serving.tls.sniCertificates[].certFile", pathPattern, 4096, pathWords)),
		required(pattern("serving.tls.sniCertificates[].privateKeyFile", pathPattern, 4096, pathWords)),
		pattern("serving.tls.sniCertificates[].names[]", hostPattern, MaxSubdomain, hostWords),
		number("serving.http2.maxStreamsPerConnection", 1, 10_000),
		durationOrZero("serving.authentication.cacheTTL", "not at all", 0, time.Hour),
		durationOrZero("serving.authorization.authorizedTTL", "not at all", 0, time.Hour),
		durationOrZero("serving.authorization.unauthorizedTTL", "not at all", 0, time.Hour),

		oneOf("metrics.showHiddenMetricsForVersion", gates.Version(gates.NewestMinor-1)),
		pattern("metrics.disabledMetrics[]", metricPattern, MaxSubdomain, metricWords),
		keys("metrics.allowListMapping", metricLabelPattern, 2*MaxSubdomain, metricLabelWords),

		oneOf("logging.format", "text", "json"),
		duration("logging.flushFrequency", time.Millisecond, unlimited),
		number("logging.verbosity", 0, math.MaxInt32),

		oneOf("emulatedVersion", gates.Versions()...),
		oneOf("minCompatibilityVersion", gates.Versions()...),

		list("networking.clusterCIDRs", 0, 2),
		list("networking.serviceCIDRs", 0, 2),
		pattern("volumes.flexVolumePluginDirectory", pathPattern, 4096, pathWords),
		pattern("cloud.provider", providerPattern, MaxSubdomain, wordWords),
		pattern("cloud.clusterName", wordPattern, MaxSubdomain, wordWords),
		durationOrZero("controllerStartInterval", "not at all", 0, 10*time.Minute),

		oneOf("deletionBreaker.mode", v1beta1.DeletionsDisabled, v1beta1.DeletionsWarn, v1beta1.DeletionsStop),
		duration("deletionBreaker.window", 10*time.Second, 24*time.Hour),
		number("deletionBreaker.share", 1, 100),
		number("deletionBreaker.minimum", 0, 1_000_000),
		pattern("deletionBreaker.exemptResources[].group", groupPattern, MaxSubdomain, groupWords),
		required(pattern("deletionBreaker.exemptResources[].resource", resourcePattern, MaxSubdomain, resourceWords)),
		pattern("deletionBreaker.allowUntil", timePattern, 35, timeWords),

		workers("serviceaccount-token-controller", maxWorkers),
		resync("root-ca-certificate-publisher-controller"),
		workers("namespace-controller", maxWorkers),
		resync("namespace-controller"),
		workers("replicationcontroller-controller", maxWorkers),
		resync("replicationcontroller-controller"),
		workers("replicaset-controller", maxWorkers),
		resync("replicaset-controller"),
		workers("deployment-controller", maxWorkers),
		resync("deployment-controller"),
		workers("endpointslice-controller", 50),
		resync("endpointslice-controller"),
		number("controllers.endpointslice-controller.maxEndpointsPerSlice", 1, 1000),
		durationOrZero("controllers.endpointslice-controller.endpointUpdatesBatchPeriod", "no batching", 0, time.Hour),
		workers("statefulset-controller", maxWorkers),
		resync("statefulset-controller"),
		workers("daemonset-controller", maxWorkers),
		resync("daemonset-controller"),
		workers("job-controller", maxWorkers),
		resync("job-controller"),
		workers("cronjob-controller", maxWorkers),
		resync("cronjob-controller"),
		workers("ttl-after-finished-controller", maxWorkers),
		resync("ttl-after-finished-controller"),
		resync("disruption-controller"),
		workers("horizontal-pod-autoscaler-controller", maxWorkers),
		duration("controllers.horizontal-pod-autoscaler-controller.syncPeriod", time.Second, time.Hour),
		durationOrZero("controllers.horizontal-pod-autoscaler-controller.downscaleStabilization", "not at all", 0, time.Hour),
		number("controllers.horizontal-pod-autoscaler-controller.tolerance", 0, 1),
		durationOrZero("controllers.horizontal-pod-autoscaler-controller.cpuInitializationPeriod", "not at all", 0, 24*time.Hour),
		durationOrZero("controllers.horizontal-pod-autoscaler-controller.initialReadinessDelay", "not at all", 0, 24*time.Hour),
		number("controllers.pod-garbage-collector-controller.terminatedPodThreshold", 0, 1_000_000),
		resync("podgroup-protection-controller"),
		workers("garbage-collector-controller", maxWorkers),
		workers("endpoints-controller", maxWorkers),
		resync("endpoints-controller"),
		durationOrZero("controllers.endpoints-controller.endpointUpdatesBatchPeriod", "no batching", 0, time.Hour),
		workers("endpointslice-mirroring-controller", 50),
		resync("endpointslice-mirroring-controller"),
		number("controllers.endpointslice-mirroring-controller.maxEndpointsPerSubset", 1, 1000),
		durationOrZero("controllers.endpointslice-mirroring-controller.endpointUpdatesBatchPeriod", "no batching", 0, time.Hour),
		pattern("controllers.garbage-collector-controller.ignoredResources[].group", groupPattern, MaxSubdomain, groupWords),
		required(pattern("controllers.garbage-collector-controller.ignoredResources[].resource", resourcePattern, MaxSubdomain, resourceWords)),

		workers("resourcequota-controller", maxWorkers),
		durationOrZero("controllers.resourcequota-controller.syncPeriod", "never", time.Second, unlimited),
		resync("resourcequota-controller"),
		resync("clusterrole-aggregation-controller"),
		workers("validatingadmissionpolicy-status-controller", maxWorkers),
		resync("validatingadmissionpolicy-status-controller"),
		resync("service-cidr-controller"),
		resync("storageversion-garbage-collector-controller"),
		number("controllers.storage-version-migrator-controller.migrationRate", 0, 100_000),
		resync("storage-version-migrator-controller"),

		duration("controllers.certificatesigningrequest-signing-controller.certificateDuration", 10*time.Minute, unlimited),
		resync("certificatesigningrequest-signing-controller"),
		resync("certificatesigningrequest-approving-controller"),
		resync("kube-apiserver-serving-clustertrustbundle-publisher-controller"),
		duration("controllers.legacy-serviceaccount-token-cleaner-controller.cleanUpPeriod", 24*time.Hour, unlimited),

		number("controllers.node-ipam-controller.nodeCIDRMaskSizeIPv4", 1, 32),
		number("controllers.node-ipam-controller.nodeCIDRMaskSizeIPv6", 1, 128),
		resync("node-ipam-controller"),
		duration("controllers.node-lifecycle-controller.nodeMonitorPeriod", time.Second, year),
		duration("controllers.node-lifecycle-controller.nodeMonitorGracePeriod", time.Second, year),
		duration("controllers.node-lifecycle-controller.nodeStartupGracePeriod", time.Second, year),
		number("controllers.node-lifecycle-controller.nodeEvictionRate", 0, 1000),
		number("controllers.node-lifecycle-controller.secondaryNodeEvictionRate", 0, 1000),
		number("controllers.node-lifecycle-controller.largeClusterSizeThreshold", 0, 1_000_000),
		number("controllers.node-lifecycle-controller.unhealthyZoneThreshold", 0, 1),
		resync("node-lifecycle-controller"),
		resync("ttl-controller"),

		duration("controllers.persistentvolume-binder-controller.syncPeriod", time.Second, 24*time.Hour),
		duration("controllers.persistentvolume-binder-controller.recycler.nfs.minimumTimeout", time.Second, 24*time.Hour),
		durationOrZero("controllers.persistentvolume-binder-controller.recycler.nfs.timeoutIncrement", "none", 0, 24*time.Hour),
		duration("controllers.persistentvolume-binder-controller.recycler.hostPath.minimumTimeout", time.Second, 24*time.Hour),
		durationOrZero("controllers.persistentvolume-binder-controller.recycler.hostPath.timeoutIncrement", "none", 0, 24*time.Hour),
		resync("persistentvolume-binder-controller"),
		durationOrZero("controllers.persistentvolume-attach-detach-controller.reconcilerSyncPeriod", "never", time.Second, 24*time.Hour),
		resync("persistentvolume-attach-detach-controller"),
		resync("persistentvolume-expander-controller"),
		resync("persistentvolume-protection-controller"),
		resync("persistentvolumeclaim-protection-controller"),
		resync("volumeattributesclass-protection-controller"),
		workers("ephemeral-volume-controller", maxWorkers),
		resync("ephemeral-volume-controller"),
		resync("selinux-warning-controller"),

		workers("resourceclaim-controller", maxWorkers),
		resync("resourceclaim-controller"),
		workers("device-taint-eviction-controller", maxWorkers),
		resync("resourcepoolstatusrequest-controller"),

		workers("cloud-node-controller", maxWorkers),
		number("controllers.cloud-node-controller.concurrentStatusUpdates", 0, maxWorkers),
		duration("controllers.cloud-node-controller.nodeStatusUpdateFrequency", time.Second, 24*time.Hour),
		resync("cloud-node-controller"),
		duration("controllers.cloud-node-lifecycle-controller.nodeMonitorPeriod", time.Second, 10*time.Minute),
		workers("service-lb-controller", maxWorkers),
		duration("controllers.node-route-controller.reconciliationPeriod", time.Second, 24*time.Hour),
	}
}

func workers(controller string, highest float64) Rule {
	return number("controllers."+controller+".concurrentSyncs", 1, highest)
}

func resync(controller string) Rule {
	return durationOrZero("controllers."+controller+".resyncPeriod", "never", time.Second, unlimited)
}

func number(path string, lowest, highest float64) Rule {
	return Rule{Path: path, Number: &NumberRange{lowest, highest}}
}

func duration(path string, lowest, highest time.Duration) Rule {
	return Rule{Path: path, Duration: &DurationRange{Min: lowest, Max: highest}}
}

func durationOrZero(path, means string, lowest, highest time.Duration) Rule {
	return Rule{Path: path, Duration: &DurationRange{Min: lowest, Max: highest, ZeroAllowed: true, ZeroMeans: means}}
}

func oneOf(path string, allowed ...string) Rule {
	return Rule{Path: path, Enum: allowed}
}

func pattern(path string, expression *regexp.Regexp, maxLength int, words string) Rule {
	return Rule{Path: path, Pattern: &Pattern{Regexp: expression, MaxLength: maxLength, Words: words, Nearly: nearly[expression]}}
}

func keys(path string, expression *regexp.Regexp, maxLength int, words string) Rule {
	return Rule{Path: path, Keys: &Pattern{Regexp: expression, MaxLength: maxLength, Words: words}}
}

// nearly are what was probably meant by texts that do not match.
var nearly = map[*regexp.Regexp]func(string) string{
	subdomainPattern: asName,
	labelPattern:     asName,
	resourcePattern:  asName,
	groupPattern:     asGroup,
	hostPattern:      strings.ToLower,
	serverPattern: func(text string) string {
		if strings.Contains(text, "://") {
			return ""
		}
		return "https://" + text
	},
}

// asName spells a word as names of objects are spelt.
func asName(text string) string { return strings.ReplaceAll(strings.ToLower(text), "_", "-") }

// asGroup leaves out the version that follows a group in apiVersion.
func asGroup(text string) string {
	group, _, _ := strings.Cut(text, "/")
	return asName(group)
}

// list is a list without duplicates; highest 0 means any number of elements.
func list(path string, lowest, highest int) Rule {
	return Rule{Path: path, List: &ListSize{Min: lowest, Max: highest, Unique: true}}
}

func required(rule Rule) Rule {
	rule.Required = true
	return rule
}
