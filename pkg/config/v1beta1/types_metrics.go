package v1beta1

// Metrics says which metrics are exposed, and with which labels. The names of the
// fields are those of the MetricsConfiguration of k8s.io/component-base.
type Metrics struct {
	// Minor version before the one of the process, to expose also the metrics that
	// were hidden since then. Default: empty, they stay hidden. Allowed: 1.35. A
	// change applies in place.
	ShowHiddenMetricsForVersion string `json:"showHiddenMetricsForVersion,omitempty"`
	// Metrics that are not exposed, by their full names. Default: empty. A change
	// applies in place.
	DisabledMetrics []string `json:"disabledMetrics,omitempty"`
	// Label values that are exposed, separated by commas, by "metric,label"; any
	// other value of such a label becomes "unexpected". Default: empty, every value
	// is exposed. Cannot be combined with allowListMappingManifest. A change
	// applies in place.
	AllowListMapping map[string]string `json:"allowListMapping,omitempty"`
	// YAML file with what allowListMapping would say. Default: empty. A change of
	// the setting or of the file applies in place.
	AllowListMappingManifest string `json:"allowListMappingManifest,omitempty"`
}
