package v1beta1

// Metrics configures which metrics are exposed, and with which labels. The names of the
// fields are those of the MetricsConfiguration of k8s.io/component-base.
type Metrics struct {
	// The minor version before that of the process, to also expose the metrics that have
	// been hidden since then. Default: empty, they stay hidden. Allowed: 1.35. A change
	// applies in place.
	ShowHiddenMetricsForVersion string `json:"showHiddenMetricsForVersion,omitempty"`
	// Full names of metrics that are not exposed. Default: empty. A change applies in
	// place.
	DisabledMetrics []string `json:"disabledMetrics,omitempty"`
	// Exposed label values, separated by commas, for each "metric,label"; any other value
	// of such a label becomes "unexpected". Default: empty, every value is exposed. Cannot
	// be combined with allowListMappingManifest. A change applies in place.
	AllowListMapping map[string]string `json:"allowListMapping,omitempty"`
	// YAML file with the content of allowListMapping. Default: empty. A change of the
	// setting or of the file applies in place.
	AllowListMappingManifest string `json:"allowListMappingManifest,omitempty"`
}
