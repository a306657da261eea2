package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// Rule says what one field may hold on its own. Exactly one of the groups of
// fields is set. The validator and the JSON Schema read the same rules.
type Rule struct {
	// Path is the field.
	Path string

	// Number limits a numeric field.
	Number *NumberRange
	// Duration limits a duration.
	Duration *DurationRange
	// Enum lists the strings that are allowed.
	Enum []string
	// Pattern limits a string.
	Pattern *Pattern
}

// NumberRange is Min <= value <= Max.
type NumberRange struct {
	Min, Max float64
}

// DurationRange is Min <= value <= Max, or zero when ZeroAllowed.
type DurationRange struct {
	Min, Max time.Duration
	// ZeroAllowed admits 0s below Min; ZeroMeans says in a word what it does.
	ZeroAllowed bool
	ZeroMeans   string
}

// Pattern is a regular expression, a length, and both in words.
type Pattern struct {
	Regexp    *regexp.Regexp
	MaxLength int
	Words     string
}

var (
	subdomainPattern = regexp.MustCompile(`^` + dnsLabel + `(\.` + dnsLabel + `)*$`)
	labelPattern     = regexp.MustCompile(`^` + dnsLabel + `$`)
	identityPattern  = regexp.MustCompile(`^\S*$`)
)

const (
	dnsLabel     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	maxWorkers   = 1000
	unlimited    = time.Duration(math.MaxInt64)
	maxSubdomain = 253
)

// Rules returns the rules of all fields, in the order of the fields.
func Rules() []Rule {
	return []Rule{
		oneOf("clientConnection.contentType", "application/vnd.kubernetes.protobuf", "application/json"),
		number("clientConnection.qps", 0, 1_000_000),
		number("clientConnection.burst", 0, 1_000_000),

		duration("leaderElection.leaseDuration", time.Second, time.Hour),
		duration("leaderElection.renewDeadline", 10*time.Millisecond, time.Hour),
		duration("leaderElection.retryPeriod", 10*time.Millisecond, time.Hour),
		pattern("leaderElection.resourceName", subdomainPattern, maxSubdomain,
			"lower-case letters, digits, '-' and '.', starting and ending with a letter or digit"),
		pattern("leaderElection.resourceNamespace", labelPattern, 63,
			"lower-case letters, digits and '-', starting and ending with a letter or digit"),
		pattern("leaderElection.identity", identityPattern, maxSubdomain, "characters other than white space"),

		durationOrZero("resync.minPeriod", "never", time.Second, unlimited),

		durationOrZero("reload.settleTime", "at once", 0, 10*time.Second),
		duration("reload.pollInterval", time.Second, time.Hour),
		durationOrZero("reload.drainTimeout", "do not wait", 0, 10*time.Minute),

		number("serving.port", 0, 65535),
		oneOf("serving.tls.minVersion", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
		durationOrZero("serving.authentication.cacheTTL", "not at all", 0, time.Hour),
		durationOrZero("serving.authorization.authorizedTTL", "not at all", 0, time.Hour),
		durationOrZero("serving.authorization.unauthorizedTTL", "not at all", 0, time.Hour),

		oneOf("logging.format", "text", "json"),
		duration("logging.flushFrequency", time.Millisecond, unlimited),
		number("logging.verbosity", 0, math.MaxInt32),

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
		durationOrZero("controllers.endpointslice-controller.endpointUpdatesBatchPeriod", "at once", 0, time.Hour),
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
		durationOrZero("controllers.endpoints-controller.endpointUpdatesBatchPeriod", "at once", 0, time.Hour),
		workers("endpointslice-mirroring-controller", 50),
		resync("endpointslice-mirroring-controller"),
		number("controllers.endpointslice-mirroring-controller.maxEndpointsPerSubset", 1, 1000),
		durationOrZero("controllers.endpointslice-mirroring-controller.endpointUpdatesBatchPeriod", "at once", 0, time.Hour),
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
	return Rule{Path: path, Pattern: &Pattern{expression, maxLength, words}}
}

func byPath(rules []Rule) map[string]Rule {
	out := map[string]Rule{}
	for _, rule := range rules {
		out[rule.Path] = rule
	}
	return out
}

// Allowed says in words what the rule admits.
func (r Rule) Allowed() string {
	switch {
	case r.Number != nil:
		return fmt.Sprintf("%s to %s", formatNumber(r.Number.Min), formatNumber(r.Number.Max))
	case r.Duration != nil:
		return r.Duration.words()
	case r.Enum != nil:
		return strings.Join(r.Enum, ", ")
	}
	return fmt.Sprintf("at most %d %s", r.Pattern.MaxLength, r.Pattern.Words)
}

func (d *DurationRange) words() string {
	text := fmt.Sprintf("%s to %s", formatDuration(d.Min), formatDuration(d.Max))
	if d.Max == unlimited {
		text = formatDuration(d.Min) + " or more"
	}
	if !d.ZeroAllowed {
		return text
	}
	if d.Min == 0 {
		return fmt.Sprintf("%s, where 0s means %s", text, d.ZeroMeans)
	}
	return fmt.Sprintf("0s (%s), or %s", d.ZeroMeans, text)
}

func (d *DurationRange) admits(value time.Duration) bool {
	return (value == 0 && d.ZeroAllowed) || (value >= d.Min && value <= d.Max)
}

// admits says whether a decoded scalar satisfies the rule, and if not, why.
func (r Rule) admits(value any) (string, bool) {
	switch {
	case r.Number != nil:
		n, ok := asFloat(value)
		if !ok || (n >= r.Number.Min && n <= r.Number.Max) {
			return "", true
		}
		return fmt.Sprintf("must be %s, not %s", r.Allowed(), formatNumber(n)), false
	case r.Duration != nil:
		d, ok := asDuration(value)
		if !ok || r.Duration.admits(d) {
			return "", true
		}
		return fmt.Sprintf("must be %s, not %s", r.Allowed(), formatDuration(d)), false
	case r.Enum != nil:
		return r.admitsWord(value)
	}
	text, ok := value.(string)
	if !ok || (len(text) <= r.Pattern.MaxLength && r.Pattern.Regexp.MatchString(text)) {
		return "", true
	}
	return fmt.Sprintf("must be %s, not %s", r.Allowed(), shorten(text)), false
}

func (r Rule) admitsWord(value any) (string, bool) {
	text, ok := value.(string)
	if !ok {
		return "", true
	}
	for _, allowed := range r.Enum {
		if text == allowed {
			return "", true
		}
	}
	message := fmt.Sprintf("must be one of %s, not %s", r.Allowed(), shorten(text))
	if best := nearest(text, r.Enum); best != "" {
		message += fmt.Sprintf(", did you mean %q?", best)
	}
	return message, false
}

func asFloat(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func asDuration(value any) (time.Duration, bool) {
	switch v := value.(type) {
	case string:
		d, err := time.ParseDuration(v)
		return d, err == nil
	case int64:
		return time.Duration(v), true
	}
	return 0, false
}

// formatDuration leaves out the zero parts that time.Duration prints: 12h, not 12h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func formatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%g", f)
}
