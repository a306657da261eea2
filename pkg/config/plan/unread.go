package plan

import (
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/v1beta1"
)

// Unread is a field, or a block, that nothing reads in a configuration.
type Unread struct {
	Path string
	// Message states that and the reason.
	Message string
	// DecidedBy is the field that causes it, empty if none does.
	DecidedBy string

	keys []string // nil for an entry of metrics.allowListMapping
}

// UnreadIn lists what has no effect because of what other fields say.
func UnreadIn(cfg *Config) []Unread {
	var list unreadList
	list.ofLeadership(cfg)
	list.ofServing(cfg.Serving)
	list.ofMetrics(cfg.Metrics)
	list.ofLogging(cfg)
	list.ofDeletions(cfg.DeletionBreaker)
	return list
}

// defaults must not be changed.
var defaults = sync.OnceValue(v1beta1.NewDefault)

// Effective is a configuration in which what has no effect has its default.
func Effective(cfg *Config) *Config {
	out := *cfg
	for _, u := range UnreadIn(cfg) {
		if u.keys != nil {
			diff.Take(&out, defaults(), u.keys)
		}
	}
	out.Metrics.AllowListMapping = exposed(cfg.Metrics)
	return &out
}

type unreadList []Unread

// add has fields of a block unread, because of what another field says.
func (l *unreadList) add(decidedBy, message, block string, fields ...string) {
	for _, name := range fields {
		path := fieldpath.Join(block, name)
		*l = append(*l, Unread{Path: path, Message: message, DecidedBy: decidedBy, keys: strings.Split(path, ".")})
	}
}

// ofLeadership leaves out the name of the Lease: events about the process are about it, with
// and without leader election.
func (l *unreadList) ofLeadership(cfg *Config) {
	if !ptr.Deref(cfg.LeaderElection.LeaderElect, true) {
		l.add("leaderElection.leaderElect", "has no effect while leaderElection.leaderElect is false", "leaderElection",
			"leaseDuration", "renewDeadline", "retryPeriod", "identity", "standby", "spread", "groups")
	}
	if !ptr.Deref(cfg.LeaderMigration.Enabled, false) {
		l.add("leaderMigration.enabled", "has no effect while leaderMigration.enabled is false", "leaderMigration",
			"leaderName", "component", "controllerLeaders")
	}
}

func (l *unreadList) ofServing(s v1beta1.Serving) {
	const headers = "serving.authentication.requestHeader"
	if ptr.Deref(s.Port, 0) == 0 {
		l.add("serving.port", "has no effect while serving.port is 0", "serving",
			"bindAddress", "permitPortSharing", "permitAddressSharing",
			"tls", "http2", "authentication", "authorization", "profiling", "contentionProfiling")
	}
	if !ptr.Deref(s.Profiling, true) {
		l.add("serving.profiling", "has no effect while serving.profiling is false", "serving", "contentionProfiling")
	}
	if !ptr.Deref(s.HTTP2.Enabled, true) {
		l.add("serving.http2.enabled", "has no effect while serving.http2.enabled is false", "serving.http2",
			"maxStreamsPerConnection")
	}
	if s.TLS.CertFile != "" {
		l.add("serving.tls.certFile", "has no effect while serving.tls.certFile is set", "serving.tls", "certDirectory")
	}
	if s.TLS.MinVersion == "VersionTLS13" {
		l.add("serving.tls.minVersion", "has no effect while serving.tls.minVersion is VersionTLS13", "serving.tls",
			"cipherSuites")
	}
	l.add("", "has no effect: a failed lookup is always tolerated, and retried until it succeeds",
		"serving.authentication", "tolerateLookupFailure")
	if s.Authentication.RequestHeader.ClientCAFile == "" {
		l.add(headers+".clientCAFile",
			"has no effect while requestHeader.clientCAFile is not set: the cluster's own settings are read",
			headers,
			"usernameHeaders", "uidHeaders", "groupHeaders", "extraHeaderPrefixes", "allowedNames")
	}
}

func (l *unreadList) ofMetrics(m v1beta1.Metrics) {
	disabled := disabledMetrics(m)
	for key := range m.AllowListMapping {
		if disabled(key) {
			*l = append(*l, Unread{Path: fieldpath.Join("metrics.allowListMapping", key), DecidedBy: "metrics.disabledMetrics",
				Message: "has no effect: the metric is in metrics.disabledMetrics"})
		}
	}
}

func (l *unreadList) ofDeletions(b v1beta1.DeletionBreaker) {
	if b.Mode == v1beta1.DeletionsDisabled || b.Mode == "" {
		l.add("deletionBreaker.mode", "has no effect while deletionBreaker.mode is Disabled", "deletionBreaker",
			"window", "share", "minimum", "exemptResources", "allowUntil")
	}
}

// disabledMetrics reports whether the metric of a "metric,label" is not exposed.
func disabledMetrics(m v1beta1.Metrics) func(key string) bool {
	names := sets.New(m.DisabledMetrics...)
	return func(key string) bool {
		name, _, _ := strings.Cut(key, ",")
		return names.Has(name)
	}
}

// exposed is what allowListMapping says about metrics that are exposed.
func exposed(m v1beta1.Metrics) map[string]string {
	if len(m.DisabledMetrics) == 0 {
		return m.AllowListMapping
	}
	disabled := disabledMetrics(m)
	out := maps.Clone(m.AllowListMapping)
	maps.DeleteFunc(out, func(key, _ string) bool { return disabled(key) })
	if len(out) == 0 {
		return nil
	}
	return out
}

func (l *unreadList) ofLogging(cfg *Config) {
	const options = "logging.options"
	o := cfg.Logging.Options
	for _, format := range []struct {
		name  string
		split bool
	}{{"text", o.Text.SplitStream}, {"json", o.JSON.SplitStream}} {
		if format.name != cfg.Logging.Format {
			l.add("logging.format", "has no effect while logging.format is "+cfg.Logging.Format, options, format.name)
		}
		if block := fieldpath.Join(options, format.name); !format.split {
			l.add(block+".splitStream", "has no effect without splitStream", block, "infoBufferSize")
		}
	}
}
